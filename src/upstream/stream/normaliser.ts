/**
 * The one legal order of an answer, whatever the upstream's habits: the role first, one finish for each choice, no empty
 * fragments, the thinking in `metadata`, the counts last. Adapters hand in bodies in any decent order; what comes out is still
 * the inner form, without an envelope and written by a protocol.
 */
import { endOfCalls, writtenIn } from "../../protocols/chat/cut-calls.ts";
import { isEmptyMember } from "../../protocols/chat/empty-members.ts";
import { laterUsage } from "../../protocols/chat/later-usage.ts";
import { plainText } from "../../protocols/chat/plain-text.ts";
import type {
  AnswerMessage,
  Choice,
  ChunkBody,
  ChunkChoice,
  CompletionBody,
  Delta,
  FinishReason,
  Logprobs,
  Metadata,
  ToolCallDelta,
  Usage,
} from "../../protocols/chat/schema.ts";

/** The request's options that affect normalisation. */
export type NormalForm = {
  /** The caller asked for the model's thoughts: they go into `metadata.thinking` too. */
  readonly thinkingRequested: boolean;
  /** The number of choices that were asked for. */
  readonly choices: number;
  /** The caller asked for `usage.cost`. */
  readonly showsCost?: boolean;
  /** The caller is not told who answered: members beyond the public format are left out, which are one maker's or another's. */
  readonly hidesUpstream?: boolean;
  /** Joins the upstream's `metadata`. */
  readonly metadata?: Metadata | undefined;
};

/** Counts in place of those that an upstream did not report: clients want the numbers all the same. */
const noUsage: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

/** The thinking of choice 0 is `metadata.thinking`, of others `metadata["thinking.1"]`… */
function withThinking(metadata: Metadata | undefined, thoughts: ReadonlyMap<number, string>): Metadata | undefined {
  const entries = [...thoughts].filter(([, text]) => text !== "");
  if (entries.length === 0) return metadata;
  const thinking = Object.fromEntries(
    entries.map(([index, text]) => [index === 0 ? "thinking" : `thinking.${index}`, text]),
  );
  return { ...metadata, ...thinking };
}

const thoughtsIn = (choices: readonly Choice[]): ReadonlyMap<number, string> =>
  new Map(choices.map(({ index, message }) => [index, message.reasoning_content ?? ""]));

/** Normalises a plain answer. */
export function normaliseCompletion(body: CompletionBody, form: NormalForm): CompletionBody {
  const { choices: given, metadata } = body;
  const isOne = given.length === 1 && given[0]!.index === 0;
  const choices = isOne ? [normalChoice(given[0]!, 0)] : numberedChoices(given, form.choices);
  const joined = form.metadata === undefined ? metadata : { ...metadata, ...form.metadata };
  const allMetadata = form.thinkingRequested ? withThinking(joined, thoughtsIn(choices)) : joined;
  const usage = body.usage ?? noUsage;
  const normal: CompletionBody = { choices, usage };
  if (allMetadata !== undefined) normal.metadata = allMetadata;
  for (const name in body) if (name !== "choices" && name !== "usage" && name !== "metadata") normal[name] = body[name];
  return form.hidesUpstream === true ? withoutMaker(normal, usage) : normal;
}

function numberedChoices(given: readonly Choice[], asked: number): Choice[] {
  const numbers = new ChoiceNumbers(asked);
  return given.map((choice) => normalChoice(choice, numbers.of(choice.index)));
}

function withoutMaker({ choices, metadata, service_tier }: CompletionBody, usage: Usage): CompletionBody {
  return {
    choices: choices.map(({ index, message, finish_reason, logprobs }) => ({
      index,
      message,
      finish_reason,
      logprobs: logprobs ?? null,
    })),
    usage: publicCounts(usage),
    ...(metadata !== undefined && { metadata }),
    ...(service_tier !== undefined && { service_tier }),
  };
}

type Extras = Omit<ChunkBody, "choices" | "usage" | "metadata">;

function withoutExtras({ service_tier, ended_thought }: Extras): Extras {
  return { ...(service_tier !== undefined && { service_tier }), ...(ended_thought !== undefined && { ended_thought }) };
}

/** The counts that the public format has. */
function publicCounts({ prompt_tokens, completion_tokens, total_tokens, ...details }: Usage): Usage {
  const { prompt_tokens_details, completion_tokens_details } = details;
  return {
    ...{ prompt_tokens, completion_tokens, total_tokens },
    ...(prompt_tokens_details !== undefined && { prompt_tokens_details }),
    ...(completion_tokens_details !== undefined && { completion_tokens_details }),
  };
}

/** Written member by member, as a spread of objects of any form takes several times as long. */
function normalChoice(choice: Choice, index: number): Choice {
  const normal = {} as Choice;
  for (const name in choice) normal[name] = choice[name];
  normal.index = index;
  normal.message = messageOf(choice.message);
  const { tool_calls } = choice.message;
  if (tool_calls !== undefined) normal.finish_reason = endOfCalls(choice.finish_reason, tool_calls.map(writtenIn));
  normal.logprobs = choice.logprobs == null ? null : wholeLogprobs(choice.logprobs);
  return normal;
}

/**
 * Numbers the choices of an answer from 0, as formats with a single answer read number 0 alone. A number below the count
 * that was asked for stays; any other becomes the lowest free one, in the order in which the choices appear.
 */
class ChoiceNumbers {
  readonly #asked: number;
  readonly #numbers = new Map<number, number>();
  /** True once a choice has another number than the upstream's. */
  differ = false;

  constructor(asked: number) {
    this.#asked = asked;
  }

  /** @param index the upstream's number */
  of(index: number): number {
    const known = this.#numbers.get(index);
    if (known !== undefined) return known;
    const taken = new Set(this.#numbers.values());
    let number = index < this.#asked ? index : 0;
    if (taken.has(number)) for (number = 0; taken.has(number); number += 1);
    this.#numbers.set(index, number);
    this.differ ||= number !== index;
    return number;
  }
}

/** The arguments of a stream's calls, by choice and call. */
class CallEnds {
  readonly #written = new Map<number, Map<number, string>>();

  push(choice: number, call: ToolCallDelta): void {
    const calls = this.#written.get(choice) ?? new Map<number, string>();
    this.#written.set(choice, calls);
    calls.set(call.index, (calls.get(call.index) ?? "") + writtenIn(call));
  }

  end(choice: number, reason: FinishReason): FinishReason {
    return endOfCalls(reason, [...(this.#written.get(choice)?.values() ?? [])]);
  }
}

/** Normalises the chunks of one stream. */
export class Normaliser {
  readonly #form: NormalForm;
  readonly #numbers: ChoiceNumbers;
  readonly #started = new Set<number>();
  /** The last end of each choice, until more comes behind it. */
  readonly #finished = new Map<number, FinishReason>();
  readonly #thoughts = new Map<number, string>();
  readonly #calls = new CallEnds();
  #metadata: Metadata | undefined;
  #usage: Usage | undefined;

  constructor(form: NormalForm) {
    this.#form = form;
    this.#metadata = form.metadata;
    this.#numbers = new ChoiceNumbers(form.choices);
  }

  /** The usage that the upstream reported by now. */
  get usage(): Usage | undefined {
    return this.#usage;
  }

  /** True once every choice that began has ended, and one did. */
  get complete(): boolean {
    if (this.#finished.size === 0) return false;
    for (const index of this.#started) if (!this.#finished.has(index)) return false;
    return true;
  }

  /** @returns the body itself where it is plain text of choice 0 that goes on; else chunks of one choice at most */
  push(body: ChunkBody): readonly ChunkBody[] {
    const hides = this.#form.hidesUpstream === true;
    if (this.#started.has(0) && !this.#numbers.differ && !hides && isNormal(body)) return [body];
    const { choices, usage, metadata, ...all } = body;
    const extras = hides ? withoutExtras(all) : all;
    if (usage != null) this.#usage = laterUsage(this.#usage, usage);
    if (metadata !== undefined) this.#metadata = { ...this.#metadata, ...metadata };
    const chunks: ChunkBody[] = [];
    for (const choice of choices) this.#choice(choice, extras, chunks);
    if (choices.length === 0 && saysAnything(extras)) chunks.push({ ...extras, choices: [] });
    return chunks;
  }

  /** The final chunk of a complete stream: the usage, without choices. */
  end(): ChunkBody {
    const usage = this.#usage ?? noUsage;
    return { choices: [], usage: this.#form.hidesUpstream === true ? publicCounts(usage) : usage };
  }

  #choice(choice: ChunkChoice, extras: Omit<ChunkBody, "choices">, chunks: ChunkBody[]): void {
    const { index: given, delta, finish_reason, logprobs, ...named } = choice;
    const choiceExtras = this.#form.hidesUpstream === true ? {} : named;
    const index = this.#numbers.of(given);
    if (this.#form.thinkingRequested && delta.reasoning_content) {
      this.#thoughts.set(index, (this.#thoughts.get(index) ?? "") + delta.reasoning_content);
    }
    const isSilent = isEmptyLogprobs(logprobs);
    // An empty answer still has its role.
    const isEmpty = isSilent && finish_reason !== null && !this.#started.has(index);
    const fragment = fragmentOf(delta) ?? (isEmpty ? { content: "" } : undefined);
    if (fragment !== undefined || !isSilent) {
      this.#finished.delete(index);
      const [first, ...others] = oneCallEach(fragment ?? {});
      const fragmentChoice = {
        index,
        delta: this.#opened(index, first!),
        finish_reason: null,
        ...(logprobs == null ? {} : { logprobs: wholeLogprobs(logprobs) }),
        ...(finish_reason === null ? choiceExtras : {}),
      };
      chunks.push({ ...extras, choices: [fragmentChoice] });
      for (const delta of others) chunks.push({ ...extras, choices: [{ index, delta, finish_reason: null }] });
    }
    if (delta.tool_calls !== undefined) for (const call of delta.tool_calls) this.#calls.push(index, call);
    if (finish_reason === null) return;
    const end = this.#calls.end(index, finish_reason);
    if (this.#finished.get(index) === end) return;
    this.#finished.set(index, end);
    const isLast = this.#finished.size >= this.#form.choices;
    const metadata = isLast ? withThinking(this.#metadata, this.#thoughts) : undefined;
    chunks.push({
      ...extras,
      choices: [{ index, delta: {}, finish_reason: end, ...choiceExtras }],
      ...(metadata === undefined ? {} : { metadata }),
    });
  }

  /** Adds the role to the first fragment; with tool calls the format requires a null content. */
  #opened(index: number, fragment: Delta): Delta {
    if (this.#started.has(index)) return fragment;
    this.#started.add(index);
    if (fragment.tool_calls !== undefined && fragment.content === undefined) {
      return { role: "assistant", content: null, ...fragment };
    }
    return { role: "assistant", ...fragment };
  }
}

/** True if a chunk after the first needs no change. */
function isNormal({ choices, usage, metadata }: ChunkBody): boolean {
  // An empty text is left out.
  return choices.length === 1 && usage == null && metadata === undefined && Boolean(plainText(choices[0]!));
}

const placeTakers = ["tool_calls", "function_call", "refusal", "audio"] as const;

/** The message without its empty members, but for those that are always there: role, content and refusal. */
function messageOf(message: AnswerMessage): AnswerMessage {
  const whole: AnswerMessage = { role: "assistant", content: message.content };
  // As OpenAI answers where thoughts took all there was: only calls, a refusal or a sound stand in place of a text.
  if (message.content === null && placeTakers.every((name) => isEmptyMember(name, message[name]))) whole.content = "";
  for (const name in message) if (name !== "role" && !isEmptyMember(name, message[name])) whole[name] = message[name];
  whole.refusal ??= null;
  return whole;
}

/** Both lists, null where there is none: typed clients want them. */
function wholeLogprobs(logprobs: Logprobs): Logprobs {
  return { ...logprobs, content: logprobs.content ?? null, refusal: logprobs.refusal ?? null };
}

/** The delta without its role and its empty members; undefined when nothing is left to send. */
function fragmentOf(delta: Delta): Delta | undefined {
  let fragment: Delta | undefined;
  for (const name in delta) {
    const value = delta[name];
    if (name === "role" || isEmptyMember(name, value)) continue;
    fragment ??= {};
    fragment[name] = value;
  }
  return fragment;
}

/**
 * Puts calls that came together into chunks of their own, as OpenAI sends them: some clients read the first of a delta alone.
 * https://github.com/run-llama/llama_index/blob/main/llama-index-integrations/llms/llama-index-llms-openai/llama_index/llms/openai/utils.py
 */
function oneCallEach(fragment: Delta): readonly Delta[] {
  const { tool_calls: calls = [] } = fragment;
  if (calls.length < 2) return [fragment];
  return calls.map((call, at) => ({ ...(at === 0 && fragment), tool_calls: [call] }));
}

function saysAnything(extras: object): boolean {
  return Object.values(extras).some((value) => value !== undefined);
}

function isEmptyLogprobs(logprobs: Logprobs | null | undefined): boolean {
  return (logprobs?.content?.length ?? 0) === 0 && (logprobs?.refusal?.length ?? 0) === 0;
}
