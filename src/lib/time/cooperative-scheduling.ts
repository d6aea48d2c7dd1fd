/** Cooperative scheduling: long work runs in slices, one slice per turn of the event loop, over all callers. */

const waiting: (() => void)[] = [];
let begun = 0;

/** Number of slices that have begun since the start. */
export const slicesBegun = (): number => begun;

/**
 * Waits for a turn of the event loop in which no other slice runs. The slice is what follows up to the next await: it should take
 * less than 50 ms, since everything else waits for it.
 */
export function nextSlice(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(runNext);
  });
}

function runNext(): void {
  const next = waiting.shift();
  if (waiting.length > 0) setImmediate(runNext);
  begun += 1;
  next?.();
}
