import { expect, test } from "bun:test";
import fc from "fast-check";
import { type Link, LinkedList } from "../../../src/lib/process/linked-list.ts";
import { runs } from "../../helpers/long-form.ts";
import { mostLeft, shortlyLeft } from "../../helpers/short-collections.ts";

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
});

test("short collections of garbage take what is no longer in it", () => {
  const list = new LinkedList<DataView>();
  const ofList = shortlyLeft((thing) => {
    const link = list.add(thing, 0);
    return () => list.delete(link);
  });
  expect(ofList).toBeLessThan(mostLeft);
});
