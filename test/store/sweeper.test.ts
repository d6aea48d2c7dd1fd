import { describe, expect, test } from "bun:test";
import { Conversations } from "../../src/conversations/conversations.ts";
import { pack } from "../../src/store/packing.ts";
import { openStore, type Store } from "../../src/store/sqlite/store.ts";
import { StorageError } from "../../src/store/storage-error.ts";
import { Sweeper } from "../../src/store/sweeper.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const hourMs = 3_600_000;

class House implements Disposable {
  readonly folder = new TempFolder();
  readonly clock = new ManualClock();
  readonly store: Store = openStore(this.folder.path);
  readonly sweeper: Sweeper;

  constructor(maxBytes?: number) {
    const rules = { retentionHours: 24, ...(maxBytes === undefined ? {} : { maxBytes }) };
    this.sweeper = new Sweeper(this.store, this.clock, () => rules);
    this.sweeper.start();
  }

  /** A finished answer of that many random bytes. */
  async keep(id: string, expiresAt: number, bytes = 10): Promise<void> {
    const { idempotency } = this.store;
    const run = "abcd1234";
    const made = { scope: "s", requestId: id, fingerprint: "f", run, owner: "o", createdAt: this.clock.now() };
    const call = (await idempotency.claim(made))!;
    const body = pack(crypto.getRandomValues(new Uint8Array(bytes)));
    const headers = "{}";
    idempotency.append({ call, run }, headers, { firstId: 0, data: body });
    await idempotency.finish({ call, run }, { status: 200, headers, events: 1, bodyFrom: 1, body, bytes, expiresAt });
  }

  finished(): number {
    return this.store.idempotency.totals().finished;
  }

  [Symbol.dispose](): void {
    this.sweeper.stop();
    this.store.close();
    this.folder[Symbol.dispose]();
  }
}

describe("sweeper", () => {
  test("removes what has expired, a little at a time, once a minute", async () => {
    using house = new House();
    const now = house.clock.now();
    for (let at = 0; at < 120; at += 1) await house.keep(`old-${at}`, now + 59_000);
    for (let at = 0; at < 5; at += 1) await house.keep(`young-${at}`, now + 10 * hourMs);
    house.clock.advance(59_999);
    expect(house.finished()).toBe(125);
    house.clock.advance(1);
    expect(house.finished()).toBe(75);
    house.clock.advance(20);
    expect(house.finished()).toBe(25);
    house.clock.advance(20);
    expect(house.finished()).toBe(5);
    expect(house.sweeper.counts).toMatchObject({ answers: 120, turns: 0, sweeps: 0, failures: 0 });
    house.clock.advance(20);
    expect(house.sweeper.counts.sweeps).toBe(1);
    house.clock.advance(11 * hourMs);
    expect([house.finished(), house.sweeper.counts.answers]).toEqual([0, 125]);
  }, 60_000);

  test("removes expired conversations, and deleted turns after an hour", () => {
    using house = new House();
    const conversations = new Conversations(house.store, house.clock, () => 1);
    const holder = { keyId: "k", surface: "gateway" as const };
    for (const id of ["a", "b"]) {
      conversations.remember(holder, {
        request: { model: "m/1", messages: [{ role: "user", content: "x" }] },
        requestId: "r",
        completion: { id, object: "chat.completion", created: 1, model: "m/1", choices: [] },
      });
    }
    conversations.delete(holder, "a");
    house.clock.advance(hourMs - 60_000);
    expect(house.store.conversations.totals().turns).toBe(2);
    house.clock.advance(120_000);
    expect(house.store.conversations.totals().turns).toBe(1);
    house.clock.advance(24 * hourMs);
    expect(house.store.conversations.totals()).toMatchObject({ conversations: 0, turns: 0 });
    expect(house.sweeper.counts.turns).toBeGreaterThanOrEqual(2);
  }, 60_000);

  test("beyond the size it may have, kept answers go early, the oldest first, but none of the last hour", async () => {
    using house = new House(600_000);
    for (let at = 0; at < 60; at += 1) {
      await house.keep(`a-${at}`, house.clock.now() + 24 * hourMs, 10_000);
      house.clock.advance(2 * 60_000);
    }
    const { bytes, freeBytes } = house.store.size();
    const left = house.finished();
    expect(bytes - freeBytes).toBeLessThan(1_200_000);
    expect(left).toBeLessThan(60);
    expect(left).toBeGreaterThanOrEqual(29);
    expect(house.store.idempotency.find("s", "a-59")).toBeDefined();
    expect(house.store.idempotency.find("s", "a-0")).toBeUndefined();
  });

  test("gives space back to the file system, but for a reserve", async () => {
    using house = new House();
    const now = house.clock.now();
    for (let at = 0; at < 40; at += 1) await house.keep(`a-${at}`, now + 1000, 500_000);
    const full = house.store.size().bytes;
    expect(full).toBeGreaterThan(40_000_000);
    house.clock.advance(120_000);
    const { bytes, freeBytes } = house.store.size();
    expect(freeBytes).toBeLessThanOrEqual(16 * 1024 ** 2);
    expect(bytes).toBeLessThan(18 * 1024 ** 2);
    expect(house.sweeper.counts.pages).toBeGreaterThan(5000);
  }, 60_000);

  test("goes on after the store failed", async () => {
    using house = new House();
    await house.keep("a", house.clock.now() + 1000);
    const { removeExpired } = house.store.idempotency;
    Object.assign(house.store.idempotency, {
      removeExpired: () => {
        throw new StorageError("full", "troupe.db", "the disk is full");
      },
    });
    house.clock.advance(180_000);
    expect(house.sweeper.counts).toMatchObject({ answers: 0, failures: 3 });
    Object.assign(house.store.idempotency, { removeExpired });
    house.clock.advance(61_000);
    expect(house.finished()).toBe(0);
  });
});
