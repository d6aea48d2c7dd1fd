import { edenGC, fullGC, heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type Link, LinkedList } from "../../src/lib/linked-list.ts";
import { runs } from "../helpers/long-form.ts";

test("has what was added, in order, but for what was taken", () => {
  const steps = fc.array(fc.option(fc.nat({ max: 20 }), { freq: 2 }), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (taken) => {
      const list = new LinkedList<number>();
      const links: Link<number>[] = [];
      for (const [number, take] of taken.entries()) {
        if (take === null) links.push(list.add(number, number / 2));
        else for (const link of links.splice(take, 1)) list.delete(link);
      }
      expect([...list].map(({ value, at }) => [value, at])).toEqual(links.map(({ value, at }) => [value, at]));
      expect(list.first).toBe(links[0]);
    }),
    { numRuns: runs(500) },
  );
}, 60_000);

/** Of things that come and go, 64 at a time, how many short collections of garbage leave. */
function left(add: (thing: DataView) => () => void): number {
  const under: (() => void)[] = [];
  const buffer = new ArrayBuffer(1);
  fullGC();
  for (let made = 1; made <= 20_000; made += 1) {
    under.push(add(new DataView(buffer)));
    if (under.length > 64) under.shift()!();
    if (made % 1000 === 0) edenGC();
  }
  return heapStats().objectTypeCounts["DataView"] ?? 0;
}

test("short collections of garbage take what is no longer in it", () => {
  const list = new LinkedList<DataView>();
  const ofList = left((thing) => {
    const link = list.add(thing, 0);
    return () => list.delete(link);
  });
  // Each of the 20 may find 64 under way, which are old from then on. Of a Set or Map they leave 7,000.
  expect(ofList).toBeLessThan(4_000);
});
