/**
 * What clients and the upstream saw of each `service-request-id`. All times are readings of one clock, as clients and upstream are in
 * one process.
 */

/** `sdk`: an official client, which gives the text alone. */
export type Kind = "plain" | "stream" | "background" | "sdk";

/** One call that reached the upstream. */
export type UpstreamCall = {
  readonly id: string;
  /** From 1 on, for each id. */
  readonly number: number;
  readonly node: number;
  /** Of the whole answer. */
  readonly fragments: number;
  readonly startedAt: number;
  /** When its answer was sent, or its caller had left. */
  endedAt: number;
  /** Whether all of its answer was sent. */
  isWhole: boolean;
};

/** One request of a client, from its first byte to the last that it read. */
export type Attempt = {
  readonly id: string;
  readonly kind: Kind;
  /** The node that was asked; -1: whichever a balancer chose. */
  readonly node: number;
  readonly startedAt: number;
  readonly endedAt: number;
  /** 0: no answer came. */
  readonly status: number;
  /** Whether the client has a whole answer without an error. */
  readonly isComplete: boolean;
  /** Whether the client went away of its own accord. */
  readonly hasLeft: boolean;
  /** The body, or the events with their ids. */
  readonly text: string;
  /** `Last-Event-ID`, where it resumes. */
  readonly after?: string | undefined;
  /** When that was asked for which it only looks at. Default: `startedAt`. */
  readonly askedAt?: number;
};

/**
 * What befell the cluster, and when.
 * `of`: `node` and `database` may cost nodes their leases; `clock` and `coordination` must not.
 */
export type FaultWindow = {
  readonly of: "node" | "database" | "clock" | "coordination";
  /** -1: all of them. */
  readonly node: number;
  readonly kind: string;
  readonly from: number;
  to: number;
};

/** Whether a node may lose its leases by it, or not hear of something. */
export const cutsOff = ({ of }: FaultWindow): boolean => of === "node" || of === "database";

/** The upstream's text says which call it belongs to, so that what is mixed is seen: `<id>#<call>.<fragment>;` */
export const fragmentOf = (id: string, call: number, fragment: number): string => `${id}#${call}.${fragment};`;
const fragments = /([\w-]+)#(\d+)\.(\d+);/g;

export type Fragment = { readonly id: string; readonly call: number; readonly number: number };

export const fragmentsOf = (text: string): Fragment[] =>
  [...text.matchAll(fragments)].map(([, id, call, number]) => ({
    id: id!,
    call: Number(call),
    number: Number(number),
  }));

export type Event = { readonly run: string; readonly number: number; readonly text: string };

/** The events of a stream, without comments. */
export function eventsOf(text: string): Event[] {
  return [...text.matchAll(/^id: ([^-\n]+)-(\d+)\n([\s\S]*?\n)\n/gm)].map(([, run, number, rest]) => ({
    run: run!,
    number: Number(number),
    text: rest!,
  }));
}
