/**
 * The end of a turn of the event loop. What arrived in one turn goes on there, one call after the other: a step of a call runs hundreds of
 * functions, ours, the platform's and the kernel's, more than a core's nearest caches hold. Calls that take the same step in a row find it
 * there; where each goes on as it arrives, between one read of a socket and the next, it has to be fetched anew, and a call takes a quarter more
 * of the processor.
 */

/** What goes on at the end of a turn. */
export interface Continued {
  /** Must not throw. */
  continue(): void;
}

let waiting: Continued[] = [];
/** Empty: the list of the turn before, for the next one. */
let spare: Continued[] = [];
let ending: PromiseWithResolvers<void> | undefined;
let isScheduled = false;

/** Has it go on at the end of this turn of the event loop, in the order in which this is called. */
export function atTurnEnd(one: Continued): void {
  waiting.push(one);
  schedule();
}

/** Resolves at the end of this turn, after what `atTurnEnd` was given; who waits goes on in the order of asking. */
export function turnEnd(): Promise<void> {
  ending ??= Promise.withResolvers<void>();
  schedule();
  return ending.promise;
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(endTurn);
}

function endTurn(): void {
  isScheduled = false;
  const those = waiting;
  const asked = ending;
  waiting = spare;
  ending = undefined;
  for (const one of those) one.continue();
  those.length = 0;
  spare = those;
  asked?.resolve();
}
