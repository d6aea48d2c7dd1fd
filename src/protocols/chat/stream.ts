/** A normalised stream as chat completion chunks: the envelope, `usage` where it was asked for, and `[DONE]`. */
import { formatSseEvent } from "../../lib/streams/sse.ts";
import type { ErrorFields, EventEncoder } from "../protocol.ts";
import { plainText } from "./plain-text.ts";
import type { ChunkBody, Envelope } from "./schema.ts";
import { openAiTier } from "./service-tier.ts";

/** The data of a stream's last event. */
export const doneData = "[DONE]";
const doneEvent = formatSseEvent(doneData);

/**
 * The report of an error, without a name and then the same with it, as clients of Together's skip every event that has one:
 * https://github.com/togethercomputer/together-py/blob/main/src/together/_streaming.py.
 * One data object: `error` first, and no `choices`. Some clients read whatever has choices as a chunk and look no further:
 * https://github.com/vercel/ai/blob/main/packages/openai/src/chat/openai-chat-api.ts (chunk or error, in this order).
 * Others see an error by the event's name alone:
 * https://github.com/langchain4j/langchain4j/blob/main/langchain4j-open-ai/src/main/java/dev/langchain4j/model/openai/internal/StreamingRequestExecutor.java.
 * The name stands behind the data, where it means the same, as others read the words of an error only where no other line
 * stands before them: https://github.com/sashabaranov/go-openai/blob/master/stream_reader.go (`data: {"error":`).
 * @param envelope the fields that every chunk has, as one JSON object
 */
export function faultEvents(error: ErrorFields, envelope: string): readonly string[] {
  return faultTwice(`{"error":${JSON.stringify(error)},${envelope.slice(1)}`);
}

/** @param data of an event that reports an error @returns the event without a name, and then with it */
export const faultTwice = (data: string): readonly string[] => [
  formatSseEvent(data),
  `data: ${data}\nevent: error\n\n`,
];

export class ChatEncoder implements EventEncoder {
  /** The fields that every chunk has, as one JSON object. */
  readonly #envelope: string;
  readonly #head: string;
  readonly #includeUsage: boolean;
  /** Behind the choices of every chunk but the one with the counts. */
  readonly #noUsage: string;
  readonly #textHead: string;
  readonly #textTail: string;
  #extras: unknown[] = [];
  #extrasText = "";

  /** @param includeUsage whether a last chunk with the counts was asked for */
  constructor({ id, created, model }: Envelope, includeUsage: boolean) {
    this.#envelope = JSON.stringify({ id, object: "chat.completion.chunk", created, model });
    this.#head = `data: ${this.#envelope.slice(0, -1)},"choices":`;
    this.#includeUsage = includeUsage;
    this.#noUsage = includeUsage ? ',"usage":null' : "";
    this.#textHead = `${this.#head}[{"index":0,"delta":{"content":`;
    this.#textTail = `},"finish_reason":null}]${this.#noUsage}`;
  }

  push(chunk: ChunkBody, events: string[]): void {
    if (chunk.ended_thought !== undefined) return;
    const { choices, usage, metadata } = chunk;
    const text = choices.length === 1 ? plainText(choices[0]!) : undefined;
    const extras = this.#extrasOf(chunk);
    if (text !== undefined) {
      events.push(`${this.#textHead}${JSON.stringify(text)}${this.#textTail}${extras}}\n\n`);
    } else if (usage == null) {
      const said = metadata === undefined ? "" : `,"metadata":${JSON.stringify(metadata)}`;
      events.push(`${this.#head}${JSON.stringify(choices)}${this.#noUsage}${said}${extras}}\n\n`);
    } else if (this.#includeUsage) {
      events.push(`${this.#head}[],"usage":${JSON.stringify(usage)}}\n\n`);
    }
  }

  end(events: string[]): void {
    events.push(doneEvent);
  }

  fault(error: ErrorFields, events: string[]): void {
    events.push(...faultEvents(error, this.#envelope), doneEvent);
  }

  /** Top-level fields beyond the known ones, as `,"key":value…`; remembered, as they rarely change within a stream. */
  #extrasOf(chunk: ChunkBody): string {
    const extras: unknown[] = [];
    for (const name in chunk) {
      if (name === "choices" || name === "usage" || name === "metadata") continue;
      const value = chunk[name];
      if (value !== undefined) extras.push(name, value);
    }
    if (extras.length !== this.#extras.length || extras.some((part, at) => part !== this.#extras[at])) {
      let text = "";
      for (let at = 0; at < extras.length; at += 2) {
        const [name, value] = [extras[at], extras[at + 1]];
        const said = name === "service_tier" && typeof value === "string" ? openAiTier(value) : value;
        text += `,${JSON.stringify(name)}:${JSON.stringify(said)}`;
      }
      this.#extras = extras;
      this.#extrasText = text;
    }
    return this.#extrasText;
  }
}
