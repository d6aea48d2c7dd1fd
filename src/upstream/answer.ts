/** The answer to a call, between the upstream and HTTP. */
import type { Source } from "../lib/streams/flow.ts";
import type { ErrorFields } from "../protocols/protocol.ts";

export type WholeAnswer = {
  readonly kind: "whole";
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** The error's fields, for a stream whose response began before the answer was there. */
  readonly error?: ErrorFields;
  /** The upstream that answered an error; absent otherwise. */
  readonly provider?: string;
  /** The format that it speaks. */
  readonly format?: string;
};

/** An upstream's error answer: its bytes unchanged, and only the headers that a caller may see. */
export type UpstreamError = WholeAnswer & {
  readonly provider: string;
  readonly format: string;
  readonly body: Uint8Array;
  /** Headers of limits, which no caller sees: they are of all who use the key. */
  readonly limits?: Readonly<Record<string, string>>;
};

/**
 * The end of a stream. `finished`: every choice came to its end and the format's terminal event went out. `faulted`: an error
 * went out, and that event.
 */
export type StreamEnd = "finished" | "faulted" | "cancelled";

/** The whole texts of consecutive events, or the same as bytes. */
export type Events = readonly string[] | Uint8Array;

/** The last events, the format's terminal event among them; none where the stream was cancelled. */
export type LastEvents = { readonly how: StreamEnd; readonly events: readonly string[] };

/** A stream's events, pushed as they come. */
export type EventSource = Source<Events, LastEvents>;

/**
 * Pulls the events of an idempotent stream for one reader, with their ids. Throws an ApiError when the run is lost, which is
 * sent to the client like any fault in a stream.
 */
export type RecordedEvents = AsyncGenerator<readonly string[], StreamEnd>;

export type StreamAnswer<E = EventSource | RecordedEvents> = {
  readonly kind: "stream";
  readonly headers: Readonly<Record<string, string>>;
  readonly events: E;
};

export type Answer<E = EventSource | RecordedEvents> = WholeAnswer | StreamAnswer<E>;

/** Makes the upstream call. @param signal aborts it in every phase, while events stream included */
export type Producer = (signal: AbortSignal) => Promise<Answer<EventSource>>;

export function isUpstreamError(answer: Answer): answer is UpstreamError {
  return answer.kind === "whole" && answer.provider !== undefined;
}
