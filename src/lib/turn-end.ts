/**
 * The end of a turn of the event loop. What arrived in one turn goes on there, one call after the other: a step of a call runs hundreds of
 * functions, ours, the platform's and the kernel's, more than a core's nearest caches hold. Calls that take the same step in a row find it
 * there; where each goes on as it arrives, between one read of a socket and the next, it has to be fetched anew, and a call takes a quarter more
 * of the processor.
 */
let ending: Promise<void> | undefined;
let end: (() => void) | undefined;

function keep(resolve: () => void): void {
  end = resolve;
  setImmediate(endTurn);
}

function endTurn(): void {
  ending = undefined;
  end!();
}

/** Resolves at the end of this turn of the event loop; who waits goes on in the order of asking. */
export function turnEnd(): Promise<void> {
  ending ??= new Promise(keep);
  return ending;
}
