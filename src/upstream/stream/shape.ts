/**
 * The one legal form of an answer, whatever the upstream's habits: this is the only writer of `id`, `created`, `model`,
 * of the role, of the usage chunk and of the thinking in `metadata`. Adapters hand in bodies in any decent order.
 */

import { isEmptyMember } from "../../protocols/chat/empty-members.ts";
import type {
  AnswerMessage,
  ChatCompletion,
  ChatRequest,
  ChunkBody,
  ChunkChoice,
  CompletionBody,
  Delta,
  Envelope,
  Logprobs,
  Metadata,
  Usage,
} from "../../protocols/chat/schema.ts";
import type { ErrorObject } from "../../protocols/errors.ts";
import type { Frame } from "./passthrough.ts";

export type Shaping = {
  readonly envelope: Envelope;
  /** The caller asked for the closing usage chunk. */
  readonly includeUsage: boolean;
  /** The caller asked for the model's thoughts: they go into `metadata.thinking` too. */
  readonly thinkingRequested: boolean;
  /** How many choices were asked for. */
  readonly choices: number;
};

/** What a caller's request says about the form of its answer. @param thinkingRequested as the provider reads the call */
export function shapingFor(request: ChatRequest, envelope: Envelope, thinkingRequested: boolean): Shaping {
  return {
    envelope,
    includeUsage: request.stream_options?.include_usage === true,
    thinkingRequested,
    choices: request.n ?? 1,
  };
}

/** Where an upstream reported no counts: the format wants the numbers all the same. */
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

/** Gives a plain answer its envelope and its last details. */
export function shapeCompletion(body: CompletionBody, shaping: Shaping): ChatCompletion {
  const { choices, usage, metadata, ...rest } = body;
  const thoughts = new Map<number, string>();
  if (shaping.thinkingRequested) {
    for (const { index, message } of choices) thoughts.set(index, message.reasoning_content ?? "");
  }
  const shapedMetadata = withThinking(metadata, thoughts);
  return {
    id: shaping.envelope.id,
    object: "chat.completion",
    created: shaping.envelope.created,
    model: shaping.envelope.model,
    choices: choices.map((choice) => ({
      ...choice,
      message: messageOf(choice.message),
      logprobs: choice.logprobs == null ? null : wholeLogprobs(choice.logprobs),
    })),
    usage: usage ?? noUsage,
    ...(shapedMetadata === undefined ? {} : { metadata: shapedMetadata }),
    ...rest,
  };
}

/** One stream's shaper. Takes what a decoder gives, gives the JSON texts of the chunks to send. */
export class StreamShaper {
  readonly #shaping: Shaping;
  /** The fields that every chunk has, as one JSON object. */
  readonly #envelope: string;
  /** The text before and after a plain fragment of choice 0, by far the most common chunk. */
  readonly #head: string;
  readonly #plainHead: string;
  readonly #plainTail: string;
  readonly #started = new Set<number>();
  readonly #finished = new Set<number>();
  readonly #thoughts = new Map<number, string>();
  #metadata: Metadata | undefined;
  #usage: Usage | undefined;
  #extrasKey: unknown[] = [];
  #extrasText = "";
  #lastWasPlain = false;
  #frame: Frame | undefined;

  constructor(shaping: Shaping) {
    this.#shaping = shaping;
    const { id, created, model } = shaping.envelope;
    this.#envelope = JSON.stringify({ id, object: "chat.completion.chunk", created, model });
    this.#head = `${this.#envelope.slice(0, -1)},"choices":`;
    this.#plainHead = `${this.#head}[{"index":0,"delta":{"content":`;
    this.#plainTail = `},"finish_reason":null}]${shaping.includeUsage ? ',"usage":null' : ""}`;
  }

  /** The counts that the upstream reported last. */
  get usage(): Usage | undefined {
    return this.#usage;
  }

  /** True once every choice that began has ended, and one did. */
  get complete(): boolean {
    if (this.#finished.size === 0) return false;
    for (const index of this.#started) if (!this.#finished.has(index)) return false;
    return true;
  }

  /** True once a fragment went out: from then on no other upstream may take over. */
  get begun(): boolean {
    return this.#started.size > 0;
  }

  /** Adds the chunks that the bodies amount to. */
  push(bodies: readonly ChunkBody[], texts: string[] = []): string[] {
    for (const body of bodies) {
      this.#lastWasPlain = false;
      this.#body(body, texts);
      if (body.choices.length !== 1) this.#lastWasPlain = false;
    }
    return texts;
  }

  /**
   * Adds the chunk of a body that is like the last one but for its text, where that was a plain fragment of choice 0.
   * @param json the text, as `JSON.stringify` writes it
   * @returns false where it was not: then nothing was done
   */
  pushSame(json: string, texts: string[]): boolean {
    if (this.#lastWasPlain && json !== '""')
      texts.push(`${this.#plainHead}${json}${this.#plainTail}${this.#extrasText}}`);
    return this.#lastWasPlain;
  }

  /** What stands around the text that `pushSame` would take; undefined where it would take none. */
  get sameFrame(): Frame | undefined {
    if (!this.#lastWasPlain) return undefined;
    const tail = `${this.#plainTail}${this.#extrasText}}`;
    if (this.#frame?.tail !== tail) this.#frame = { head: this.#plainHead, tail };
    return this.#frame;
  }

  /** What closes a complete stream, but for `[DONE]`. */
  end(): string[] {
    if (!this.#shaping.includeUsage) return [];
    return [`${this.#head}[],"usage":${JSON.stringify(this.#usage ?? noUsage)}}`];
  }

  /**
   * The one data object of a fault after the first chunk: `error` first, and no `choices`. Some clients read whatever has
   * choices as a chunk and look no further, others see an error only where the line begins with it:
   * https://github.com/vercel/ai/blob/main/packages/openai/src/chat/openai-chat-api.ts (chunk or error, in this order),
   * https://github.com/sashabaranov/go-openai/blob/master/stream_reader.go (`data: {"error":`).
   */
  fault(error: ErrorObject | Record<string, unknown>): string {
    return `{"error":${JSON.stringify(error)},${this.#envelope.slice(1)}`;
  }

  #body(body: ChunkBody, texts: string[]): void {
    if (body.usage != null) this.#usage = body.usage;
    if (body.metadata !== undefined) this.#metadata = { ...this.#metadata, ...body.metadata };
    const extras = this.#extras(body);
    if (body.choices.length === 0) {
      if (extras.own) texts.push(this.#text("[]", "", extras.text));
      return;
    }
    for (const choice of body.choices) this.#choice(choice, extras.text, texts);
  }

  #choice(choice: ChunkChoice, extras: string, texts: string[]): void {
    const { index, delta, finish_reason } = choice;
    if (this.#shaping.thinkingRequested && delta.reasoning_content) {
      this.#thoughts.set(index, (this.#thoughts.get(index) ?? "") + delta.reasoning_content);
    }
    const fragment = fragmentOf(delta);
    const worthSending = fragment !== undefined || (choice.logprobs != null && !isEmptyLogprobs(choice.logprobs));
    if (worthSending) this.#fragment(choice, fragment ?? {}, extras, texts);
    if (finish_reason === null || this.#finished.has(index)) return;
    if (!this.#started.has(index)) this.#fragment(choice, { content: "" }, extras, texts);
    this.#finished.add(index);
    const metadata =
      this.#finished.size >= this.#shaping.choices ? withThinking(this.#metadata, this.#thoughts) : undefined;
    const { index: _i, delta: _d, finish_reason: _f, logprobs: _l, ...choiceExtras } = choice;
    const finish = JSON.stringify([{ index, delta: {}, finish_reason, ...choiceExtras }]);
    texts.push(this.#text(finish, metadata === undefined ? "" : `,"metadata":${JSON.stringify(metadata)}`, extras));
  }

  #fragment(choice: ChunkChoice, fragment: Delta, extras: string, texts: string[]): void {
    const { index, delta: _d, finish_reason, logprobs, ...choiceExtras } = choice;
    const first = !this.#started.has(index);
    if (first) this.#started.add(index);
    const plain = index === 0 && !first && logprobs == null && isPlainText(fragment) && isEmptyObject(choiceExtras);
    if (plain) {
      this.#lastWasPlain = finish_reason === null;
      texts.push(`${this.#plainHead}${JSON.stringify(fragment.content)}${this.#plainTail}${extras}}`);
      return;
    }
    const opened: Delta = first ? openWithRole(fragment) : fragment;
    const shaped = {
      index,
      delta: opened,
      finish_reason: null,
      ...(logprobs == null ? {} : { logprobs: wholeLogprobs(logprobs) }),
      ...(finish_reason === null ? choiceExtras : {}),
    };
    texts.push(this.#text(JSON.stringify([shaped]), "", extras));
  }

  #text(choices: string, metadata: string, extras: string): string {
    return `${this.#head}${choices}${this.#shaping.includeUsage ? ',"usage":null' : ""}${metadata}${extras}}`;
  }

  /** Top-level fields beyond the known ones, as `,"key":value…`; remembered, as they rarely change within a stream. */
  #extras(body: ChunkBody): { text: string; own: boolean } {
    const key: unknown[] = [];
    for (const name in body) {
      if (name === "choices" || name === "usage" || name === "metadata") continue;
      const value = body[name];
      if (value !== undefined) key.push(name, value);
    }
    if (key.length !== this.#extrasKey.length || key.some((part, at) => part !== this.#extrasKey[at])) {
      let text = "";
      for (let at = 0; at < key.length; at += 2) text += `,${JSON.stringify(key[at])}:${JSON.stringify(key[at + 1])}`;
      this.#extrasKey = key;
      this.#extrasText = text;
    }
    return { text: this.#extrasText, own: key.length > 0 };
  }
}

/** The message without its empty members, but for those that are always there: role, content and refusal. */
function messageOf(message: AnswerMessage): AnswerMessage {
  const whole: AnswerMessage = { role: "assistant", content: message.content };
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

/** The role rides on the first fragment; beside tool calls the format wants a null content. */
function openWithRole(fragment: Delta): Delta {
  if (fragment.tool_calls !== undefined && fragment.content === undefined) {
    return { role: "assistant", content: null, ...fragment };
  }
  return { role: "assistant", ...fragment };
}

function isPlainText(delta: Delta): boolean {
  for (const name in delta) if (name !== "content") return false;
  return typeof delta.content === "string";
}

function isEmptyObject(value: object): boolean {
  for (const _ in value) return false;
  return true;
}

function isEmptyLogprobs(logprobs: { content: unknown[] | null; refusal?: unknown[] | null }): boolean {
  return (logprobs.content?.length ?? 0) === 0 && (logprobs.refusal?.length ?? 0) === 0;
}
