/** What the load generator is asked to do, and what it tells afterwards; JSON on its input and output. */

import type { FormatName } from "../helpers/client-formats.ts";
import type { PromptKind } from "./answer-shape.ts";

/** `connections` callers, each with its next call as soon as the last is answered. */
export type ClosedLoop = { readonly kind: "closed"; readonly connections: number };
/** The same from the very first call on, until so many are answered: what a start costs beyond itself. */
export type FirstCalls = { readonly kind: "first"; readonly connections: number; readonly calls: number };
/** Calls at a fixed rate, whatever becomes of the ones before. */
export type OpenLoop = { readonly kind: "open"; readonly perSecond: number };
/** Opens so many streams, looks at the server's memory while all are open, lets them end. */
export type HeldStreams = { readonly kind: "held"; readonly streams: number; readonly perSecond: number };
/** Opens so many streams, stops reading after the first bytes for `pauseSeconds`, then reads on to the end. */
export type SlowReaders = { readonly kind: "slow"; readonly streams: number; readonly pauseSeconds: number };

export type Job = {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** As the server under test names it. */
  readonly model: string;
  /** The mock's name for the same, which tells the answer's shape. */
  readonly mockModel: string;
  readonly format: FormatName;
  readonly streamed: boolean;
  readonly includeUsage: boolean;
  /** More fields of the request's body. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Characters of the last message. */
  readonly promptChars: number;
  readonly promptKind: PromptKind;
  /** Each call gets a `service-request-id` of its own. */
  readonly identified: boolean;
  /** Leave each stream after so many fragments. */
  readonly leaveAfter?: number;
  /** A path that is asked for at a fixed rate beside the load. */
  readonly beside?: { readonly path: string; readonly perSecond: number } | undefined;
  readonly load: ClosedLoop | FirstCalls | OpenLoop | HeldStreams | SlowReaders;
  readonly warmupSeconds: number;
  readonly seconds: number;
  /** The processes of the server under test. */
  readonly watched: readonly number[];
};

export type Memory = {
  /** Before the first call. */
  readonly idleBytes: number;
  readonly idleProportionalBytes: number;
  /** While the streams were open, the median of some looks. */
  readonly heldBytes?: number;
  readonly heldProportionalBytes?: number;
  /** The highest in the measured time. */
  readonly peakBytes: number;
  readonly endBytes: number;
};

export type LoadResult = {
  /** Within the measured time, as are fragments and CPU. */
  readonly calls: number;
  readonly fragments: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** From the request's last byte written to the answer's end. Samples, evenly thinned out. */
  readonly callMs: readonly number[];
  readonly firstFragmentMs: readonly number[];
  /** Of what is asked beside the load: from its asking to its answer. */
  readonly besideMs: readonly number[];
  /** From the provider's sending of a fragment to its arrival, where fragments have intervals. */
  readonly lagMs: readonly number[];
  /** Fragments that came in one read with the one before although they were sent apart. */
  readonly heldBack: number;
  /** All calls, warm-up and end included. */
  readonly checkedCalls: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly memory: Memory;
};
