/**
 * A normalised stream as partial answers: events without names, and without an end of their own, or the elements of one list.
 * Source: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
 */
import type { JsonObject } from "../../lib/json/json.ts";
import { formatSseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody, ChunkChoice, Envelope, Usage } from "../chat/schema.ts";
import type { ErrorFields, EventEncoder } from "../protocol.ts";
import { Candidate, type Shown } from "./candidate.ts";
import { logprobsResult, usageMetadata } from "./ending.ts";
import { fieldsBody } from "./errors.ts";
import { answerOf, contentOf, promptFeedback } from "./response.ts";

/** Joins the answers of one stream. */
export interface Framing {
  /** @param json of one answer */
  answer(json: string): string;
  /** Behind the last one; empty: nothing. */
  end(): string;
}

export const eventFraming: Framing = { answer: (json) => formatSseEvent(json), end: () => "" };

/** One JSON list, for who did not ask for events. */
export class ListFraming implements Framing {
  #isBegun = false;

  answer(json: string): string {
    const before = this.#isBegun ? "," : "[";
    this.#isBegun = true;
    return `${before}${json}\r\n`;
  }

  end(): string {
    return this.#isBegun ? "]" : "[]";
  }
}

export class GenerateContentEncoder implements EventEncoder {
  readonly #envelope: Envelope;
  readonly #shown: Shown;
  readonly #framing: Framing;
  readonly #candidates = new Map<number, Candidate>();
  #usage: Usage | undefined;
  #metadata: ChunkBody["metadata"];

  constructor(envelope: Envelope, shown: Shown, framing: Framing) {
    this.#envelope = envelope;
    this.#shown = shown;
    this.#framing = framing;
  }

  push({ choices, usage, metadata }: ChunkBody, events: string[]): void {
    if (usage != null) this.#usage = usage;
    if (metadata !== undefined) this.#metadata = { ...this.#metadata, ...metadata };
    for (const choice of choices) this.#push(choice, events);
  }

  /** The counts stand in the last answer, with the reasons why the candidates ended. */
  end(events: string[]): void {
    const usage = usageMetadata(this.#usage);
    const rest = usage === undefined ? {} : { usageMetadata: usage };
    const candidates = [...this.#candidates.values()];
    const [only] = candidates;
    if (candidates.length === 1 && only!.isBlocked) {
      events.push(this.#answer([], { ...promptFeedback(only!.refusal), ...rest }));
    } else {
      const ended = candidates.map((candidate) => ({
        content: contentOf(candidate.end()),
        ...candidate.ending(this.#metadata),
        index: candidate.index,
      }));
      events.push(this.#answer(ended, rest));
    }
    this.#close(events);
  }

  fault(error: ErrorFields, events: string[]): void {
    events.push(this.#framing.answer(JSON.stringify(fieldsBody(error))));
    this.#close(events);
  }

  #push({ index, delta, finish_reason, logprobs }: ChunkChoice, events: string[]): void {
    let candidate = this.#candidates.get(index);
    if (candidate === undefined) {
      candidate = new Candidate(index, this.#shown);
      this.#candidates.set(index, candidate);
    }
    const parts = candidate.push(delta, finish_reason);
    const result = logprobsResult(logprobs);
    if (parts.length === 0 && result === undefined) return;
    const content = contentOf(parts.length === 0 ? [{ text: "" }] : parts);
    events.push(this.#answer([{ content, index, ...(result !== undefined && { logprobsResult: result }) }]));
  }

  #answer(candidates: readonly JsonObject[], rest?: JsonObject): string {
    return this.#framing.answer(JSON.stringify(answerOf(candidates, this.#envelope, rest)));
  }

  #close(events: string[]): void {
    const end = this.#framing.end();
    if (end !== "") events.push(end);
  }
}
