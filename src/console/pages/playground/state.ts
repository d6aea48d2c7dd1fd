/** What is being tried. It outlives a look at another page, and is nowhere but in this page: texts are not in the address. */
import { signal } from "@preact/signals";
import type { Answer, Json, Turn } from "./call.ts";

export type Settings = {
  readonly system: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly temperature: string;
  readonly maxTokens: string;
  readonly thinkingBudget: string;
  readonly thoughts: boolean;
  /** JSON. */
  readonly tools: string;
};

export const settings = signal<Settings>({
  ...{ system: "", variables: {}, temperature: "", maxTokens: "", thinkingBudget: "", thoughts: false, tools: "" },
});
export const turns = signal<readonly Turn[]>([]);
/** Of each of the two columns, to each turn. */
export const answers = signal<readonly (readonly (Answer | undefined)[])[]>([[], []]);
/** What is written and not sent yet. */
export const draft = signal<Turn>({ text: "" });
/** What is written for tools that were called, by column and call. */
export const toolTexts = signal<Readonly<Record<string, string>>>({});
/** Ends the calls under way. */
export const calling = signal<AbortController | undefined>(undefined);

export function setAnswer(column: number, turn: number, answer: Answer): void {
  answers.value = answers.value.map((own, at) => (at === column ? own.toSpliced(turn, 1, answer) : own));
}

export function startAnew(): void {
  calling.value?.abort();
  turns.value = [];
  toolTexts.value = {};
  answers.value = [[], []];
}

/** @returns why the text is no list of tools */
export function toolsFault(text: string): string | undefined {
  if (text.trim() === "") return undefined;
  try {
    return Array.isArray(JSON.parse(text)) ? undefined : "This must be a list: [{…}].";
  } catch (error) {
    return `This is no JSON: ${(error as Error).message}`;
  }
}

/** @param declared the persona's variables; undefined: it is a model @returns what both of them get beside the messages */
export function parametersOf(declared: readonly string[] | undefined): Json {
  const { variables, temperature, maxTokens, thinkingBudget, thoughts, tools } = settings.value;
  const given = Object.entries(variables).filter(([name, value]) => value !== "" && declared?.includes(name));
  const numbers = { temperature, max_tokens: maxTokens, thinking_budget: thinkingBudget };
  return {
    ...Object.fromEntries(
      Object.entries(numbers)
        .filter(([, text]) => text.trim() !== "")
        .map(([name, text]) => [name, Number(text)]),
    ),
    ...(thoughts && { include_thoughts: true }),
    ...(tools.trim() !== "" && toolsFault(tools) === undefined && { tools: JSON.parse(tools) as unknown }),
    ...(given.length > 0 && { variables: Object.fromEntries(given) }),
  };
}
