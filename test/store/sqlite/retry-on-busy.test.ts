import { expect, test } from "bun:test";
import { retryOnBusy } from "../../../src/store/sqlite/retry-on-busy.ts";

const busy = (code: string) => Object.assign(new Error("database is locked"), { code });

test("what is busy is run again until it is not", () => {
  let tries = 0;
  const result = retryOnBusy(() => {
    tries += 1;
    if (tries < 4) throw busy(tries === 2 ? "SQLITE_BUSY_SNAPSHOT" : "SQLITE_BUSY");
    return "open";
  }, 60_000);
  expect([result, tries]).toEqual(["open", 4]);
});

test("patience ends, and other errors need none", () => {
  expect(() =>
    retryOnBusy(() => {
      throw busy("SQLITE_BUSY");
    }, 5),
  ).toThrow("database is locked");
  let tries = 0;
  expect(() =>
    retryOnBusy(() => {
      tries += 1;
      throw busy("SQLITE_CORRUPT");
    }, 60_000),
  ).toThrow();
  expect(tries).toBe(1);
});
