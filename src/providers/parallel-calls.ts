/**
 * Calls that a model of OpenAI's wrapped in one of `parallel`, a tool that nobody declared: `{"tool_uses": [{"recipient_name": "functions.f",
 * "parameters": {…}}]}`. Whoever gets them could answer none of them, so they go on as what they are.
 * Source: @ai-sdk/openai 4.0 (expand-parallel-tool-call), https://community.openai.com/t/model-tries-to-call-unknown-function-multi-tool-use-parallel/490653
 */
import { isObject, listOf, objectOf, parseJson, textOf } from "../lib/json/json.ts";
import type { AnswerMessage, ChunkBody, CompletionBody, ToolCall, ToolCallDelta } from "../protocols/chat/schema.ts";
import { toolName } from "../protocols/chat/tools.ts";
import { MappedDecoder } from "./mapped-answers.ts";
import type { AnsweredCall, StreamDecoder } from "./provider.ts";

const wrappers: ReadonlySet<unknown> = new Set(["parallel", "multi_tool_use.parallel"]);
const prefix = "functions.";

const declaredBy = ({ request }: AnsweredCall): ReadonlySet<unknown> => new Set((request.tools ?? []).map(toolName));

type Declared = ReturnType<typeof declaredBy>;

const isWrapper = (name: unknown, declared: Declared): boolean => wrappers.has(name) && !declared.has(name);

/** @returns undefined where it wraps anything else than calls of declared functions */
function unwrapped(id: string, written: string, declared: Declared): ToolCall[] | undefined {
  const uses = listOf(objectOf(parseJson(written))?.["tool_uses"]);
  const calls = uses.map((use, at): ToolCall | undefined => {
    const { recipient_name, parameters } = objectOf(use) ?? {};
    const recipient = textOf(recipient_name) ?? "";
    const name = recipient.slice(prefix.length);
    if (!recipient.startsWith(prefix) || !declared.has(name) || !isObject(parameters)) return undefined;
    return { id: `${id}_${at}`, type: "function", function: { name, arguments: JSON.stringify(parameters) } };
  });
  return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
}

export function withoutWrappedCalls(answer: CompletionBody, call: AnsweredCall): CompletionBody {
  const isPlain = ({ message }: { message: AnswerMessage }) =>
    !message.tool_calls?.some((one) => wrappers.has(toolName(one)));
  if (answer.choices.every(isPlain)) return answer;
  const declared = declaredBy(call);
  const choices = answer.choices.map((choice) => {
    const tool_calls = (choice.message.tool_calls ?? []).flatMap((one) => {
      if (one.type !== "function" || !isWrapper(toolName(one), declared)) return [one];
      return unwrapped((one as ToolCall).id, (one as ToolCall).function.arguments, declared) ?? [one];
    });
    return choice.message.tool_calls === undefined ? choice : { ...choice, message: { ...choice.message, tool_calls } };
  });
  return { ...answer, choices };
}

export function unwrappingDecoder(decoder: StreamDecoder, call: AnsweredCall): StreamDecoder {
  const unwrapping = new UnwrappedCalls(declaredBy(call));
  return new MappedDecoder(decoder, (bodies) => unwrapping.push(bodies));
}

type Held = { readonly id: string; readonly name: string; written: string };

/** Holds a wrapper's fragments until the choice ends; its calls have the last numbers then. */
class UnwrappedCalls {
  readonly #declared: Declared;
  /** By the choice, and the call's number. */
  readonly #held = new Map<string, Held>();
  readonly #numbers = new Map<string, number>();
  readonly #counts = new Map<number, number>();

  constructor(declared: Declared) {
    this.#declared = declared;
  }

  push(bodies: ChunkBody[]): ChunkBody[] {
    const begins = bodies.some(({ choices }) =>
      choices.some(({ delta }) => delta.tool_calls?.some((call) => isWrapper(call.function?.name, this.#declared))),
    );
    if (!begins && this.#held.size === 0) {
      for (const { choices } of bodies) for (const { index, delta } of choices) this.#count(index, delta.tool_calls);
      return bodies;
    }
    return bodies.map((body) => ({
      ...body,
      choices: body.choices.map((choice) => {
        const { index, delta, finish_reason } = choice;
        const calls = (delta.tool_calls ?? []).flatMap((call) => this.#taken(index, call));
        if (finish_reason !== null) calls.push(...this.#released(index));
        const { tool_calls: _, ...rest } = delta;
        return { ...choice, delta: calls.length > 0 ? { ...rest, tool_calls: calls } : rest };
      }),
    }));
  }

  #count(choice: number, calls: readonly ToolCallDelta[] = []): void {
    for (const { index } of calls) this.#number(choice, index);
  }

  /** The number under which a call goes on: the wrapper's own is no call's. */
  #number(choice: number, index: number): number {
    const key = `${choice} ${index}`;
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const next = this.#counts.get(choice) ?? 0;
    this.#counts.set(choice, next + 1);
    this.#numbers.set(key, next);
    return next;
  }

  #taken(choice: number, call: ToolCallDelta): ToolCallDelta[] {
    const key = `${choice} ${call.index}`;
    const held = this.#held.get(key);
    const written = call.function?.arguments ?? "";
    if (held !== undefined) {
      held.written += written;
      return [];
    }
    const name = call.function?.name;
    if (name === undefined || !isWrapper(name, this.#declared))
      return [{ ...call, index: this.#number(choice, call.index) }];
    this.#held.set(key, { id: call.id ?? `call_${key.replace(" ", "_")}`, name, written });
    return [];
  }

  #released(choice: number): ToolCallDelta[] {
    const released: ToolCallDelta[] = [];
    for (const [key, { id, name, written }] of this.#held) {
      if (!key.startsWith(`${choice} `)) continue;
      this.#held.delete(key);
      const plain: ToolCall = { id, type: "function", function: { name, arguments: written } };
      for (const call of unwrapped(id, written, this.#declared) ?? [plain]) {
        const next = this.#counts.get(choice) ?? 0;
        this.#counts.set(choice, next + 1);
        released.push({ index: next, ...call });
      }
    }
    return released;
  }
}
