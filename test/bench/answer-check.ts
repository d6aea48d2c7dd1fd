/** Whether an answer is the one that the provider gave: nothing lost, reordered, changed or miscounted. */
import type { FormatName } from "../helpers/client-formats.ts";
import { answerFormats, type ChatUsage, hasLastEvent, usageFault } from "./answer-formats.ts";
import { type AnswerShape, filler, fragmentText, plainCompletionTokens, splitFragment } from "./answer-shape.ts";

export type Expectation = {
  readonly shape: AnswerShape;
  /** Default: chat completions. */
  readonly format?: FormatName;
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
  #usage: ChatUsage | undefined;
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
      const text = this.#rest + this.#decoder.decode(bytes, { stream: true }).replaceAll("\r", "");
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
    const { shape, includeUsage, format = "chat" } = this.#expectation;
    if (this.#fault !== undefined) return this.#fault;
    if (this.#rest !== "") return `broken: the stream ends within an event: ${this.#rest.slice(0, 80)}`;
    if (this.#next !== shape.fragments) return `lost: ${this.#next} of ${shape.fragments} fragments came`;
    if (!this.#finished) return "broken: no finish_reason";
    if (!this.#done && hasLastEvent(format)) return "broken: the stream's last event is missing";
    return includeUsage ? usageFault(this.#usage, shape.fragments) : undefined;
  }

  /** Each of these returns what is wrong. */
  #event(event: string, at: number): string | undefined {
    const lines = event.split("\n").filter((line) => line !== "" && !line.startsWith(":") && !line.startsWith("id:"));
    if (lines.length === 0) return undefined;
    const name = lines[0]!.startsWith("event: ") ? lines.shift()!.slice(7) : undefined;
    const [line = ""] = lines;
    if (lines.length !== 1 || !line.startsWith("data: ")) return `broken: not one line of data: ${event}`;
    if (this.#done) return "broken: an event behind the last one";
    const seen = answerFormats[this.#expectation.format ?? "chat"].event(name, line.slice(6));
    if (seen.fault !== undefined) return seen.fault;
    this.#named ??= seen.names;
    if (seen.names !== undefined && seen.names !== this.#named)
      return `broken: a chunk of ${seen.names} in the stream of ${this.#named}`;
    if (seen.usage != null) this.#usage = seen.usage;
    this.#done = seen.isLast === true;
    this.#finished ||= seen.isFinished === true;
    return seen.text ? this.#fragment(seen.text, at) : undefined;
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
  readonly #format: FormatName;
  readonly #parts: Buffer[] = [];

  constructor(text: string, format: FormatName = "chat") {
    this.#text = text;
    this.#format = format;
  }

  push(bytes: Uint8Array): void {
    this.#parts.push(Buffer.from(bytes));
  }

  end(): string | undefined {
    try {
      const body = JSON.parse(Buffer.concat(this.#parts).toString("utf8"));
      const { text, fault } = answerFormats[this.#format].plain(body, plainCompletionTokens);
      return text === this.#text ? fault : `broken: the answer is ${String(text).slice(0, 80)}`;
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
