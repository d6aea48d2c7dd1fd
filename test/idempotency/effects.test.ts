/** A call that had effects is not repeated for as long as answers are stored, whoever asks. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Effects } from "../../src/idempotency/effects.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite/store.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const folder = new TempFolder();
let store: SqliteStore;
beforeAll(() => {
  store = openStore(folder.path);
});
afterAll(async () => {
  await store.close();
  folder[Symbol.dispose]();
});

const hourMs = 3_600_000;
const clock = new ManualClock();
const of = (requestId: string, scope = "key surface") =>
  new Effects(store.runs, clock, { scope, requestId }, () => hourMs);

test("one of calls that race has effects", async () => {
  await of("a").check();
  const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => of("a").record()));
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  await expect(of("a").check()).rejects.toMatchObject({ code: "tools_called", status: 409 });
  await of("a", "other surface").check();
  await of("b").check();
});

test("its record expires with the answers", async () => {
  await of("c").record();
  await expect(of("c").record()).rejects.toMatchObject({ code: "tools_called" });
  clock.advance(hourMs);
  await of("c").check();
  await of("c").record();
  await expect(of("c").check()).rejects.toMatchObject({ code: "tools_called" });
});
