import { edenGC, fullGC, heapStats } from "bun:jsc";

/** Each of the 20 may find some 64 under way, which are old from then on. Of a Set or Map they leave 7,000. */
export const mostLeft = 4_000;

/** Of things that come and go, 64 at a time, how many short collections of garbage leave. */
export function shortlyLeft(add: (thing: DataView) => () => void): number {
  const under: (() => void)[] = [];
  const buffer = new ArrayBuffer(1);
  fullGC();
  const before = viewsNow();
  for (let made = 1; made <= 20_000; made += 1) {
    under.push(add(new DataView(buffer)));
    if (under.length > 64) under.shift()!();
    if (made % 1000 === 0) edenGC();
  }
  return viewsNow() - before;
}

const viewsNow = () => heapStats().objectTypeCounts["DataView"] ?? 0;
