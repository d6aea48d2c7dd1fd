/**
 * Compares a recorded history with what was promised. To its callers an id is a register that is written once: there must be an order
 * of all that was asked and called, in keeping with the times at which it began and ended, in which every call but the last was
 * given up for a cause, the last one's answer is written once, and whoever asks later reads it, byte for byte.
 */
import {
  type Attempt,
  cutsOff,
  type Event,
  eventsOf,
  type FaultWindow,
  fragmentsOf,
  type UpstreamCall,
} from "./history.ts";

/** How long a node that lost its lease may take to find out, on a machine that is busy. */
const stopsWithinMs = 2_500;
/** How long a fault is felt beyond its end, and the lease of who suffered it: statements that wait for their deadline. */
const settlesWithinMs = 3_000;

/** @param leaseMs of the nodes. @returns a sentence for each broken promise */
export function violationsOf(
  attempts: readonly Attempt[],
  calls: readonly UpstreamCall[],
  windows: readonly FaultWindow[],
  leaseMs: number,
): string[] {
  const found: string[] = [];
  const callsBy = Map.groupBy(calls, ({ id }) => id);
  const attemptsBy = Map.groupBy(attempts, ({ id }) => id);
  for (const [id, own] of attemptsBy) {
    const whole = own.filter(({ isComplete }) => isComplete);
    found.push(...own.flatMap((attempt) => [...mixedIn(attempt), ...gapsIn(attempt)]));
    found.push(...differencesOf(id, own, whole), ...uncausedErrorsOf(own, windows, leaseMs));
    const [first] = whole.toSorted((a, b) => a.endedAt - b.endedAt);
    if (first === undefined) continue;
    // Where the text names no call, it is no answer of the upstream: what a background response was accepted as.
    const callsOfId = callsBy.get(id) ?? [];
    for (const attempt of whole) found.push(...sourceOf(attempt, callsOfId));
    // What was resumed at its very end has no text of a call.
    const answered = whole.map(callOf).find((call) => call !== undefined);
    found.push(...othersAfter(first, answered, own), ...callsAfter(first, callsOfId));
  }
  for (const own of callsBy.values()) {
    const inOrder = own.toSorted((a, b) => a.number - b.number);
    found.push(...uncausedCallsOf(inOrder, windows, leaseMs), ...overlapsOf(inOrder, windows, leaseMs));
  }
  return found;
}

const whereOf = ({ id, node }: Attempt) => `${id} at node ${node}`;
const callOf = ({ text }: Attempt): number | undefined => fragmentsOf(text)[0]?.call;

/** All whole answers are one answer, and an event has one text, whoever gives it. */
function differencesOf(id: string, attempts: readonly Attempt[], whole: readonly Attempt[]): string[] {
  const found: string[] = [];
  const seen = new Map<string, string>();
  for (const attempt of attempts) {
    for (const { run, number, text } of eventsOf(attempt.text)) {
      const event = `${run}-${number}`;
      if ((seen.get(event) ?? text) !== text) found.push(`${whereOf(attempt)}: event ${event} has two texts`);
      seen.set(event, text);
    }
  }
  const answers = new Map(whole.map((attempt) => [answerOf(attempt), attempt]));
  if (answers.size > 1) {
    const told = [...answers.values()].map(
      ({ node, endedAt, text }) => `node ${node} ${Math.round(endedAt)}: ${text.slice(-300)}`,
    );
    found.push(`${id}: ${answers.size} whole answers: ${told.join("\n   ")}`);
  }
  return found;
}

/** What two whole answers must have in common: of a stream, which may have been resumed, its last event. */
function answerOf({ kind, text }: Attempt): string {
  const last = kind === "stream" ? eventsOf(text).at(-1) : undefined;
  return last === undefined ? text : `${last.run}-${last.number}`;
}

/** The fragments of one attempt are of one call, one after the other. */
function mixedIn(attempt: Attempt): string[] {
  let last: { call: number; number: number } | undefined;
  for (const { id, call, number } of fragmentsOf(attempt.text)) {
    const where = whereOf(attempt);
    if (id !== attempt.id) return [`${where}: has the text of ${id}`];
    if (last !== undefined && call !== last.call) return [`${where}: has the text of calls ${last.call} and ${call}`];
    const expected = last === undefined ? (attempt.after === undefined ? 0 : number) : last.number + 1;
    if (number !== expected) return [`${where}: fragment ${number} stands where ${expected} should`];
    last = { call, number };
  }
  return [];
}

function gapsIn(attempt: Attempt): string[] {
  const events: Event[] = eventsOf(attempt.text);
  const [first] = events;
  if (first === undefined) return [];
  const [run, number] = attempt.after?.split("-") ?? [];
  const start = first.run === run ? Number(number) + 1 : 0;
  const isWhole = events.every((event, at) => event.run === first.run && event.number === start + at);
  if (isWhole) return [];
  const told = events.map((one) => `${one.run}-${one.number}`).join(" ");
  return [`${whereOf(attempt)}: events ${told} after ${attempt.after}`];
}

/** A whole answer has all of a call that had ended by then. */
function sourceOf(attempt: Attempt, calls: readonly UpstreamCall[]): string[] {
  const own = fragmentsOf(attempt.text);
  const [first] = own;
  if (first === undefined) return [];
  const where = whereOf(attempt);
  const call = calls.find(({ number }) => number === first.call);
  if (call === undefined) return [`${where}: has the answer of call ${first.call}, which was not made`];
  if (own.at(-1)!.number !== call.fragments - 1) return [`${where}: its whole answer ends at ${own.at(-1)!.number}`];
  const isEarly = !call.isWhole || call.endedAt > attempt.endedAt;
  return isEarly ? [`${where}: has the whole answer of call ${call.number} before it had ended`] : [];
}

/** Who asks once somebody has the whole answer gets that one, or an error. */
function othersAfter(first: Attempt, answered: number | undefined, attempts: readonly Attempt[]): string[] {
  const run = eventsOf(first.text).at(-1)?.run;
  return attempts
    .filter(({ startedAt, status }) => startedAt > first.endedAt && status === 200)
    .filter((later) => {
      const isOther = callOf(later) !== undefined && callOf(later) !== answered;
      return isOther || eventsOf(later.text).some((event) => run !== undefined && event.run !== run);
    })
    .map((later) => `${whereOf(later)}: has call ${callOf(later)}, though call ${answered} had been answered before`);
}

/** Once somebody has the whole answer nobody calls. */
function callsAfter({ endedAt }: Attempt, calls: readonly UpstreamCall[]): string[] {
  return calls
    .filter(({ startedAt }) => startedAt > endedAt)
    .map(({ id, number, node }) => `${id}: call ${number} by node ${node} came after its answer had been given`);
}

/** Another call is made only where the node of the one before, or the database, had a fault meanwhile. */
function uncausedCallsOf(calls: readonly UpstreamCall[], windows: readonly FaultWindow[], leaseMs: number): string[] {
  return calls.slice(1).flatMap((later, at) => {
    const earlier = calls[at]!;
    const isCaused = windows.some(
      (window) =>
        cutsOff(window) &&
        (window.node === earlier.node || window.node === -1) &&
        window.from < later.startedAt &&
        window.to > earlier.startedAt - leaseMs,
    );
    const told = `${later.id}: call ${later.number} by node ${later.node} was made, though nothing befell node ${earlier.node}`;
    return isCaused ? [] : [`${told}, which made call ${earlier.number}`];
  });
}

/** Two calls of one id run at once only where the first one's node was cut off for long enough to lose its lease. */
function overlapsOf(calls: readonly UpstreamCall[], windows: readonly FaultWindow[], leaseMs: number): string[] {
  const found: string[] = [];
  for (const [at, later] of calls.entries()) {
    for (const earlier of calls.slice(0, at)) {
      if (earlier.endedAt <= later.startedAt) continue;
      const own = windows.filter(
        (window) =>
          cutsOff(window) &&
          (window.node === earlier.node || window.node === -1) &&
          window.to > earlier.startedAt - leaseMs,
      );
      // Renewed at a third of its time, the lease may have had two thirds left when the fault began.
      const cutOffMs = own.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, later.startedAt) - from), 0);
      const told = `${later.id}: calls ${earlier.number} (node ${earlier.node}) and ${later.number} (node ${later.node})`;
      if (cutOffMs < leaseMs / 3) found.push(`${told} ran at once, though the first one's node was well`);
      const stoppedMs = earlier.endedAt - Math.max(later.startedAt, ...own.map(({ to }) => to));
      if (stoppedMs > stopsWithinMs) found.push(`${told}: the first one went on for ${Math.round(stoppedMs)} ms`);
    }
  }
  return found;
}

/** A client that stays gets a whole answer, but for what befell the cluster meanwhile or just before. */
function uncausedErrorsOf(
  attempts: readonly Attempt[],
  windows: readonly FaultWindow[],
  leaseMs: number,
): readonly string[] {
  // A background response that failed is kept as that: only who learns it first can name the cause.
  const failed = attempts.find(hasFailed);
  return attempts
    .filter((attempt) => attempt === failed || !(attempt.isComplete || attempt.hasLeft))
    .filter(({ startedAt, askedAt = startedAt, endedAt }) => {
      const since = askedAt - leaseMs - settlesWithinMs;
      return !windows.some((window) => cutsOff(window) && window.from < endedAt && window.to > since);
    })
    .map((attempt) => {
      const { status, startedAt, endedAt, text } = attempt;
      const times = `${Math.round(startedAt)} to ${Math.round(endedAt)}`;
      return `${whereOf(attempt)}: failed without a cause, ${times}: ${status} ${text.length > 800 ? `${text.slice(0, 400)} … ${text.slice(-400)}` : text}`;
    });
}

/** A background response that ended without an answer. */
const hasFailed = ({ kind, text }: Attempt) =>
  kind === "background" && /"status":"(failed|incomplete|cancelled)"/.test(text);
