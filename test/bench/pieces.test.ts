import { expect, test } from "bun:test";
import { join } from "node:path";
import { pieces } from "./pieces-table.ts";

test("each piece of a plain call stands where its switch is put, once", async () => {
  const lost: string[] = [];
  for (const [name, switches] of Object.entries(pieces))
    for (const [file, text] of switches) {
      const source = Bun.file(join(import.meta.dir, "../../src", file));
      const times = (await source.exists()) ? (await source.text()).split(text).length - 1 : 0;
      if (times !== 1) lost.push(`${name}: ${times} times in ${file}: ${text}`);
    }
  expect(lost).toEqual([]);
});
