/** Changes of keys count from the next request on, though SQLite is not asked for each. */
import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Store } from "../../../src/store/contract/store.ts";
import { KeyGeneration } from "../../../src/store/sqlite/key-generation.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { runScript } from "../../helpers/child-process.ts";
import { keyRow } from "../../helpers/key-row.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

let folder: TempFolder;
beforeEach(() => {
  folder = new TempFolder();
});
afterEach(() => folder[Symbol.dispose]());

/** Something that may be asked, by a clock of its own. */
class Asked {
  now = 5;
  count = 0;
  readonly version: () => number;

  constructor() {
    const generation = new KeyGeneration(folder.path);
    this.version = generation.untilRaised(
      () => ++this.count,
      () => this.now,
    );
  }
}

test("asks once, again after each change of whatever process, and once a second", async () => {
  const one = new Asked();
  const other = new Asked();
  for (const { version } of [one, other]) expect([version(), version(), version()]).toEqual([1, 1, 1]);
  new KeyGeneration(folder.path).raise();
  for (const { version } of [one, other]) expect([version(), version()]).toEqual([2, 2]);
  const script = `const { KeyGeneration } = await import(SRC + "/store/sqlite/key-generation.ts");
    new KeyGeneration(${JSON.stringify(folder.path)}).raise();`;
  expect((await runScript(script)).errors).toBe("");
  for (const { version } of [one, other]) expect([version(), version()]).toEqual([3, 3]);
  one.now += 999;
  expect(one.version()).toBe(3);
  one.now += 1;
  expect([one.version(), one.version()]).toEqual([4, 4]);
});

test("a failed question is asked again", () => {
  let isFailing = true;
  const version = new KeyGeneration(folder.path).untilRaised(
    () => {
      if (isFailing) throw new Error("no disk");
      return 1;
    },
    () => 0,
  );
  expect(version).toThrow("no disk");
  expect(version).toThrow("no disk");
  isFailing = false;
  expect(version()).toBe(1);
});

test("where no file can be mapped, each call asks, and changes are made all the same", () => {
  const nowhere = new KeyGeneration(folder.file("none"));
  let count = 0;
  const version = nowhere.untilRaised(
    () => ++count,
    () => 0,
  );
  nowhere.raise();
  expect([version(), version()]).toEqual([1, 2]);
});

test("a server sees each kind of change that the database counts, made by another process", async () => {
  const server = openStore(folder.path, { isServer: true });
  const other = openStore(folder.path);
  const budget = { scope: "all", period: "day", limit: 1, updatedAt: 1 } as const;
  const changes: ((store: Store) => Promise<unknown>)[] = [
    ({ keys }) => keys.insertFirst(keyRow("a"), () => {}),
    ({ keys }) => keys.insert(keyRow("b")),
    ({ keys }) => keys.update("a", { name: "c" }),
    ({ keys }) => keys.replaceSecret("a", keyRow("a").hash, "p", "h", null),
    ({ keys }) => keys.revoke("b", 5),
    ({ budgets }) => budgets.set(budget),
    ({ budgets }) => budgets.add(budget, 1, 2),
    ({ budgets }) => budgets.remove(budget),
  ];
  for (const change of changes) {
    const before = server.keys.version();
    expect(server.keys.version()).toBe(before);
    await change(other);
    expect(server.keys.version()).toBeGreaterThan(before);
  }
  await other.close();
  await server.close();
});

test("a change that nobody tells of is found by asking", async () => {
  const server = openStore(folder.path, { isServer: true });
  const before = server.keys.version();
  using database = new Database(folder.file("troupe.db"));
  database.run("update generations set value = value + 1");
  while (server.keys.version() === before) await new Promise((resolve) => setImmediate(resolve));
  await server.close();
});

test("a closed store tells nothing of its keys", async () => {
  const store = openStore(folder.path, { isServer: true });
  expect(store.keys.version()).toBe(0);
  await store.close();
  expect(() => store.keys.version()).toThrow("was closed");
});
