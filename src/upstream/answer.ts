/** What a call gives back, before it becomes HTTP. */
import type { ErrorFields } from "../protocols/protocol.ts";
import type { StreamEnd } from "./call.ts";
import type { EventReader } from "./stream/shaped-stream.ts";

export type WholeAnswer = {
  readonly kind: "whole";
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** Of an upstream's error, for a stream that has begun without an answer. */
  readonly error?: ErrorFields;
};

export type { EventReader, StreamEnd };

/** A stream's events, given as they come. */
export interface EventSource {
  /** Once: gives the events, beginning before this returns with what is there. */
  flow(reader: EventReader): void;
  /** The reader wants nothing for now. */
  pause(): void;
  resume(): void;
  /** Ends the upstream call; the reader is told `cancelled`. */
  cancel(): void;
}

/** A 200 stream of whole event texts, in order, ready to send. */
export type EventAnswer = {
  readonly kind: "events";
  readonly headers: Readonly<Record<string, string>>;
  readonly events: EventSource;
};

export type Answer = WholeAnswer | EventAnswer;

/** Makes the one upstream call. @param signal ends it in every phase, the stream's events included */
export type Producer = (signal: AbortSignal) => Promise<Answer>;

/** Consecutive events of a recorded stream: `data[i]` is sent with `id: ${idPrefix}${firstId + i}`. */
export type EventBatch = { readonly firstId: number; readonly data: readonly string[] };

/**
 * A stream that is kept under a service-request-id, so that `Last-Event-ID` can continue it. Unlike an `EventAnswer` its
 * `next()` may throw, when what it follows is lost: an ApiError, to be told to the client like any fault in a stream.
 */
export type NumberedAnswer = {
  readonly kind: "numbered";
  readonly headers: Readonly<Record<string, string>>;
  /** Names the upstream call, so that an event of an earlier, lost call never continues this one. */
  readonly idPrefix: string;
  readonly events: AsyncGenerator<EventBatch, StreamEnd>;
};

/** What a call with a service-request-id gives back. */
export type KeptAnswer = WholeAnswer | NumberedAnswer;
