/**
 * What clients and the upstream saw of each `service-request-id`, and what of it breaks a promise. All times are readings of one
 * clock, as clients and upstream are in one process.
 */

export type Kind = "plain" | "stream" | "background";

/** One call that reached the upstream. */
export type UpstreamCall = {
  readonly id: string;
  /** From 1 on, for each id. */
  readonly number: number;
  readonly node: number;
  readonly startedAt: number;
  /** When its answer was sent, or its caller had left. */
  endedAt: number;
};

/** One request of a client, from its first byte to the last that it read. */
export type Attempt = {
  readonly id: string;
  readonly kind: Kind;
  readonly node: number;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly status: number;
  /** Whether the client has a whole answer without an error. */
  readonly isComplete: boolean;
  /** The body, or the events with their ids. */
  readonly text: string;
  /** `Last-Event-ID`, where it resumes. */
  readonly after?: string | undefined;
};

/** A time in which a node could not renew its lease; node -1: no node could. */
export type FaultWindow = { readonly node: number; readonly kind: string; readonly from: number; to: number };

/** The upstream's text says which call it belongs to, so that what is mixed is seen: `<id>#<call>.<fragment>;` */
export const fragmentOf = (id: string, call: number, fragment: number): string => `${id}#${call}.${fragment};`;
const fragments = /([\w-]+)#(\d+)\.(\d+);/g;

type Event = { readonly run: string; readonly number: number; readonly text: string };

/** The events of a stream, without comments. */
export function eventsOf(text: string): Event[] {
  return [...text.matchAll(/^id: ([^-\n]+)-(\d+)\n([\s\S]*?\n)\n/gm)].map(([, run, number, rest]) => ({
    run: run!,
    number: Number(number),
    text: rest!,
  }));
}

/** @param leaseMs of the nodes. @returns a sentence for each broken promise */
export function violationsOf(
  attempts: readonly Attempt[],
  calls: readonly UpstreamCall[],
  windows: readonly FaultWindow[],
  leaseMs: number,
): string[] {
  const found: string[] = [];
  const callsBy = Map.groupBy(calls, ({ id }) => id);
  for (const [id, own] of Map.groupBy(attempts, (attempt) => attempt.id)) {
    found.push(...answersOf(id, own), ...doubleCallsOf(own, callsBy.get(id) ?? []));
  }
  for (const own of callsBy.values()) found.push(...overlapsOf(own, windows, leaseMs));
  return found;
}

/** All whole answers are one answer, and no answer has parts of two calls. */
function answersOf(id: string, attempts: readonly Attempt[]): string[] {
  const found: string[] = [];
  const seen = new Map<string, string>();
  const whole = new Map<string, Attempt>();
  for (const attempt of attempts) {
    const { kind, node, text, isComplete, after } = attempt;
    const where = `${id} at node ${node}`;
    if (attempt.status !== 200) continue;
    found.push(...mixedIn(where, attempt));
    if (kind !== "stream") {
      if (isComplete) whole.set(text, attempt);
      continue;
    }
    const events = eventsOf(text);
    found.push(...gapsIn(where, events, after));
    for (const { run, number, text: bytes } of events) {
      const key = `${run}-${number}`;
      if ((seen.get(key) ?? bytes) !== bytes) found.push(`${where}: event ${key} has two texts`);
      seen.set(key, bytes);
    }
    const last = events.at(-1);
    if (isComplete && last !== undefined) whole.set(`${last.run}-${last.number}`, attempt);
  }
  if (whole.size > 1) {
    const told = [...whole.values()].map(
      ({ node, endedAt, text }) => `node ${node} ${Math.round(endedAt)}: ${text.slice(-300)}`,
    );
    found.push(`${id}: ${whole.size} whole answers: ${told.join("\n   ")}`);
  }
  return found;
}

/** The fragments of one attempt are of one call, one after the other. */
function mixedIn(where: string, { text, id, after }: Attempt): string[] {
  let last: { call: string; fragment: number } | undefined;
  for (const [, of, call, fragment] of text.matchAll(fragments)) {
    const number = Number(fragment);
    if (of !== id) return [`${where}: has the text of ${of}`];
    if (last !== undefined && call !== last.call) return [`${where}: has the text of calls ${last.call} and ${call}`];
    const expected = last === undefined ? (after === undefined ? 0 : number) : last.fragment + 1;
    if (number !== expected) return [`${where}: fragment ${number} stands where ${expected} should`];
    last = { call: call!, fragment: number };
  }
  return [];
}

function gapsIn(where: string, events: readonly Event[], after: string | undefined): string[] {
  const [first] = events;
  if (first === undefined) return [];
  const [run, number] = after?.split("-") ?? [];
  const start = first.run === run ? Number(number) + 1 : 0;
  const isWhole = events.every((event, at) => event.run === first.run && event.number === start + at);
  return isWhole
    ? []
    : [`${where}: events ${events.map((one) => `${one.run}-${one.number}`).join(" ")} after ${after}`];
}

/** Once somebody has the whole answer nobody calls again. */
function doubleCallsOf(attempts: readonly Attempt[], calls: readonly UpstreamCall[]): string[] {
  // What a background response was accepted as comes before its call.
  const whole = attempts.filter(({ isComplete, kind }) => isComplete && kind !== "background");
  const acknowledgedAt = Math.min(Number.POSITIVE_INFINITY, ...whole.map(({ endedAt }) => endedAt));
  return calls
    .filter(({ startedAt }) => startedAt > acknowledgedAt)
    .map(({ id, number, node }) => `${id}: call ${number} by node ${node} came after its answer had been given`);
}

/** Two calls of one id run at once only where the first one's node was cut off for long enough to lose its lease. */
function overlapsOf(calls: readonly UpstreamCall[], windows: readonly FaultWindow[], leaseMs: number): string[] {
  const found: string[] = [];
  for (const [at, later] of calls.entries()) {
    for (const earlier of calls.slice(0, at)) {
      if (earlier.endedAt <= later.startedAt) continue;
      const own = windows.filter(
        ({ node, to }) => (node === earlier.node || node === -1) && to > earlier.startedAt - leaseMs,
      );
      // Renewed at a third of its time, the lease may have had two thirds left when the fault began.
      const cutOffMs = own.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, later.startedAt) - from), 0);
      const told = `${later.id}: calls ${earlier.number} (node ${earlier.node}) and ${later.number} (node ${later.node})`;
      if (cutOffMs < leaseMs / 3) found.push(`${told} ran at once, though the first one's node was well`);
      const stoppedMs = earlier.endedAt - Math.max(later.startedAt, ...own.map(({ to }) => to));
      if (stoppedMs > 2_500) found.push(`${told}: the first one went on for ${Math.round(stoppedMs)} ms`);
    }
  }
  return found;
}
