import { describe, expect, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { Idempotency, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import type { RunRepository } from "../../src/store/contract/store.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import type { WholeAnswer } from "../../src/upstream/answer.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { keptEvent, ScriptedUpstream, settle } from "../helpers/scripted-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1_000_000 };

/** One process on the folder. */
class Node implements AsyncDisposable {
  readonly upstream = new ScriptedUpstream();
  readonly store;
  readonly idempotency;

  constructor(
    folder: TempFolder,
    clock: ManualClock,
    change: (runs: RunRepository) => Partial<RunRepository> = () => ({}),
  ) {
    this.store = openStore(folder.path);
    const runs = { ...this.store.runs, ...change(this.store.runs) };
    this.idempotency = new Idempotency({ runs }, clock, () => rules);
  }

  ask(): Promise<IdempotentAnswer> {
    const claim = { scope: "s", requestId: "r", fingerprint: "f" };
    return this.idempotency.run(claim, new AbortController().signal, this.upstream.produce);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.idempotency.close();
    await this.store.close();
  }
}

/** All that is read of a stream, and the error that ended it. */
async function read({ answer }: IdempotentAnswer): Promise<unknown[]> {
  if (answer.kind !== "stream") throw new Error("not a stream");
  const found: unknown[] = [];
  try {
    for (let step = await answer.events.next(); step.done !== true; step = await answer.events.next()) {
      found.push(...step.value.map((event) => keptEvent(event).text));
    }
  } catch (error) {
    found.push((error as { code?: string }).code);
  }
  return found;
}

/** What is read of a stream until now. */
function take({ answer }: IdempotentAnswer): { readonly found: readonly string[]; readonly done: Promise<void> } {
  if (answer.kind !== "stream") throw new Error("not a stream");
  const { events } = answer;
  const found: string[] = [];
  const all = async () => {
    for await (const some of events) found.push(...some.map((event) => keptEvent(event).text));
  };
  return { found, done: all() };
}

/** Time as a process sees it, from one tick to the next. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 200) {
    clock.advance(200);
    await settle();
  }
}

/** What makes others take the process for one that ended. */
function loseLock(folder: TempFolder): void {
  for (const name of readdirSync(folder.file("running"))) rmSync(folder.file(`running/${name}`));
}

describe("a lease owner that lost it", () => {
  test("ends its call, tells its readers, and writes nothing over the new owner's answer", async () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    await using first = new Node(folder, clock);
    const asked = first.ask();
    await settle();
    const old = first.upstream.last.stream().push("a");
    const reading = read(await asked);
    await settle();
    loseLock(folder);
    await using second = new Node(folder, clock);
    const anew = second.ask();
    await settle();
    expect(old.signal.aborted).toBe(false);
    await pass(clock, 10_200);
    expect(old.signal.aborted).toBe(true);
    expect(await reading).toEqual(["a", "upstream_unavailable"]);
    expect(first.idempotency.running).toBe(0);
    second.upstream.last.whole("new");
    expect(((await anew).answer as WholeAnswer).body).toBe("new");
    const again = await first.ask();
    expect(again.replayed).toBe(true);
    expect(Buffer.from((again.answer as WholeAnswer).body as Uint8Array).toString()).toBe("new");
  });

  test("that comes to its end before it hears of it gives no end: the retry gets the other answer", async () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    await using first = new Node(folder, clock);
    const [whole] = [first.ask()];
    await settle();
    loseLock(folder);
    await using second = new Node(folder, clock);
    const anew = second.ask();
    await settle();
    first.upstream.last.whole("old");
    expect(await whole.catch((error: { code?: string }) => error.code)).toBe("upstream_unavailable");
    second.upstream.last.whole("new");
    expect(((await anew).answer as WholeAnswer).body).toBe("new");
  });

  test("is none whose end is being written, though its record does not run any more", async () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const written = Promise.withResolvers<void>();
    await using node = new Node(folder, clock, (runs) => ({
      async finish(lease, finished) {
        const isHeld = await runs.finish(lease, finished);
        await written.promise;
        return isHeld;
      },
    }));
    const asked = node.ask();
    await settle();
    node.upstream.last.stream().push("a").end("finished");
    const reading = read(await asked);
    await pass(clock, 10_200);
    written.resolve();
    expect(await reading).toEqual(["a"]);
    expect((await node.ask()).replayed).toBe(true);
  });

  test("because it could not renew it stops when it lapses, and not before", async () => {
    using folder = new TempFolder();
    const clock = new ManualClock();
    const lapsesAt = clock.monotonic() + 3_000;
    await using node = new Node(folder, clock, () => ({
      holds: () => clock.monotonic() < lapsesAt,
      renew: () => Promise.reject(new StorageError("unusable", "", "the database is away")),
    }));
    const asked = node.ask();
    await settle();
    const call = node.upstream.last.stream().push("a");
    const reading = read(await asked);
    await settle();
    await pass(clock, 2_800);
    expect(call.signal.aborted).toBe(false);
    await pass(clock, 400);
    expect(call.signal.aborted).toBe(true);
    expect(await reading).toEqual(["a", "upstream_unavailable"]);
  });
});

test("who joins while the end waits to be stored is not given it before", async () => {
  using folder = new TempFolder();
  const clock = new ManualClock();
  const isThere = Promise.withResolvers<void>();
  await using node = new Node(folder, clock, (runs) => ({
    leaseTerms: { renewMs: 5_000, lapseMs: 15_000 },
    async finish(lease, finished) {
      await isThere.promise;
      return runs.finish(lease, finished);
    },
  }));
  const asked = node.ask();
  await settle();
  const call = node.upstream.last.stream().push("a");
  const first = take(await asked);
  await settle();
  call.push("b").push("[DONE]").end("finished");
  await settle();
  const joined = take(await node.ask());
  await settle();
  expect([first.found, joined.found]).toEqual([
    ["a", "b"],
    ["a", "b"],
  ]);
  isThere.resolve();
  await Promise.all([first.done, joined.done]);
  expect([first.found, joined.found]).toEqual([
    ["a", "b", "[DONE]"],
    ["a", "b", "[DONE]"],
  ]);
});

test("an answer that a lapsing store never takes is given up after ten minutes, and a retry calls anew", async () => {
  using folder = new TempFolder();
  const clock = new ManualClock();
  const failing = () => Promise.reject(new StorageError("full", "", "the disk is full"));
  const released: string[] = [];
  await using node = new Node(folder, clock, (runs) => ({
    leaseTerms: { renewMs: 5_000, lapseMs: 15_000 },
    finish: failing,
    async release(lease) {
      released.push(lease.run);
      await runs.release(lease);
    },
  }));
  const asked = node.ask().catch((error: { code?: string }) => error.code);
  await settle();
  node.upstream.last.whole("{}");
  await pass(clock, 16_000);
  expect(await asked).toBe("storage_unavailable");
  await pass(clock, 9 * 60_000);
  // It waits for the answer that is there: no second call.
  expect(await node.ask().catch((error: { code?: string }) => error.code)).toBe("storage_unavailable");
  expect([node.upstream.calls.length, released.length, node.idempotency.running]).toEqual([1, 0, 1]);
  await pass(clock, 70_000);
  expect([released.length, node.idempotency.running]).toEqual([1, 0]);
  expect(await node.store.runs.find("s", "r")).toBeUndefined();
  void node.ask().catch(() => {});
  await settle();
  expect(node.upstream.calls).toHaveLength(2);
});
