import { describe, expect, test } from "bun:test";
import { Conversations } from "../../src/conversations/conversations.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { pack } from "../../src/store/packing.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite/store.ts";
import { Sweeper } from "../../src/store/sweeper.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const hourMs = 3_600_000;

class House implements Disposable {
  readonly folder = new TempFolder();
  readonly clock = new ManualClock();
  readonly store: SqliteStore = openStore(this.folder.path);
  readonly sweeper: Sweeper;

  constructor(maxBytes?: number) {
    const rules = { retentionHours: 24, ...(maxBytes === undefined ? {} : { maxBytes }) };
    this.sweeper = new Sweeper(this.store, this.clock, () => rules);
    this.sweeper.start();
  }

  /** A finished answer of that many random bytes. */
  async keep(id: string, expiresAt: number, bytes = 10): Promise<void> {
    const { runs } = this.store;
    const run = "abcd1234";
    const made = { scope: "s", requestId: id, fingerprint: "f", run, createdAt: this.clock.now() };
    const lease = (await runs.claim(made))!;
    const body = pack(crypto.getRandomValues(new Uint8Array(bytes)));
    const headers = "{}";
    await runs.append(lease, headers, { firstId: 0, data: body });
    await runs.finish(lease, { status: 200, headers, events: 1, bodyFrom: 1, body, bytes, expiresAt });
  }

  async finished(): Promise<number> {
    return (await this.store.maintenance.runTotals()).finished;
  }

  advance(ms: number): Promise<void> {
    return this.clock.advanceSlowly(ms);
  }

  [Symbol.dispose](): void {
    this.sweeper.stop();
    void this.store.close();
    this.folder[Symbol.dispose]();
  }
}

describe("sweeper", () => {
  test("removes what has expired, a little at a time, once a minute", async () => {
    using house = new House();
    const now = house.clock.now();
    for (let at = 0; at < 120; at += 1) await house.keep(`old-${at}`, now + 59_000);
    for (let at = 0; at < 5; at += 1) await house.keep(`young-${at}`, now + 10 * hourMs);
    await house.advance(59_999);
    expect(await house.finished()).toBe(125);
    await house.advance(1);
    expect(await house.finished()).toBe(75);
    await house.advance(20);
    expect(await house.finished()).toBe(25);
    await house.advance(20);
    expect(await house.finished()).toBe(5);
    expect(house.sweeper.counts).toMatchObject({ answers: 120, turns: 0, sweeps: 0, failures: 0 });
    await house.advance(20);
    expect(house.sweeper.counts.sweeps).toBe(1);
    await house.advance(11 * hourMs);
    expect([await house.finished(), house.sweeper.counts.answers]).toEqual([0, 125]);
  });

  test("removes expired conversations, and deleted turns after an hour", async () => {
    using house = new House();
    const conversations = new Conversations(house.store, house.clock, () => 1);
    const holder = { keyId: "k", surface: "gateway" as const };
    for (const id of ["a", "b"]) {
      await conversations.remember(holder, {
        request: { model: "m/1", messages: [{ role: "user", content: "x" }] },
        requestId: "r",
        completion: { id, object: "chat.completion", created: 1, model: "m/1", choices: [] },
      });
    }
    await conversations.delete(holder, "a");
    await house.advance(hourMs - 60_000);
    expect((await house.store.maintenance.conversationTotals()).turns).toBe(2);
    await house.advance(120_000);
    expect((await house.store.maintenance.conversationTotals()).turns).toBe(1);
    await house.advance(24 * hourMs);
    expect(await house.store.maintenance.conversationTotals()).toMatchObject({ conversations: 0, turns: 0 });
    expect(house.sweeper.counts.turns).toBeGreaterThanOrEqual(2);
  });

  test("beyond the size it may have, kept answers go early, the oldest first, but none of the last hour", async () => {
    using house = new House(300_000);
    for (let at = 0; at < 60; at += 1) {
      await house.keep(`a-${at}`, house.clock.now() + 24 * hourMs, 10_000);
      await house.advance(2 * 60_000);
    }
    const left = await house.finished();
    expect((await house.store.maintenance.runTotals()).bytes).toBeLessThan(330_000);
    expect(left).toBeLessThan(60);
    expect(left).toBeGreaterThanOrEqual(29);
    expect(await house.store.runs.find("s", "a-59")).toBeDefined();
    expect(await house.store.runs.find("s", "a-0")).toBeUndefined();
  });

  test("the ledger pushes no answer out, however large it is", async () => {
    using house = new House(300_000);
    await house.keep("a", house.clock.now() + 24 * hourMs, 10_000);
    const line = (_: unknown, at: number) => ledgerLine(`req_${at}`, { at: house.clock.now() });
    await house.store.ledger.append(Array.from({ length: 4_000 }, line));
    const { bytes, freeBytes } = await house.store.maintenance.size();
    expect(bytes - freeBytes).toBeGreaterThan(400_000);
    await house.advance(2 * hourMs);
    expect(await house.store.runs.find("s", "a")).toBeDefined();
  });

  test("gives space back to the file system, but for a reserve", async () => {
    using house = new House();
    const now = house.clock.now();
    for (let at = 0; at < 40; at += 1) await house.keep(`a-${at}`, now + 1000, 500_000);
    const full = (await house.store.maintenance.size()).bytes;
    expect(full).toBeGreaterThan(40_000_000);
    await house.advance(120_000);
    const { bytes, freeBytes } = await house.store.maintenance.size();
    expect(freeBytes).toBeLessThanOrEqual(16 * 1024 ** 2);
    expect(bytes).toBeLessThan(18 * 1024 ** 2);
    expect(house.sweeper.counts.pages).toBeGreaterThan(5000);
  });

  test("goes on after the store failed", async () => {
    using house = new House();
    await house.keep("a", house.clock.now() + 1000);
    const { removeExpiredRuns } = house.store.maintenance;
    Object.assign(house.store.maintenance, {
      removeExpiredRuns: async () => {
        throw new StorageError("full", "troupe.db", "the disk is full");
      },
    });
    await house.advance(180_000);
    expect(house.sweeper.counts).toMatchObject({ answers: 0, failures: 3 });
    Object.assign(house.store.maintenance, { removeExpiredRuns });
    await house.advance(61_000);
    expect(await house.finished()).toBe(0);
  });
});
