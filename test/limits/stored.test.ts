/** The limiter of a node among a few; test/simulation has many of them under faults. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Decision } from "../../src/limits/limiter.ts";
import { NodeWindow } from "../../src/limits/share.ts";
import { StoredLimiter } from "../../src/limits/stored.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import type { StoredWindows, WindowState } from "../../src/store/contract/windows.ts";
import { runs } from "../helpers/long-form.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { ModelWindows } from "../helpers/model-windows.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

const windowMs = 60_000;

/** Nodes that share one model of the store. */
class Nodes {
  readonly clock = new ManualClock();
  readonly model = new ModelWindows(() => this.clock.now() + 1_234_500, windowMs);
  readonly said: unknown[] = [];
  /** What the store answers in place of its own answers. */
  failure: Error | undefined;
  asked = 0;
  readonly all: readonly StoredLimiter[];

  constructor(count: number) {
    const asking = async <T>(work: () => T | Promise<T>): Promise<T> => {
      this.asked += 1;
      if (this.failure !== undefined) throw this.failure;
      return work();
    };
    const { model, clock } = this;
    const windows: StoredWindows = {
      hit: (caller, limit, id) => asking(() => model.hit(caller, limit, id)),
      add: (caller, hits) => asking(() => model.add(caller, hits)),
      tidy: async () => {},
      close: async () => {},
    };
    const say = (words: string, fields: { readonly error?: unknown } = {}) => this.said.push(fields.error ?? words);
    const log = { ...silentLogger, info: say, warn: say, error: say };
    this.all = Array.from({ length: count }, (_, rank) => {
      return new StoredLimiter({ windows, clock, log, place: "model", group: () => ({ nodes: count, rank }) });
    });
  }

  /** @returns how many of them are admitted */
  async hits(node: number, count: number, limit: number, caller = "a"): Promise<number> {
    let admitted = 0;
    for (let at = 0; at < count; at += 1) admitted += Number((await this.all[node]!.hit(caller, limit)).allowed);
    return admitted;
  }
}

describe("a node", () => {
  test("asks once for each hit, and tells what is left", async () => {
    const { all, clock } = new Nodes(2);
    expect(await all[0]!.hit("a", 3)).toMatchObject({ allowed: true, limit: 3, remaining: 2, retryAfterSeconds: 0 });
    clock.advance(20_000);
    expect(await all[1]!.hit("a", 3)).toMatchObject({ allowed: true, remaining: 1 });
    expect(all.map(({ counts }) => counts.waited)).toEqual([1, 1]);
    expect(all[0]!.status).toEqual({ state: "counted", nodes: 2 });
  });

  test("refuses without asking what it knows to be full, for as long as it is, unless the limit is raised", async () => {
    const nodes = new Nodes(1);
    expect(await nodes.hits(0, 3, 3)).toBe(3);
    nodes.clock.advance(20_000);
    expect(await nodes.all[0]!.hit("a", 3)).toMatchObject({ allowed: false, remaining: 0, retryAfterSeconds: 40 });
    const { asked } = nodes;
    expect(await nodes.hits(0, 10, 3)).toBe(0);
    expect(await nodes.all[0]!.hit("a", 2)).toMatchObject({ allowed: false });
    expect(nodes.asked).toBe(asked);
    expect(await nodes.all[0]!.hit("a", 4)).toMatchObject({ allowed: true });
    nodes.clock.advance(40_000);
    expect(await nodes.hits(0, 3, 3)).toBe(2);
  });

  test("gives decisions whose words hold, whatever is asked: who waits as long as told is let in", async () => {
    const step = fc.record({ node: fc.nat(1), wait: fc.constantFrom(0, 1, 999, 20_000, 59_999, 60_000) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.integer({ min: 1, max: 5 }), async (steps, limit) => {
        const { all, clock } = new Nodes(2);
        const admitted: number[] = [];
        let refused: (Decision & { readonly at: number }) | undefined;
        for (const { node, wait } of steps) {
          clock.advance(wait);
          const decision = await all[node]!.hit("a", limit);
          const within = admitted.filter((at) => at > clock.now() - windowMs).length;
          expect(decision.allowed).toBe(within < limit);
          if (decision.allowed) admitted.push(clock.now());
          expect(decision.remaining).toBe(decision.allowed ? limit - within - 1 : 0);
          if (!decision.allowed) refused ??= { ...decision, at: clock.now() };
        }
        if (refused === undefined) return;
        clock.advance(Math.max(0, refused.at + refused.retryAfterSeconds * 1000 - clock.now()));
        const last = admitted.filter((at) => at > clock.now() - windowMs).length;
        expect((await all[0]!.hit("a", limit)).allowed).toBe(last < limit);
      }),
      { numRuns: runs(100) },
    );
  });

  test("without the counter admits its share, and all shares are the limit; then it is told", async () => {
    const nodes = new Nodes(3);
    expect(await nodes.hits(0, 4, 100)).toBe(4);
    nodes.failure = new Error("no answer in time");
    // One is left over when 100 is divided. What a node admitted before is of its share.
    expect([await nodes.hits(0, 60, 100), await nodes.hits(1, 60, 100), await nodes.hits(2, 60, 100)]).toEqual([
      30, 33, 33,
    ]);
    expect(await nodes.all[1]!.hit("a", 100)).toMatchObject({ allowed: false, limit: 100, remaining: 0 });
    await nodes.clock.advanceSlowly(5_000);
    expect(nodes.all[0]!.status.state).toBe("away");
    nodes.failure = undefined;
    await nodes.clock.advanceSlowly(3_000);
    expect(nodes.all.map(({ status }) => status.state)).toEqual(["counted", "counted", "counted"]);
    expect(await nodes.hits(2, 5, 101)).toBe(1);
    await nodes.clock.advanceSlowly(60_000);
    expect(await nodes.hits(2, 101, 100)).toBe(100);
  });

  test("tells of a large share by few words, and of every request", async () => {
    const nodes = new Nodes(2);
    const add = nodes.model.add.bind(nodes.model);
    const told: number[] = [];
    nodes.model.add = (caller, hits) => {
      if (caller !== "") told.push(hits.length);
      return add(caller, hits);
    };
    nodes.failure = new Error("away");
    let admitted = 0;
    for (let second = 0; second < 30; second += 1) {
      admitted += await nodes.hits(0, 1_000, 100_000);
      await nodes.clock.advanceSlowly(1_000);
    }
    expect(admitted).toBe(30_000);
    nodes.failure = undefined;
    await nodes.clock.advanceSlowly(3_000);
    expect(nodes.all[0]!.status.state).toBe("counted");
    expect(told.reduce((sum, count) => sum + count, 0)).toBe(31);
    expect((await nodes.all[1]!.hit("a", 30_001)).allowed).toBe(true);
    expect((await nodes.all[1]!.hit("a", 30_001)).allowed).toBe(false);
  });

  test("keeps ids of so many requests alone whose answers were lost, and gathers the others by parts of the window", () => {
    const window = new NodeWindow(windowMs);
    for (let at = 0; at < 40_000; at += 1) window.admittedByShare(at * 3, at % 2 === 0 ? `${at}` : undefined);
    const total = () => window.unreported.reduce((sum, { hits }) => sum + hits, 0);
    expect(total()).toBe(40_000);
    expect(window.unreported.length).toBeLessThanOrEqual(500 + 1_001);
    const begun = window.toReport(32, () => "new");
    // Whoever comes while they are told of is not among them.
    const last = window.toReport(10_000, () => "new").at(-1)!;
    window.admittedByShare(last.at);
    window.reported(begun);
    expect(window.unreported.at(-1)).toEqual({ at: last.at, hits: 1 });
    expect(total() + begun.reduce((sum, { hits }) => sum + hits, 0)).toBe(40_001);
    window.expire(120_000);
    expect(window.unreported.length).toBeLessThanOrEqual(501);
  });

  test("is back at once where a single answer was late, and counts that request once", async () => {
    const nodes = new Nodes(2);
    nodes.failure = new Error("late");
    expect(await nodes.hits(0, 1, 10)).toBe(1);
    nodes.failure = undefined;
    await nodes.clock.advanceSlowly(1);
    expect(nodes.all[0]!.status.state).toBe("counted");
    expect(await nodes.hits(0, 10, 10)).toBe(9);
  });

  test("keeps to its share beside the counter for a window after that has lost what it counted", async () => {
    const nodes = new Nodes(2);
    expect([await nodes.hits(0, 6, 10), await nodes.hits(1, 2, 10)]).toEqual([6, 2]);
    nodes.model.wipe();
    await nodes.clock.advanceSlowly(1_000);
    expect([await nodes.hits(0, 10, 10), await nodes.hits(1, 10, 10)]).toEqual([0, 3]);
    expect(nodes.all[1]!.status.state).toBe("lost");
    expect(nodes.said).toEqual(
      Array(2).fill("the windows of the rate limits were lost; for a minute this node admits no more than its share"),
    );
    await nodes.clock.advanceSlowly(windowMs);
    expect(nodes.all[1]!.status.state).toBe("counted");
    expect(await nodes.hits(1, 20, 10)).toBe(10);
  });

  test("asks anew where it stood still between question and answer", async () => {
    const nodes = new Nodes(1);
    const { hit } = nodes.model;
    let held: ((state: WindowState) => void) | undefined;
    nodes.model.hit = () => new Promise((resolve) => (held = resolve));
    const waiting = nodes.all[0]!.hit("a", 1);
    await nodes.clock.advanceSlowly(40_000);
    nodes.model.hit = hit;
    expect(await nodes.hits(0, 1, 1)).toBe(1);
    held!({ allowed: true, used: 1, growsMs: 20_000, life: "1" });
    expect(await waiting).toMatchObject({ allowed: false });
  });

  test("says what is wrong with the windows, once a minute for as long as it lasts", async () => {
    const nodes = new Nodes(1);
    const [limiter] = nodes.all;
    const gone = new StorageError("away", "model", "gone");
    const replica = new StorageError("readonly", "model", "a replica");
    nodes.failure = gone;
    // Found out by who asks, where no request comes.
    expect(await limiter!.check()).toEqual({ state: "away", nodes: 1, cause: "away" });
    await nodes.clock.advanceSlowly(30_000);
    nodes.failure = replica;
    await nodes.clock.advanceSlowly(100_000);
    expect(limiter!.status.cause).toBe("readonly");
    nodes.failure = undefined;
    await nodes.clock.advanceSlowly(10_000);
    expect(limiter!.status).toEqual({ state: "counted", nodes: 1 });
    expect(nodes.said).toEqual([gone, replica, replica, "rate limits are counted over all nodes again"]);
    expect(limiter!.counts.lost).toBe(1);
  });

  test("tells on its way out what it admitted by its share, where it can", async () => {
    const nodes = new Nodes(2);
    nodes.failure = new Error("away");
    expect(await nodes.hits(0, 5, 10)).toBe(5);
    nodes.failure = undefined;
    await nodes.all[0]!.close();
    expect(await nodes.hits(1, 10, 10)).toBe(5);
  });
});
