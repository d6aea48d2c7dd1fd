/** The reckoning of docs/scaling.md: the page is what it says, and it says what anyone reckons by hand. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { pageBlock } from "../helpers/page-blocks.ts";
import { type Kind, kinds, type Measured, readMeasured } from "./measured.ts";
import { page, tables, withTables } from "./page.ts";
import { bytes, defaults, help, type Load, loadFrom, planFor, rowsOf } from "./plan.ts";

const each = { before: 0, statements: 0, writes: 0, walBytes: 0, keptBytes: 0, nodeMicros: 100, serverMicros: 0 };
const id = { ...each, statements: 3, writes: 2, walBytes: 2000, keptBytes: 1000, nodeMicros: 400, serverMicros: 1000 };
/** Round numbers, to reckon by hand. */
const round: Measured = {
  ...readMeasured(),
  postgres: {
    ...(Object.fromEntries(kinds.map((kind) => [kind, each])) as Measured["postgres"]),
    id1Kb: id,
    id10Kb: id,
  },
  ledgerLine: { walBytes: 500, keptBytes: 500, serverMicros: 50 },
  ledgerHour: { walBytes: 0, serverMicros: 0, keptBytes: 0 },
  joined: { statements: 20, writes: 5, walBytes: 1000 },
  idle: { statements: 5, connections: 10, serverMicros: 0, memoryBytes: 100e6 },
  stream: { memoryBytes: 20_000, fragmentMicros: 10 },
  windows: { postgresMicros: 500, redisMicros: 50, redisBytesPerHit: 30 },
  server: { commitMs: 1, commits: 1, reservationsOfOneBudget: 500 },
};
const plan = (load: Partial<Load>) => planFor({ ...defaults, streams: 0, budget: 0, ...load }, round);

describe("docs/scaling.md", () => {
  test("has its tables from what was measured (bun test/scaling/page.ts writes them)", () => {
    const text = readFileSync(page, "utf8");
    expect(withTables(text)).toBe(text);
    for (const lines of Object.values(tables(readMeasured()))) expect(text).toContain(lines);
  });

  test("names options that there are", () => {
    const [, line] = pageBlock("docs/scaling.md", "Scaling", "sh").trim().split("\n");
    const [program, path, ...args] = line!.split(" ");
    expect([program, path]).toEqual(["bun", "test/scaling/plan.ts"]);
    expect(loadFrom(args)).toEqual({ ...defaults, calls: 1000 });
  });

  test("what was measured is whole, and possible", () => {
    const { postgres, sqlite, ...rest } = readMeasured();
    for (const kind of kinds) {
      for (const value of Object.values(postgres[kind])) expect(value).toBeGreaterThanOrEqual(0);
      expect(postgres[kind].nodeMicros).toBeGreaterThan(10);
      expect(sqlite[kind].writtenBytes).toBeGreaterThan(0);
    }
    // What docs/postgres.md promises.
    const before = (kind: Kind) => postgres[kind].before;
    expect([before("plain"), before("id1Kb"), before("idStream10Kb"), before("budget"), before("store1Kb")]).toEqual([
      0, 2, 2, 1, 1,
    ]);
    const numbers = (value: unknown): number[] =>
      typeof value === "number" ? [value] : typeof value === "object" ? Object.values(value!).flatMap(numbers) : [];
    for (const value of numbers(rest)) expect(value).toBeGreaterThan(0);
  });
});

describe("the reckoning", () => {
  test("1,000 calls a second, a tenth of them with an id", () => {
    const made = plan({ calls: 1000, "with-id": 0.1, valkey: 1 });
    expect(made.openCalls).toBe(10_000);
    // 1,000 × 100 µs, and 300 µs more for 100 of them.
    expect(made.callCores).toBeCloseTo(0.13);
    expect(made.serverCores).toBeCloseTo(0.1);
    expect(made.processes).toBe(2);
    expect(made.memoryBytes).toBe(2 * 100e6 + 10_000 * 20_000);
    expect(made.connections).toBe(20);
    // 3 of each id; 5 of each node; the ledger's: 4 of each node.
    expect(made.statements).toBeCloseTo(300 + 10 + 8);
    expect(made.walBytes).toBeCloseTo(100 * 2000 + 1000 * 500);
    expect(made.ledgerMonthBytes).toBe(1000 * 500 * 30 * 86_400);
    expect(made.ledgerBytes).toBe(1000 * 500 * 400 * 86_400);
    // With the room that updates leave.
    expect(made.answerBytes).toBeCloseTo(100 * 1000 * 1.2 * 86_400);
    // One hit of each call, for a minute.
    expect(made.valkeyCommands).toBe(1000);
    expect(made.valkeyBytes).toBe(1000 * 60 * 30);
  });

  test("nodes by streams, by processor, and one more", () => {
    expect(plan({ calls: 1, "with-id": 0 })).toMatchObject({ processes: 2, needsFor: "failure" });
    // 30,000 open calls.
    expect(plan({ calls: 3000, "with-id": 0 })).toMatchObject({ processes: 4, needsFor: "streams" });
    // 1,000 streams × 10 s × 100 fragments × 10 µs = 10 cores, of which 60 % are used.
    expect(plan({ calls: 1000, "with-id": 0, streams: 1, fragments: 100 })).toMatchObject({
      fragmentCores: 10,
      processes: 18,
      needsFor: "processor",
    });
  });

  test("says what breaks first, and splits until nothing does", () => {
    const load = { ...defaults, calls: 100_000 };
    const made = planFor(load, readMeasured());
    expect(made.groups).toBeGreaterThan(1);
    const [first, ...others] = made.limits.map(({ need, most }) => need / most);
    for (const other of others) expect(first!).toBeGreaterThanOrEqual(other);
    const split = planFor({ ...load, calls: load.calls / made.groups }, readMeasured());
    for (const { need, most } of split.limits) expect(need / most).toBeLessThan(1.1);
    // The ledger's table alone: 100,000 × 500 B × 400 days.
    expect(plan({ calls: 100_000, "with-id": 0, "db-tb": 1e6 }).limits[0]).toMatchObject({
      what: "one table: the ledger",
    });
    const shared = { calls: 1000, "same-budget": 1, budget: 1 };
    expect(plan({ ...shared, valkey: 0 }).limits[0]).toMatchObject({
      what: "calls in one budget",
      need: 1000,
      most: 500,
    });
    expect(plan({ calls: 10 }).groups).toBe(1);
  });

  test("more calls, longer streams and larger answers never ask for less", () => {
    const measured = readMeasured();
    const needs = (load: Partial<Load>) => {
      const { processes, statements, walBytes, memoryBytes, groups } = planFor({ ...defaults, ...load }, measured);
      return [processes, statements, walBytes, memoryBytes, groups];
    };
    for (const name of ["calls", "seconds", "answer-kb", "fragments", "keep-days"] as const) {
      const steps = [1, 10, 100, 1000].map((by) => needs({ [name]: by }));
      for (const [at, step] of steps.slice(1).entries())
        for (const [place, value] of step.entries()) expect(value).toBeGreaterThanOrEqual(steps[at]![place]!);
    }
  });

  test("windows in PostgreSQL cost it, where there is no Valkey", () => {
    const [without, having] = [plan({ valkey: 0 }), plan({ valkey: 1 })];
    expect(without.serverCores).toBeGreaterThan(having.serverCores);
    expect([without.valkeyCommands, without.valkeyBytes]).toEqual([0, 0]);
    expect(rowsOf(without)).toContainEqual(["Valkey: commands a second, cores, memory", "none"]);
  });

  test("lines of many keys change the sums of as many", () => {
    const dear = { ...round, ledgerHour: { walBytes: 100, serverMicros: 10, keptBytes: 400 } };
    const load = { ...defaults, streams: 0, budget: 0, "with-id": 0, calls: 1000 };
    const added = (rate: number) =>
      planFor({ ...load, "key-rate": rate }, dear).walBytes - planFor({ ...load, "key-rate": rate }, round).walBytes;
    // A million keys: nearly every line; one key: one of each batch, of which there are 8 a second.
    expect(added(0.001)).toBeGreaterThan(1000 * 99);
    expect(added(1000)).toBeCloseTo(8 * 100);
    const month = planFor({ ...load, "key-rate": 0.1 }, dear).ledgerMonthBytes;
    expect(month).toBeCloseTo(30 * (1000 * 500 * 86_400 + 10_000 * 24 * 400 * 1.2));
  });

  test("streams that are read on another node, through the database whoever counts windows", () => {
    const load = { "with-id": 0.1, streams: 1, joined: 0.5, fragments: 0 };
    const by = (valkey: number) => {
      const [made, alone] = [plan({ ...load, valkey }), plan({ ...load, joined: 0, valkey })];
      return [made.statements - alone.statements, made.valkeyCommands - alone.valkeyCommands].map(Math.round);
    };
    // 1,000 calls × 10 s × a tenth × a half.
    expect(by(0)).toEqual([500 * 20, 0]);
    expect(by(1)).toEqual([500 * 20, 0]);
  });

  test("whole pages after a checkpoint are no more than one for each id, and fewer where checkpoints are rare", () => {
    const often = plan({ "with-id": 1 });
    expect(often.wholePageBytes).toBeLessThanOrEqual(1000 * 8192);
    expect(plan({ "with-id": 1, checkpoint: 3600 }).wholePageBytes).toBeLessThan(often.wholePageBytes);
    expect(plan({ "with-id": 0 }).wholePageBytes).toBe(0);
  });

  test("refuses what is no number, and tells it", () => {
    expect(() => loadFrom(["--calls", "many"])).toThrow("--calls must be a number above 0: many");
    expect(() => loadFrom(["--with-id", "2"])).toThrow("--with-id must be a share up to 1: 2");
    expect(() => loadFrom(["--busy", "0"])).toThrow("--busy must be a share up to 1 above 0: 0");
    expect(() => loadFrom(["--seconds", "0"])).toThrow("--seconds must be a number above 0: 0");
    expect(() => loadFrom(["--streems", "1"])).toThrow("--streems");
    expect(loadFrom(["--fragments", "0", "--valkey", "0"])).toMatchObject({ fragments: 0, valkey: 0, calls: 1000 });
    for (const name of Object.keys(defaults)) expect(help()).toContain(`--${name} `);
  });

  test("words of sizes", () => {
    expect([0, 999, 1000, 26_000, 1_270_000_000_000].map(bytes)).toEqual(["0 B", "1,000 B", "1 KB", "26 KB", "1.3 TB"]);
  });
});
