/** Whether an answer is the one that the provider gave: nothing lost, reordered, changed or miscounted. */
import {
  type AnswerShape,
  cachedTokens,
  filler,
  fragmentText,
  plainCompletionTokens,
  promptTokens,
  splitFragment,
} from "./answer-shape.ts";
import type { ClientFormat } from "./calls.ts";

export type Expectation = {
  readonly shape: AnswerShape;
  /** Default: chat completions. */
  readonly format?: ClientFormat;
  readonly streamed: boolean;
  readonly includeUsage: boolean;
  /** The text of a plain answer, when it is not the shape's own. */
  readonly text?: string;
};

export interface AnswerCheck {
  /** @param at when these bytes came, in milliseconds */
  push(bytes: Uint8Array, at: number): void;
  /** @returns what was wrong, the first fault only */
  end(): string | undefined;
}

type Usage = {
  prompt_tokens?: number;
  completion_tokens?: number;
  total_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number };
};

function usageFault(usage: Usage | null | undefined, completionTokens: number): string | undefined {
  const found = [
    usage?.prompt_tokens,
    usage?.completion_tokens,
    usage?.total_tokens,
    usage?.prompt_tokens_details?.cached_tokens,
  ];
  const wanted = [promptTokens, completionTokens, promptTokens + completionTokens, cachedTokens];
  return found.join() === wanted.join() ? undefined : `wrong usage: ${found} instead of ${wanted}`;
}

/** A fragment as it came: when, and when the provider says it sent it (µs of the monotonic clock, 0: not told). */
export type FragmentSeen = (index: number, at: number, sentAt: number) => void;

export class StreamCheck implements AnswerCheck {
  readonly #expectation: Expectation;
  readonly #texts: readonly string[];
  readonly #seen: FragmentSeen;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #rest = "";
  #next = 0;
  #named: string | undefined;
  #finished = false;
  #usage: Usage | undefined;
  #done = false;
  #fault: string | undefined;

  /** @param texts `expectedTexts` of the same shape, made once for all streams */
  constructor(expectation: Expectation, texts: readonly string[], seen: FragmentSeen) {
    this.#expectation = expectation;
    this.#texts = texts;
    this.#seen = seen;
  }

  push(bytes: Uint8Array, at: number): void {
    if (this.#fault !== undefined) return;
    try {
      const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
      let start = 0;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", start)) {
        this.#fault ??= this.#event(text.slice(start, end), at);
        start = end + 2;
      }
      this.#rest = start === 0 ? text : text.slice(start);
    } catch (error) {
      this.#fault ??= `broken: ${String(error)}`;
    }
  }

  end(): string | undefined {
    const { shape, includeUsage } = this.#expectation;
    if (this.#fault !== undefined) return this.#fault;
    if (this.#rest !== "") return `broken: the stream ends within an event: ${this.#rest.slice(0, 80)}`;
    if (this.#next !== shape.fragments) return `lost: ${this.#next} of ${shape.fragments} fragments came`;
    if (!this.#finished) return "broken: no finish_reason";
    if (!this.#done) return "broken: no [DONE], or no message_stop";
    return includeUsage ? usageFault(this.#usage, shape.fragments) : undefined;
  }

  /** Each of these returns what is wrong. */
  #event(event: string, at: number): string | undefined {
    const lines = event.split("\n").filter((line) => line !== "" && !line.startsWith(":") && !line.startsWith("id:"));
    if (lines.length === 0) return undefined;
    if (this.#expectation.format === "messages") return this.#messageEvent(lines, at);
    const [line = ""] = lines;
    if (lines.length > 1 || !line.startsWith("data: ")) return `broken: not one line of data: ${event}`;
    if (this.#done) return "broken: an event after [DONE]";
    this.#done = line === "data: [DONE]";
    return this.#done ? undefined : this.#chunk(JSON.parse(line.slice(6)), at);
  }

  /** An event of Anthropic's Messages. */
  #messageEvent([name = "", line = "", ...more]: readonly string[], at: number): string | undefined {
    if (more.length > 0 || !name.startsWith("event: ") || !line.startsWith("data: ")) return `broken: ${name} ${line}`;
    if (this.#done) return "broken: an event after message_stop";
    const { type, delta } = JSON.parse(line.slice(6));
    if (`event: ${type}` !== name) return `broken: ${name} holds a ${type}`;
    this.#done = type === "message_stop";
    if (delta?.stop_reason === "end_turn") this.#finished = true;
    else if (delta?.stop_reason != null) return `broken: stop_reason ${delta.stop_reason}`;
    return delta?.type === "text_delta" ? this.#fragment(delta.text, at) : undefined;
  }

  // biome-ignore lint/suspicious/noExplicitAny: foreign JSON, looked at field by field
  #chunk(chunk: any, at: number): string | undefined {
    if (chunk.error !== undefined) return `broken: ${JSON.stringify(chunk.error)}`;
    const named = `${chunk.object} ${chunk.id} ${chunk.created} ${chunk.model}`;
    this.#named ??= named;
    if (named !== this.#named) return `broken: a chunk of ${named} in the stream of ${this.#named}`;
    if (chunk.usage != null) this.#usage = chunk.usage;
    const [choice] = chunk.choices;
    if (choice === undefined) return undefined;
    const { content } = choice.delta;
    if (choice.finish_reason === "stop") this.#finished = true;
    else if (choice.finish_reason != null) return `broken: finish_reason ${choice.finish_reason}`;
    return typeof content === "string" && content !== "" ? this.#fragment(content, at) : undefined;
  }

  #fragment(content: string, at: number): string | undefined {
    const { text, sentAt } = splitFragment(content);
    const index = this.#next++;
    if (text === this.#texts[index]) {
      this.#seen(index, at, sentAt);
      return undefined;
    }
    const named = Number(content.slice(0, 6));
    if (named > index) return `lost or reordered: fragment ${named} came where ${index} was due`;
    if (named < index) return `reordered or repeated: fragment ${named} came where ${index} was due`;
    return `broken: fragment ${index} is ${JSON.stringify(text)}`;
  }
}

export class PlainCheck implements AnswerCheck {
  readonly #text: string;
  readonly #format: ClientFormat;
  readonly #parts: Buffer[] = [];

  constructor(text: string, format: ClientFormat = "chat") {
    this.#text = text;
    this.#format = format;
  }

  push(bytes: Uint8Array): void {
    this.#parts.push(Buffer.from(bytes));
  }

  end(): string | undefined {
    try {
      const { choices, content, usage } = JSON.parse(Buffer.concat(this.#parts).toString("utf8"));
      const found = this.#format === "chat" ? choices[0]?.message?.content : content[0]?.text;
      if (found === this.#text) return this.#format === "chat" ? usageFault(usage, plainCompletionTokens) : undefined;
      return `broken: the answer is ${String(found).slice(0, 80)}`;
    } catch (error) {
      return `broken: ${String(error)}`;
    }
  }
}

/** The fragments that a stream of this shape must bring, times left out. */
export const expectedTexts = (shape: AnswerShape) =>
  Array.from({ length: shape.fragments }, (_, index) => fragmentText(index, shape));

/** The text that a plain answer of this expectation must bring. */
export const expectedText = ({ text, shape }: Expectation) => text ?? filler(0, shape.plainChars);
