import { describe, expect, spyOn, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { Keys } from "../../src/auth/keys.ts";
import { buildInfo } from "../../src/build-info.ts";
import { Idempotency } from "../../src/idempotency/idempotency.ts";
import { Metrics } from "../../src/observability/metrics.ts";
import { openServices } from "../../src/server/services.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { Sweeper } from "../../src/store/sweeper.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { testConfig } from "../helpers/troupe.ts";

const options = { build: buildInfo, clock: new ManualClock(), log: silentLogger };

/** Whether the database was closed by the last who had it open: its log is gone then, and nobody is said to serve. */
function isClosed(folder: TempFolder): boolean {
  const names = readdirSync(folder.file("data"));
  const running = names.includes("running") ? readdirSync(folder.file("data/running")) : [];
  return !names.some((name) => name.endsWith("-wal")) && running.length === 0;
}

describe("openServices", () => {
  const fail = () => {
    throw new Error("this part fails");
  };
  const parts: [string, () => Disposable][] = [
    ["reading the keys", () => spyOn(Keys.prototype, "load").mockImplementation(fail)],
    ["making the first key", () => spyOn(Keys.prototype, "ensureFirstKey").mockImplementation(fail)],
    ["finding interrupted calls", () => spyOn(Idempotency.prototype, "interruptAbandoned").mockImplementation(fail)],
    ["registering metrics", () => spyOn(Metrics.prototype, "sample").mockImplementation(fail)],
    ["the sweeper", () => spyOn(Sweeper.prototype, "start").mockImplementation(fail)],
  ];

  test.each(parts)("closes all that was opened when %s fails", async (_, breakPart) => {
    using folder = new TempFolder();
    {
      using _broken = breakPart();
      await expect(openServices(testConfig(folder.file("data"), {}), options)).rejects.toThrow("this part fails");
    }
    expect(isClosed(folder)).toBe(true);
    const services = await openServices(testConfig(folder.file("data"), {}), options);
    expect(isClosed(folder)).toBe(false);
    await services.close();
    expect(isClosed(folder)).toBe(true);
  });

  test("a liveness lock that can't be had closes the database", async () => {
    using folder = new TempFolder();
    await openStore(folder.file("data")).close();
    writeFileSync(folder.file("data/running"), "");
    await expect(openServices(testConfig(folder.file("data"), {}), options)).rejects.toThrow("can't be used");
    expect(readdirSync(folder.file("data")).filter((name) => name.endsWith("-wal"))).toEqual([]);
  });

  test("closes in reverse order: what writes before the store, and all of it though one part fails", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("data"));
    const services = await openServices(testConfig(folder.file("data"), {}), options);
    const closed: string[] = [];
    const note = (name: string, target: { close(): unknown }) => {
      const close = target.close.bind(target);
      Object.assign(target, {
        close: () => {
          closed.push(name);
          return close();
        },
      });
    };
    note("idempotency", services.idempotency);
    note("upstream", services.upstream);
    note("store", services.store);
    using _flush = spyOn(services.keys, "flush").mockImplementation(() =>
      Promise.reject(new Error("the disk is full")),
    );
    await services.close();
    expect(closed).toEqual(["idempotency", "upstream", "store"]);
    expect(isClosed(folder)).toBe(true);
  });
});
