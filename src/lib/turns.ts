/** Long work in pieces, of all callers one after the other: what else waits has its turn between any two of them. */

const waiting: (() => void)[] = [];
let begun = 0;

/** How many pieces have begun since the start. */
export const piecesBegun = (): number => begun;

/**
 * Waits for a turn of the event loop in which no other piece begins. What follows, up to the next wait, is the piece: it should
 * take less than some 50 ms, since everybody else waits for it.
 */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(beginNext);
  });
}

function beginNext(): void {
  const next = waiting.shift();
  if (waiting.length > 0) setImmediate(beginNext);
  begun += 1;
  next?.();
}
