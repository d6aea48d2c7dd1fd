import { expect, test } from "bun:test";
import { BriefMap } from "../../../src/lib/process/brief-map.ts";
import { mostLeft, shortlyLeft } from "../../helpers/short-collections.ts";

test("has what was set, but for what was deleted", () => {
  const map = new BriefMap<{ readonly name: string }>();
  for (const name of ["a", "b", "c"]) map.set(name, { name });
  map.delete("b");
  map.delete("unknown");
  expect([map.size, map.has("a"), map.has("b"), map.get("b"), map.get("c")]).toEqual([
    ...[2, true, false, undefined],
    { name: "c" },
  ]);
  expect([...map.values()]).toEqual([{ name: "a" }, { name: "c" }]);
  map.clear();
  expect([map.size, ...map.values()]).toEqual([0]);
});

test("short collections of garbage take what was deleted", () => {
  const map = new BriefMap<DataView>();
  let made = 0;
  const ofMap = shortlyLeft((thing) => {
    const key = String(made++);
    map.set(key, thing);
    return () => map.delete(key);
  });
  expect(ofMap).toBeLessThan(mostLeft);
});
