import { beforeEach, expect, test } from "bun:test";
import type { LedgerLine, LedgerRepository } from "../../../src/store/contract/usage.ts";
import { LedgerWriter } from "../../../src/usage/ledger/writer.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

/** Lines of a full batch. */
const full = 100;

let clock: ManualClock;
let batches: number[];
let written: string[];
/** Runs within each write. */
let whileWriting: (lines: readonly LedgerLine[]) => void | Promise<void>;
let writer: LedgerWriter;
let pushed: number;

const push = (count: number) => {
  for (let at = 0; at < count; at++) writer.push(ledgerLine(`req_${pushed++}`));
};
/** As many turns of the event loop as writes of some batches take. */
const settled = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
};

beforeEach(() => {
  clock = new ManualClock();
  batches = [];
  written = [];
  pushed = 0;
  whileWriting = () => {};
  const append = async (lines: readonly LedgerLine[]) => {
    await whileWriting(lines);
    batches.push(lines.length);
    written.push(...lines.map(({ requestId }) => requestId));
    return { added: lines.length, spending: [] };
  };
  writer = new LedgerWriter({ ledger: { append } as unknown as LedgerRepository, clock });
});

test("a few lines wait a quarter of a second for others", async () => {
  push(3);
  clock.advance(249);
  await settled();
  expect(batches).toEqual([]);
  expect([writer.waiting, writer.lagSeconds]).toEqual([3, 0.249]);
  clock.advance(1);
  await settled();
  expect(batches).toEqual([3]);
  expect(writer.waiting).toBe(0);
});

test("a full batch waits for no others, and is not written by whoever filled it", async () => {
  push(full);
  expect(batches).toEqual([]);
  clock.advance(0);
  await settled();
  expect(batches).toEqual([full]);
  push(1);
  clock.advance(250);
  await settled();
  expect(batches).toEqual([full, 1]);
});

test("what comes while lines are written waits for others again", async () => {
  whileWriting = () => push(writer.waiting < 2 * full + 50 ? 30 : 0);
  push(2 * full + 50);
  clock.advance(0);
  await settled();
  // All of them in three writes; the first two let thirty more come.
  expect(batches).toEqual([full, full, 50]);
  expect(writer.waiting).toBe(60);
  whileWriting = () => {};
  clock.advance(250);
  await settled();
  expect(batches).toEqual([full, full, 50, 60]);
});

test("a batch that filled up during a write follows at once", async () => {
  whileWriting = () => {
    whileWriting = () => {};
    push(full + 50);
  };
  push(5);
  clock.advance(250);
  await settled();
  clock.advance(0);
  await settled();
  expect(batches).toEqual([5, full, 50]);
});

test("what the store refuses is written later, each line once and in order, and full batches do not press it", async () => {
  let attempts = 0;
  whileWriting = () => {
    attempts += 1;
    throw new Error("disk full");
  };
  push(full);
  clock.advance(0);
  await settled();
  push(2 * full);
  clock.advance(249);
  await settled();
  expect(attempts).toBe(1);
  clock.advance(1);
  await settled();
  expect(attempts).toBe(2);
  whileWriting = () => {};
  clock.advance(250);
  await settled();
  expect(written).toEqual(Array.from({ length: 3 * full }, (_, at) => `req_${at}`));
  expect(writer.counts).toEqual({ written: 3 * full, lost: 0, failures: 2 });
});

test("closed, it writes what came until then, while it was written too; what can't be written is lost and counted", async () => {
  whileWriting = () => {
    whileWriting = () => {};
    push(7);
  };
  push(3);
  await writer.close();
  expect(batches).toEqual([3, 7]);
  whileWriting = () => {
    throw new Error("disk full");
  };
  push(2);
  await writer.close();
  expect(writer.counts).toEqual({ written: 10, lost: 2, failures: 1 });
});
