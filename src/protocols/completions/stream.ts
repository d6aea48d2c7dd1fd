/** A normalised stream as chunks of a legacy completion: the envelope, the prompt where it is echoed, and the last event of chat. */
import { formatSseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody, ChunkChoice, Envelope } from "../chat/schema.ts";
import { doneData, faultEvents, faultTwice } from "../chat/stream.ts";
import type { ErrorFields, EventEncoder, NativeEncoder } from "../protocol.ts";
import { type CompletionsOptions, finishOf, logprobsOf } from "./answer.ts";

const doneEvent = formatSseEvent(doneData);

export class CompletionsEncoder implements EventEncoder {
  readonly #envelope: string;
  readonly #options: CompletionsOptions;
  readonly #tail: string;
  /** Characters of each choice that went out; a choice that is not there has not begun. */
  readonly #sizes = new Map<number, number>();

  constructor({ id, created, model }: Envelope, options: CompletionsOptions) {
    this.#envelope = JSON.stringify({ id, object: "text_completion", created, model });
    this.#options = options;
    this.#tail = `]${options.includeUsage ? ',"usage":null' : ""}}\n\n`;
  }

  get #head(): string {
    return `data: ${this.#envelope.slice(0, -1)},"choices":`;
  }

  push({ choices, usage }: ChunkBody, events: string[]): void {
    const texts = choices.flatMap((choice) => this.#choice(choice));
    if (texts.length > 0) events.push(`${this.#head}[${texts.join(",")}${this.#tail}`);
    if (usage == null || !this.#options.includeUsage) return;
    events.push(`${this.#head}[],"usage":${JSON.stringify(usage)}}\n\n`);
  }

  end(events: string[]): void {
    events.push(doneEvent);
  }

  fault(error: ErrorFields, events: string[]): void {
    events.push(...faultEvents(error, this.#envelope), doneEvent);
  }

  /** @returns nothing where there is nothing that this format has a place for */
  #choice({ index, delta, finish_reason, logprobs }: ChunkChoice): string[] {
    const isFirst = !this.#sizes.has(index);
    const text = (isFirst ? this.#options.echo : "") + (delta.content ?? delta.refusal ?? "");
    const from = this.#sizes.get(index) ?? this.#options.echo.length;
    this.#sizes.set(index, from + (delta.content ?? "").length);
    if (text === "" && finish_reason === null && logprobs == null && !isFirst) return [];
    return [
      JSON.stringify({ text, index, logprobs: logprobsOf(logprobs, from), finish_reason: finishOf(finish_reason) }),
    ];
  }
}

/** Behind events that passed as they came: the error, as in a stream of ours. */
export function nativeEncoder({ id, created, model }: Envelope): NativeEncoder {
  const envelope = JSON.stringify({ id, object: "text_completion", created, model });
  return {
    fault: (error, _last, events) => void events.push(...faultEvents(error, envelope), doneEvent),
    passedFault: ({ data }) => (data.includes("\n") ? undefined : faultTwice(data).join("")),
  };
}
