/**
 * A normalised stream as the events of this format.
 * Source: https://platform.claude.com/docs/en/build-with-claude/streaming
 */
import type { JsonObject } from "../../lib/json/json.ts";
import { formatSseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody, ChunkChoice, Envelope, FinishReason, Usage } from "../chat/schema.ts";
import type { ErrorFields, EventEncoder } from "../protocol.ts";
import { Blocks } from "./blocks.ts";
import { notStopped, stopFields, stoppedAt, usageFields } from "./ending.ts";
import { errorBody, typeOfFields } from "./errors.ts";
import { withOwnName } from "./names.ts";
import type { AnswerOptions } from "./response.ts";

const eventOf = (value: JsonObject & { type: string }): string => formatSseEvent(JSON.stringify(value), value.type);

/** Clients pass over it wherever it stands, also before the first event of the answer. */
export const ping = eventOf({ type: "ping" });

/** Ends a stream. */
export function errorEvent(error: ErrorFields): string {
  const { message } = error;
  return eventOf(errorBody(typeOfFields(error), typeof message === "string" ? message : ""));
}

export class MessagesEncoder implements EventEncoder {
  readonly #envelope: Envelope;
  readonly #options: AnswerOptions;
  readonly #blocks: Blocks;
  /** The list that the blocks' events are added to. */
  #events: string[] = [];
  #begun = false;
  #finish: FinishReason | undefined;
  #refusal = "";
  #stoppedAt: unknown;
  #usage: Usage | undefined;
  #tier: Pick<ChunkBody, "service_tier"> = {};

  constructor(envelope: Envelope, options: AnswerOptions) {
    this.#envelope = envelope;
    this.#options = options;
    const add = (type: string, index: number, rest: JsonObject = {}) =>
      void this.#events.push(eventOf({ type, index, ...rest }));
    this.#blocks = new Blocks(
      {
        start: (index, block) =>
          add("content_block_start", index, { content_block: withOwnName(block, options.names) }),
        delta: (index, delta) => add("content_block_delta", index, { delta }),
        stop: (index) => add("content_block_stop", index),
      },
      options.thinking,
      envelope.id,
    );
  }

  push(chunk: ChunkBody, events: string[]): void {
    const { choices, usage, service_tier } = chunk;
    const [choice] = choices;
    this.#events = events;
    if (usage != null) this.#usage = usage;
    if (service_tier !== undefined) this.#tier = { service_tier };
    this.#begin();
    if (chunk.ended_thought !== undefined) this.#blocks.endThought(chunk.ended_thought);
    if (choice?.index === 0) this.#take(choice);
  }

  end(events: string[]): void {
    this.#events = events;
    this.#begin();
    this.#blocks.finish();
    const ending = {
      finish: this.#finish,
      calls: this.#blocks.calls > 0,
      refusal: this.#refusal,
      stoppedAt: this.#stoppedAt,
    };
    const delta = stopFields(ending, this.#options.stops);
    const usage = usageFields(this.#usage);
    events.push(eventOf({ type: "message_delta", delta, usage }), eventOf({ type: "message_stop" }));
  }

  fault(error: ErrorFields, events: string[]): void {
    events.push(errorEvent(error));
  }

  /** Counts come with the end: what is known at the start is an estimate of the prompt, which clients show until then. */
  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    const { id, model } = this.#envelope;
    const prompt_tokens = this.#envelope.promptTokens?.() ?? 0;
    const usage = { prompt_tokens, completion_tokens: 0, total_tokens: prompt_tokens };
    const message = { id, type: "message", role: "assistant", model, content: [], ...notStopped };
    this.#events.push(
      eventOf({ type: "message_start", message: { ...message, usage: usageFields(usage, this.#tier) } }),
    );
  }

  #take(choice: ChunkChoice): void {
    const { delta, finish_reason } = choice;
    this.#refusal += delta.refusal ?? "";
    this.#blocks.push(delta);
    if (finish_reason === null) return;
    this.#finish = finish_reason;
    this.#stoppedAt = stoppedAt(choice);
    this.#blocks.finish();
  }
}
