/** Pages of keys, counted by what they read of the store. */
import { expect, test } from "bun:test";
import type { keyOrders } from "../../src/auth/key-info.ts";
import { Keys } from "../../src/auth/keys.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

test("pages of keys read the rows of what they show, and of rows those that changed", async () => {
  const read = { changed: [] as number[], uses: [] as (number | undefined)[] };
  using folder = new TempFolder();
  const store = openStore(folder.path);
  const clock = new ManualClock();
  const keys = new Keys(
    {
      ...store.keys,
      changes: async (since) => {
        const changed = await store.keys.changes(since);
        read.changed.push(changed.rows.length);
        return changed;
      },
      lastUses: (ids) => {
        read.uses.push(ids?.length);
        return store.keys.lastUses(ids);
      },
    },
    clock,
    { free: 1, pro: 1 },
  );
  for (let at = 0; at < 50; at += 1) {
    clock.advance(1);
    await keys.create({ name: `key ${at}`, tier: "pro" });
  }
  const page = async (sort: (typeof keyOrders)[number], order: "asc" | "desc" = "asc") =>
    (await keys.shown((await keys.found({ sort, order })).slice(0, 20))).map(({ name }) => name);
  expect((await page("name")).slice(0, 3)).toEqual(["key 0", "key 1", "key 10"]);
  expect((await page("created_at", "desc"))[0]).toBe("key 49");
  expect((await keys.found({ sort: "name", order: "desc", search: "KEY 1", state: "active" })).length).toBe(11);
  const [{ id } = { id: "" }] = await keys.found({ sort: "name", order: "desc" });
  expect((await keys.named(id))?.name).toBe("key 9");
  expect(read).toEqual({ changed: [50], uses: [20, 20, 1] });
  await store.keys.touch(new Map([[id, 5]]));
  expect((await page("last_used_at"))[0]).toBe("key 9");
  expect(read).toEqual({ changed: [50], uses: [20, 20, 1, undefined, 20] });
  await keys.update(id, { name: "another" });
  expect((await page("name"))[0]).toBe("another");
  expect(read.changed).toEqual([50, 1]);
  await store.close();
});
