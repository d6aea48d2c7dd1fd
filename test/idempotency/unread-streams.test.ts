/** What streams that nobody reads may take of a process, counted in pieces. */
import { expect, test } from "bun:test";
import { Idempotency } from "../../src/idempotency/idempotency.ts";
import type { Sink } from "../../src/lib/streams/flow.ts";
import type { RunRepository, StoredEvents } from "../../src/store/contract/store.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import type { EventSource, Events, LastEvents, Producer } from "../../src/upstream/answer.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { settle } from "../helpers/scripted-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1 << 24 };

/** An upstream that has the next batch as soon as it is asked for. */
class Quick implements EventSource {
  taken = 0;
  readonly #batches: number;
  readonly #batch: string[];
  #reader: Sink<Events, LastEvents> | undefined;
  #isPaused = false;
  #isGiving = false;

  constructor(batches: number, characters: number) {
    this.#batches = batches;
    this.#batch = [JSON.stringify("x".repeat(characters - 2))];
  }
  readonly produce: Producer = async () => ({ kind: "stream", headers: {}, events: this });

  flow(reader: Sink<Events, LastEvents>): void {
    this.#reader = reader;
    this.#give();
  }
  pause(): void {
    this.#isPaused = true;
  }
  resume(): void {
    this.#isPaused = false;
    this.#give();
  }
  cancel(): void {
    this.#reader = undefined;
  }
  #give(): void {
    if (this.#isGiving) return;
    this.#isGiving = true;
    while (!this.#isPaused && this.#reader !== undefined) {
      const isLast = this.taken === this.#batches;
      this.taken += 1;
      const reader = this.#reader;
      if (isLast) this.#reader = undefined;
      if (isLast) reader.end({ how: "finished", events: ["[DONE]"] });
      else reader.push([...this.#batch]);
    }
    this.#isGiving = false;
  }
}

type World = {
  readonly clock: ManualClock;
  readonly idempotency: Idempotency;
  readonly rows: RunRepository;
  /** Starts a call, whose caller leaves at once. */
  leave(upstream: Quick, id: string): Promise<void>;
  close(): void;
};

function open(folder: TempFolder): World {
  const store = openStore(folder.path);
  const clock = new ManualClock();
  const idempotency = new Idempotency(store, clock, () => rules);
  return {
    clock,
    idempotency,
    rows: store.runs,
    async leave(upstream, requestId) {
      const leaving = new AbortController();
      const claim = { scope: "s", requestId, fingerprint: "f" };
      await idempotency.run(claim, leaving.signal, upstream.produce);
      leaving.abort();
    },
    close() {
      void idempotency.close();
      void store.close();
    },
  };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("all together they take one batch in a turn of the event loop", async () => {
  using folder = new TempFolder();
  const { leave, close } = open(folder);
  const upstreams = Array.from({ length: 20 }, () => new Quick(1_000, 100));
  await Promise.all(upstreams.map((upstream, at) => leave(upstream, `${at}`)));
  const taken = () => upstreams.reduce((sum, upstream) => sum + upstream.taken, 0);
  let before = taken();
  for (let turns = 0; turns < 100; turns += 1) {
    await turn();
    expect(taken() - before).toBeLessThanOrEqual(1);
    before = taken();
  }
  expect(before).toBeGreaterThan(80);
  // Each has its turn.
  expect(Math.min(...upstreams.map((upstream) => upstream.taken))).toBeGreaterThan(2);
  close();
});

test("all together they take 128 KiB in 10 ms, and what came is kept whole", async () => {
  using folder = new TempFolder();
  const { clock, idempotency, leave, close } = open(folder);
  const upstreams = Array.from({ length: 3 }, () => new Quick(40, 16 * 1024));
  await Promise.all(upstreams.map((upstream, at) => leave(upstream, `${at}`)));
  const taken = () => upstreams.reduce((sum, upstream) => sum + upstream.taken, 0);
  for (let round = 1; idempotency.running > 0; round += 1) {
    for (let turns = 0; turns < 50; turns += 1) await turn();
    expect(taken()).toBeLessThanOrEqual(9 * round + 3);
    clock.advance(10);
  }
  expect(taken()).toBe(3 * 41);
  const { answer } = await idempotency.run(
    { scope: "s", requestId: "1", fingerprint: "f" },
    new AbortController().signal,
    () => Promise.reject(new Error("no second call")),
  );
  let events = 0;
  if (answer.kind === "stream") for await (const batch of answer.events) events += batch.length;
  expect(events).toBe(41);
  close();
});

test("a reader who comes back reads at its own speed at once", async () => {
  using folder = new TempFolder();
  const { leave, idempotency, close } = open(folder);
  const upstream = new Quick(100, 16 * 1024);
  await leave(upstream, "1");
  for (let turns = 0; turns < 50; turns += 1) await turn();
  expect(upstream.taken).toBeLessThan(12);
  const claim = { scope: "s", requestId: "1", fingerprint: "f" };
  const { answer } = await idempotency.run(claim, new AbortController().signal, upstream.produce);
  let events = 0;
  if (answer.kind === "stream") for await (const batch of answer.events) events += batch.length;
  expect(events).toBe(101);
  close();
});

test("a large whole answer is written in pieces of 256 KiB, one in a turn of the event loop, and is given again whole", async () => {
  using folder = new TempFolder();
  const { idempotency, rows, clock, close } = open(folder);
  const pieces: number[] = [];
  let inThisTurn = 0;
  const append = rows.append.bind(rows);
  Object.assign(rows, {
    append: (...[id, headers, events]: [Parameters<typeof append>[0], string | null, StoredEvents]) => {
      pieces.push(events.data.length);
      inThisTurn += 1;
      expect(inThisTurn).toBe(1);
      setImmediate(() => {
        inThisTurn = 0;
      });
      return append(id, headers, events);
    },
  });
  const body = new Uint8Array(3 * 1024 * 1024);
  for (let at = 0; at < body.length; at += 65_536) crypto.getRandomValues(body.subarray(at, at + 65_536));
  const claim = { scope: "s", requestId: "1", fingerprint: "f" };
  const ask = (produce: Producer) => idempotency.run(claim, new AbortController().signal, produce);
  const first = await ask(async () => ({ kind: "whole", status: 200, headers: { a: "b" }, body }));
  expect(first.answer).toMatchObject({ kind: "whole" });
  expect(pieces).toEqual(Array(12).fill(256 * 1024));
  const again = await ask(() => Promise.reject(new Error("no second call")));
  expect(again.replayed).toBe(true);
  expect(again.answer).toMatchObject({ kind: "whole", status: 200, headers: { a: "b" } });
  if (again.answer.kind === "whole") expect(Buffer.compare(again.answer.body as Uint8Array, body)).toBe(0);
  await settle();
  clock.advance(1);
  close();
});
