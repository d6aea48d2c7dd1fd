import { describe, expect, test } from "bun:test";
import { fingerprint } from "../../src/idempotency/fingerprint.ts";
import { Idempotency, type IdempotencyRules, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { openStore, type SqliteStore, type StoreOptions } from "../../src/store/sqlite/store.ts";
import type { Answer, RecordedEvents, StreamEnd } from "../../src/upstream/answer.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { keptEvent, type ScriptedCall, ScriptedUpstream, settle } from "../helpers/scripted-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const done = "[DONE]";
const usual: IdempotencyRules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 16 * 1024 * 1024 };

/** One process, as far as the store and the locks are concerned. */
class Process {
  readonly store: SqliteStore;
  readonly idempotency: Idempotency;

  constructor(folder: TempFolder, clock: ManualClock, rules: IdempotencyRules, options: StoreOptions = {}) {
    this.store = openStore(folder.path, options);
    this.idempotency = new Idempotency(this.store, clock, () => rules);
  }

  /** What `kill -9` leaves: the lock is gone, the rows are as they were, and nothing is written any more. */
  die(): void {
    for (const name of Object.keys(this.store.runs)) {
      Object.assign(this.store.runs, {
        [name]: async () => {
          throw new StorageError("unusable", "", "this process is dead");
        },
      });
    }
    void this.store.close();
  }
}

class House implements Disposable {
  readonly folder = new TempFolder();
  readonly clock = new ManualClock();
  readonly upstream = new ScriptedUpstream();
  readonly rules: IdempotencyRules;
  #processes: Process[] = [];
  readonly #options: StoreOptions;

  constructor(rules: Partial<IdempotencyRules> = {}, options: StoreOptions = {}) {
    this.rules = { ...usual, ...rules };
    this.#options = options;
    this.start();
  }

  start(): Process {
    const process = new Process(this.folder, this.clock, this.rules, this.#options);
    this.#processes.push(process);
    return process;
  }

  get process(): Process {
    return this.#processes[0]!;
  }

  /** Ends the first process as a crash would, and starts another one. */
  crash(): void {
    this.#processes.shift()!.die();
    if (this.#processes.length === 0) this.start();
  }

  ask(options: Partial<Asking> = {}): Promise<IdempotentAnswer> {
    const { process, id, body, signal, lastEventId, scope } = {
      process: this.process,
      id: "id-1",
      body: { model: "m" } as unknown,
      signal: new AbortController().signal,
      scope: "key gateway",
      ...options,
    };
    const claim = { scope, requestId: id, fingerprint: fingerprint(body, "") };
    return process.idempotency.run(claim, signal, this.upstream.produce, { lastEventId });
  }

  [Symbol.dispose](): void {
    for (const process of this.#processes) {
      void process.idempotency.close();
      void process.store.close();
    }
    this.folder[Symbol.dispose]();
  }
}

type Asking = {
  process: Process;
  id: string;
  body: unknown;
  signal: AbortSignal;
  scope: string;
  lastEventId: string;
};

const textOf = (answer: Answer<RecordedEvents>): string => {
  if (answer.kind !== "whole") throw new Error("not a whole answer");
  return typeof answer.body === "string" ? answer.body : new TextDecoder().decode(answer.body);
};

type Read = { ids: string[]; data: string[]; end: StreamEnd | Error };

/** All events to the end, with their ids. */
async function readAll(answer: Answer<RecordedEvents>): Promise<Read> {
  if (answer.kind !== "stream") throw new Error("not a stream");
  const read: Read = { ids: [], data: [], end: "cancelled" };
  try {
    for (;;) {
      const { value, done } = await answer.events.next();
      if (done === true) return { ...read, end: value };
      take(read, value);
    }
  } catch (error) {
    return { ...read, end: error as Error };
  }
}

function take(read: Read, events: readonly string[]): void {
  for (const { prefix, number, text } of events.map(keptEvent)) {
    read.ids.push(`${prefix}${number}`);
    read.data.push(text);
  }
}

async function nextRead(answer: Answer<RecordedEvents>): Promise<Read> {
  if (answer.kind !== "stream") throw new Error("not a stream");
  const { value, done } = await answer.events.next();
  if (done === true) throw new Error(`the stream is over: ${value}`);
  const read: Read = { ids: [], data: [], end: "cancelled" };
  take(read, value);
  return read;
}

const nextBatch = async (answer: Answer<RecordedEvents>) => (await nextRead(answer)).data;
const prefixOf = ({ ids }: Read) => ids[0]!.slice(0, ids[0]!.indexOf("-") + 1);

const errorOf = (promise: Promise<unknown>): Promise<ApiError> =>
  promise.then(
    () => {
      throw new Error("nothing was thrown");
    },
    (error: unknown) => error as ApiError,
  );

describe("whole answers", () => {
  test("are given again, byte for byte, without another call", async () => {
    using house = new House();
    const first = house.ask();
    await settle();
    house.upstream.last.whole('{"answer":"ünï 🎭"}', 201, { "content-type": "application/json", "x-a": "b" });
    const { answer, replayed, joined } = await first;
    expect([textOf(answer), replayed, joined]).toEqual(['{"answer":"ünï 🎭"}', false, false]);
    house.clock.advance(23 * 3_600_000);
    const again = await house.ask({ body: { model: "m" } });
    expect([textOf(again.answer), again.replayed, again.joined]).toEqual(['{"answer":"ünï 🎭"}', true, false]);
    expect(again.answer).toMatchObject({ status: 201, headers: { "content-type": "application/json", "x-a": "b" } });
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("many callers at once make one call and get one answer", async () => {
    using house = new House();
    const asked = Array.from({ length: 20 }, () => house.ask());
    await settle();
    expect(house.upstream.calls).toHaveLength(1);
    house.upstream.last.whole("{}");
    const all = await Promise.all(asked);
    expect(all.map(({ joined }) => joined)).toEqual([false, ...Array<boolean>(19).fill(true)]);
    expect(new Set(all.map(({ answer }) => textOf(answer)))).toEqual(new Set(["{}"]));
    expect(house.process.idempotency.running).toBe(0);
  });

  test("survive a crash right after they were given", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    house.upstream.last.whole("kept");
    await asked;
    house.crash();
    expect(await house.ask()).toMatchObject({ replayed: true });
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("ids taken in the same turn of the event loop are written together, and each is its own", async () => {
    using house = new House();
    const ids = Array.from({ length: 30 }, (_, at) => `id-${at % 10}`);
    const asked = ids.map((id) => house.ask({ id, body: { id } }));
    const other = errorOf(house.ask({ id: "id-3", body: { other: 1 } }));
    await settle();
    expect(house.upstream.calls).toHaveLength(10);
    expect((await other).status).toBe(422);
    for (const [at, call] of house.upstream.calls.entries()) call.whole(`answer ${at}`);
    const all = await Promise.all(asked);
    expect(all.map(({ answer }) => textOf(answer))).toEqual(ids.map((_, at) => `answer ${at % 10}`));
    expect(all.filter(({ joined }) => joined)).toHaveLength(20);
    house.crash();
    expect(textOf((await house.ask({ id: "id-7", body: { id: "id-7" } })).answer)).toBe("answer 7");
  });

  test("a caller who leaves while the id is taken calls nothing and leaves nothing behind", async () => {
    using house = new House();
    const leaving = new AbortController();
    const asked = errorOf(house.ask({ signal: leaving.signal }));
    leaving.abort(new Error("gone"));
    expect((await asked).message).toBe("gone");
    expect([house.upstream.calls.length, house.process.idempotency.running]).toEqual([0, 0]);
    expect((await house.process.store.maintenance.runTotals()).running).toBe(0);
  });

  test("another body under the same id is refused, whether the first runs or is over", async () => {
    using house = new House();
    const first = house.ask();
    await settle();
    const refused = async () => {
      const error = await errorOf(house.ask({ body: { model: "other" } }));
      expect([error.status, error.code, error.headers["x-should-retry"]]).toEqual([
        422,
        "idempotency_key_reused",
        "false",
      ]);
    };
    await refused();
    house.upstream.last.whole("{}");
    await first;
    await refused();
    house.crash();
    await refused();
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("ids are apart for keys and surfaces, and from each other", async () => {
    using house = new House();
    for (const options of [
      {},
      { scope: "key orchestrator" },
      { scope: "key2 gateway" },
      { id: "id-2" },
      { id: "ID-1" },
    ]) {
      const asked = house.ask(options);
      await settle();
      house.upstream.last.whole(String(house.upstream.calls.length));
      expect(textOf((await asked).answer)).toBe(String(house.upstream.calls.length));
    }
    expect(house.upstream.calls).toHaveLength(5);
  });

  test("an answer that is not 2xx frees the id, also for another body", async () => {
    using house = new House();
    for (const status of [400, 401, 408, 409, 429, 500, 503, 529]) {
      const asked = house.ask({ body: { status } });
      const beside = house.ask({ body: { status } });
      await settle();
      house.upstream.last.whole("no", status);
      expect((await asked).answer).toMatchObject({ status });
      expect(await beside).toMatchObject({ answer: { status }, joined: true });
    }
    expect(house.upstream.calls).toHaveLength(8);
    expect(house.process.idempotency.counts.released).toBe(8);
  });

  test("a call that throws frees the id, and everyone who waited hears of it", async () => {
    using house = new House();
    const asked = [house.ask(), house.ask()];
    await settle();
    const timeout = ApiError.upstreamTimeout("slow");
    house.upstream.last.fail(timeout);
    expect(await Promise.all(asked.map(errorOf))).toEqual([timeout, timeout]);
    const retry = house.ask();
    await settle();
    house.upstream.last.whole("{}");
    expect(await retry).toMatchObject({ replayed: false, joined: false });
    expect(house.upstream.calls).toHaveLength(2);
  });

  test("are forgotten after their time", async () => {
    using house = new House({ retentionHours: 2 });
    const asked = house.ask();
    await settle();
    house.upstream.last.whole("first");
    await asked;
    house.clock.advance(2 * 3_600_000 - 1);
    expect(await house.ask()).toMatchObject({ replayed: true });
    house.clock.advance(1);
    const anew = house.ask({ body: { model: "other" } });
    await settle();
    house.upstream.last.whole("second");
    expect(textOf((await anew).answer)).toBe("second");
  });
});

describe("streams", () => {
  test("pass as they come, and are given again with the same ids", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream({ "x-a": "b" }).push("a", "b");
    const { answer } = await asked;
    expect(await nextBatch(answer)).toEqual(["a", "b"]);
    const pending = nextBatch(answer);
    call.push("c");
    expect(await pending).toEqual(["c"]);
    call.push("d", done).end("finished");
    expect(await nextBatch(answer)).toEqual(["d", done]);
    expect(await readAll(answer)).toEqual({ ids: [], data: [], end: "finished" });
    const again = await house.ask();
    expect([again.replayed, again.answer.headers]).toEqual([true, { "x-a": "b" }]);
    const read = await readAll(again.answer);
    expect(read.data).toEqual(["a", "b", "c", "d", done]);
    expect(read.end).toBe("finished");
    const prefix = prefixOf(read);
    expect(prefix).toMatch(/^[0-9a-f]{8}-$/);
    expect(read.ids).toEqual([0, 1, 2, 3, 4].map((number) => `${prefix}${number}`));
  });

  test("a second caller gets the stream from its first chunk, then follows it", async () => {
    using house = new House();
    const first = house.ask();
    await settle();
    const call = house.upstream.last.stream().push("a").push("b");
    const one = (await first).answer;
    expect([await nextBatch(one), await nextBatch(one)]).toEqual([["a"], ["b"]]);
    const joined = await house.ask();
    expect(joined).toMatchObject({ joined: true, replayed: false });
    expect(await nextBatch(joined.answer)).toEqual(["a", "b"]);
    const both = [nextBatch(one), nextBatch(joined.answer)];
    call.push("c");
    expect(await Promise.all(both)).toEqual([["c"], ["c"]]);
    call.push(done).end("finished");
    expect((await readAll(one)).data).toEqual([done]);
    expect((await readAll(joined.answer)).data).toEqual([done]);
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("the last event is seen by nobody before all is stored", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream().push("a");
    const { answer } = await asked;
    expect(await nextBatch(answer)).toEqual(["a"]);
    let seen = false;
    const last = nextBatch(answer).then((data) => {
      seen = true;
      return data;
    });
    call.push(done);
    await settle();
    expect(seen).toBe(false);
    call.end("finished");
    expect(await last).toEqual([done]);
    house.crash();
    const { data, end } = await readAll((await house.ask()).answer);
    expect([data, end]).toEqual([["a", done], "finished"]);
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("Last-Event-ID continues after that event, running or finished", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream().push("a", "b", "c");
    const { answer } = await asked;
    const prefix = prefixOf(await nextRead(answer));
    const after = async (lastEventId: string) => (await house.ask({ lastEventId })).answer;
    expect(await nextBatch(await after(`${prefix}1`))).toEqual(["c"]);
    call.push(done).end("finished");
    const rest = await after(`${prefix}0`);
    expect(await readAll(rest)).toEqual({
      ids: [`${prefix}1`, `${prefix}2`, `${prefix}3`],
      data: ["b", "c", done],
      end: "finished",
    });
    expect((await readAll(await after(`${prefix}2`))).data).toEqual([done]);
    expect((await readAll(await after(`${prefix}3`))).data).toEqual([]);
    const whole = ["a", "b", "c", done];
    for (const odd of [`${prefix}4`, `${prefix}99`, `${prefix}-1`, `${prefix}1x`, "", "1", "ffffffff-1"]) {
      expect((await readAll(await after(odd))).data).toEqual(whole);
    }
  });

  test("an event id of a lost call never continues another one", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    house.upstream.last.stream().push("a", "b");
    const { answer } = await asked;
    const lostId = `${prefixOf(await nextRead(answer))}1`;
    house.crash();
    const retry = house.ask({ lastEventId: lostId });
    await settle();
    house.upstream.last.stream().push("x", "y", done).end("finished");
    expect((await readAll((await retry).answer)).data).toEqual(["x", "y", done]);
    expect(house.upstream.calls).toHaveLength(2);
  });

  test("a fault in the stream reaches its readers and frees the id", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    house.upstream.last.stream().push("a").push("fault", done).end("faulted");
    const read = await readAll((await asked).answer);
    expect([read.data, read.end]).toEqual([["a", "fault", done], "faulted"]);
    const retry = house.ask();
    await settle();
    house.upstream.last.stream().push("b", done).end("finished");
    expect((await readAll((await retry).answer)).data).toEqual(["b", done]);
    expect((await house.ask()).replayed).toBe(true);
    expect(house.upstream.calls).toHaveLength(2);
  });

  test("a stream that ends without its last event frees the id", async () => {
    using house = new House();
    for (const end of ["cancelled", "faulted"] as const) {
      const asked = house.ask();
      await settle();
      house.upstream.last.stream().push("a").end(end);
      const read = await readAll((await asked).answer);
      expect([read.data, read.end]).toEqual([["a"], end]);
    }
    expect(house.upstream.calls).toHaveLength(2);
  });

  test("an upstream that says it finished, but without [DONE], is kept as it is", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    house.upstream.last.stream().push("a").end("finished");
    expect((await readAll((await asked).answer)).data).toEqual(["a"]);
    const again = await house.ask();
    expect([again.replayed, (await readAll(again.answer)).data]).toEqual([true, ["a"]]);
  });

  test("long ones leave memory while they run, and lose nothing", async () => {
    using house = new House();
    const events = Array.from({ length: 500 }, (_, number) => `{"n":${number},"text":"${"x".repeat(1000)}"}`);
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream();
    for (let at = 0; at < events.length; at += 10) call.push(...events.slice(at, at + 10));
    const first = (await asked).answer;
    for (let batch = 0; batch < 30; batch += 1) await nextBatch(first);
    const { answer: late } = await house.ask();
    expect(await nextBatch(late)).toEqual(events.slice(0, 70));
    call.push(done).end("finished");
    expect((await readAll(first)).data).toEqual([...events.slice(300), done]);
    const read = await readAll(late);
    expect(read.data).toEqual([...events.slice(70), done]);
    const prefix = prefixOf(read);
    expect((await readAll((await house.ask()).answer)).data).toEqual([...events, done]);
    for (const from of [68, 69, 70, 71, 139, 250, 489, 490, 498, 499]) {
      const { answer } = await house.ask({ lastEventId: `${prefix}${from}` });
      const read = await readAll(answer);
      expect([read.data.length, read.data[0], read.ids[0]]).toEqual([
        500 - from,
        [...events, done][from + 1],
        `${prefix}${from + 1}`,
      ]);
    }
  });

  test("a slow reader slows the upstream; the fastest one drives", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream();
    for (let at = 0; at < 50; at += 1) call.push(`e${at}`);
    const slow = (await asked).answer;
    await nextBatch(slow);
    await settle();
    expect(call.reads).toBe(1);
    const fast = (await house.ask()).answer;
    for (let at = 0; at < 10; at += 1) await nextBatch(fast);
    expect(call.reads).toBe(10);
    expect(await nextBatch(slow)).toEqual(Array.from({ length: 9 }, (_, at) => `e${at + 1}`));
    expect(call.reads).toBe(10);
  });
});

describe("leaving", () => {
  test("before the answer: the call runs on, and the retry finds it", async () => {
    using house = new House();
    const leaving = new AbortController();
    const asked = house.ask({ signal: leaving.signal });
    await settle();
    leaving.abort(new Error("gone"));
    expect(await errorOf(asked)).toMatchObject({ message: "gone" });
    expect(house.upstream.last.signal.aborted).toBe(false);
    const retry = house.ask();
    house.upstream.last.whole("{}");
    expect(await retry).toMatchObject({ joined: true });
    expect(await house.ask()).toMatchObject({ replayed: true });
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("in the middle of a stream: it is read to its end for whoever comes back", async () => {
    using house = new House();
    const leaving = new AbortController();
    const asked = house.ask({ signal: leaving.signal });
    await settle();
    const call = house.upstream.last.stream().push("a").push("b");
    const { answer } = await asked;
    await nextBatch(answer);
    leaving.abort();
    await settle();
    expect(call.reads).toBe(2);
    expect(house.process.idempotency.running).toBe(1);
    call.push("c").push(done).end("finished");
    await house.process.idempotency.settled();
    const again = await house.ask();
    expect([again.replayed, (await readAll(again.answer)).data]).toEqual([true, ["a", "b", "c", done]]);
  });

  test("by ending the events, at once even while one is awaited", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream().push("a");
    const { answer } = await asked;
    await nextBatch(answer);
    if (answer.kind === "stream") await answer.events.return("cancelled");
    call.push("b", done).end("finished");
    await house.process.idempotency.settled();
    expect((await readAll((await house.ask()).answer)).data).toEqual(["a", "b", done]);
  });

  test("before the first read of a stream", async () => {
    using house = new House();
    const leaving = new AbortController();
    const asked = house.ask({ signal: leaving.signal });
    await settle();
    house.upstream.last.stream().push("a", done).end("finished");
    await asked;
    leaving.abort();
    await house.process.idempotency.settled();
    expect((await house.ask()).replayed).toBe(true);
  });

  test("one of several readers: the others read on, and drive", async () => {
    using house = new House();
    const leaving = new AbortController();
    const first = house.ask({ signal: leaving.signal });
    const second = house.ask();
    await settle();
    const call = house.upstream.last.stream().push("a");
    await nextBatch((await first).answer);
    leaving.abort();
    await settle();
    expect(call.reads).toBe(1);
    call.push("b", done).end("finished");
    expect((await readAll((await second).answer)).data).toEqual(["a", "b", done]);
  });

  test("when configured so, the last to leave ends the call in every phase", async () => {
    using house = new House({ finishAfterDisconnect: false });
    for (const phase of ["before", "within"] as const) {
      const leaving = [new AbortController(), new AbortController()];
      const asked = leaving.map(({ signal }) => house.ask({ signal }));
      const over = Promise.allSettled(asked);
      await settle();
      const call = house.upstream.last;
      if (phase === "within") call.stream().push("a");
      if (phase === "within") for (const one of asked) await nextBatch((await one).answer);
      leaving[0]!.abort();
      await settle();
      expect(call.signal.aborted).toBe(false);
      leaving[1]!.abort();
      await settle();
      expect(call.signal.aborted).toBe(true);
      await over;
      expect(house.process.idempotency.running).toBe(0);
    }
    const retry = house.ask({ body: { model: "another" } });
    await settle();
    house.upstream.last.whole("{}");
    expect(await retry).toMatchObject({ replayed: false, joined: false });
    expect(house.upstream.calls).toHaveLength(3);
  });

  test("a caller who is gone already calls nothing", async () => {
    using house = new House();
    await errorOf(house.ask({ signal: AbortSignal.abort() }));
    expect(house.upstream.calls).toHaveLength(0);
  });
});

describe("answers that are too large", () => {
  test("a whole one goes to its callers and frees the id", async () => {
    using house = new House({ recordBytes: 100 });
    for (const [size, kept] of [
      [100, true],
      [101, false],
    ] as const) {
      const asked = house.ask({ id: String(size) });
      await settle();
      house.upstream.last.whole("x".repeat(size));
      expect(textOf((await asked).answer)).toHaveLength(size);
      const retry = house.ask({ id: String(size) });
      await settle();
      if (!kept) house.upstream.last.whole("again");
      expect((await retry).replayed).toBe(kept);
    }
  });

  test("a stream goes on for its reader, can't be joined any more, and frees the id at its end", async () => {
    using house = new House({ recordBytes: 200_000 });
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream();
    for (let at = 0; at < 40; at += 1) call.push(`${at}${"x".repeat(10_000)}`);
    const { answer } = await asked;
    for (let at = 0; at < 30; at += 1) expect((await nextBatch(answer))[0]).toStartWith(String(at));
    expect(await errorOf(house.ask())).toMatchObject({ status: 503, code: "overloaded" });
    expect(house.upstream.calls).toHaveLength(1);
    call.push(done).end("finished");
    const read = await readAll(answer);
    expect([read.data.length, read.end]).toEqual([11, "finished"]);
    const retry = house.ask();
    await settle();
    house.upstream.last.whole("{}");
    expect(await retry).toMatchObject({ replayed: false, joined: false });
  });

  test("a stream that nobody reads any more, and that could not be kept, is ended", async () => {
    using house = new House({ recordBytes: 100_000 });
    const leaving = new AbortController();
    const asked = house.ask({ signal: leaving.signal });
    await settle();
    const call = house.upstream.last.stream();
    await asked;
    leaving.abort();
    for (let at = 0; at < 40; at += 1) call.push("x".repeat(10_000));
    while (house.process.idempotency.running > 0) {
      house.clock.advance(10);
      await settle();
    }
    expect([call.signal.aborted, call.reads < 20]).toEqual([true, true]);
  });
});

describe("crashes", () => {
  test("what was half done is called anew, at once and by any body", async () => {
    using house = new House();
    void house.ask({ id: "waiting" });
    const streaming = house.ask({ id: "streaming" });
    await settle();
    house.upstream.last.stream().push("a");
    await nextBatch((await streaming).answer);
    house.crash();
    await house.process.idempotency.interruptAbandoned();
    expect(house.process.idempotency.counts.interrupted).toBe(2);
    expect(await house.process.store.maintenance.runTotals()).toMatchObject({ running: 0, interrupted: 2 });
    for (const id of ["waiting", "streaming"]) {
      const retry = house.ask({ id, body: { other: id } });
      await settle();
      house.upstream.last.whole(id);
      expect(await retry).toMatchObject({ replayed: false, joined: false });
    }
    expect(house.upstream.calls).toHaveLength(4);
  });

  test("a process that lives is not disturbed by one that starts", async () => {
    using house = new House();
    const asked = house.ask();
    await settle();
    const other = house.start();
    expect(other.idempotency.counts.interrupted).toBe(0);
    house.upstream.last.whole("{}");
    expect((await asked).replayed).toBe(false);
    expect(await house.ask({ process: other })).toMatchObject({ replayed: true });
  });
});

describe("two processes", () => {
  test("the second one waits for the first one's whole answer", async () => {
    using house = new House();
    const other = house.start();
    const first = house.ask();
    await settle();
    const second = house.ask({ process: other });
    for (let tick = 0; tick < 5; tick += 1) {
      house.clock.advance(50);
      await settle();
    }
    house.upstream.last.whole("one");
    await first;
    house.clock.advance(50);
    expect(await second).toMatchObject({ joined: true, replayed: false });
    expect(textOf((await second).answer)).toBe("one");
    expect(house.upstream.calls).toHaveLength(1);
    const error = await errorOf(house.ask({ process: other, body: { other: 1 } }));
    expect(error.status).toBe(422);
  });

  test("the second one follows the first one's stream, even if nobody reads that", async () => {
    using house = new House();
    const other = house.start();
    const first = await (async () => {
      const asked = house.ask();
      await settle();
      house.upstream.last.stream({ "x-a": "b" }).push("a").push("b");
      return (await asked).answer;
    })();
    const second = house.ask({ process: other });
    await settle();
    for (let tick = 0; tick < 5; tick += 1) {
      house.clock.advance(100);
      await settle();
    }
    const { answer, joined } = await second;
    expect([joined, answer.headers]).toEqual([true, { "x-a": "b" }]);
    expect(await nextBatch(answer)).toEqual(["a", "b"]);
    const rest = readAll(answer);
    house.upstream.last.push("c");
    for (let tick = 0; tick < 5; tick += 1) {
      house.clock.advance(100);
      await settle();
    }
    house.upstream.last.push("d", done).end("finished");
    for (let tick = 0; tick < 5; tick += 1) {
      house.clock.advance(100);
      await settle();
    }
    expect((await rest).data).toEqual(["c", "d", done]);
    expect((await readAll(first)).data).toEqual(["a", "b", "c", "d", done]);
    expect(house.upstream.calls).toHaveLength(1);
  });

  /** Until the first one knows that the second one waits, and the second one of what came since. */
  const ticks = async (house: House) => {
    for (let tick = 0; tick < 6; tick += 1) {
      house.clock.advance(100);
      await settle();
    }
  };

  test("the second one gets the error of the first one's call, and the id is free for another body", async () => {
    using house = new House({ recordBytes: 1000 });
    const other = house.start();
    const upstreamError = { error: { message: "busy" }, provider: "openai", format: "openai" };
    for (const [fail, told] of [
      [
        (call: ScriptedCall) => call.whole("busy", 429, { "retry-after": "7" }, upstreamError),
        {
          answer: {
            kind: "whole",
            status: 429,
            headers: { "retry-after": "7" },
            body: Buffer.from("busy"),
            ...upstreamError,
          },
          joined: true,
        },
      ],
      [
        (call: ScriptedCall) => call.fail(ApiError.upstreamTimeout("slow")),
        { status: 504, code: "upstream_timeout", message: "slow", headers: {} },
      ],
      [(call: ScriptedCall) => call.whole("x".repeat(1001)), { status: 503, code: "overloaded" }],
    ] as const) {
      const calls = house.upstream.calls.length;
      const first = house.ask().catch(() => {});
      await settle();
      const second = house.ask({ process: other }).catch((error: unknown) => error);
      await ticks(house);
      fail(house.upstream.last);
      await ticks(house);
      await first;
      expect(await second).toMatchObject(told as object);
      expect(house.upstream.calls).toHaveLength(calls + 1);
      const anew = house.ask({ process: other, body: { model: "another" } });
      await settle();
      house.upstream.last.whole("no", 400);
      expect(await anew).toMatchObject({ joined: false, replayed: false });
      expect(house.upstream.calls).toHaveLength(calls + 2);
    }
  });

  test("the second one gets a stream to its fault, with the error", async () => {
    using house = new House();
    const other = house.start();
    const first = house.ask();
    await settle();
    house.upstream.last.stream({ "x-a": "b" }).push("a");
    const second = house.ask({ process: other });
    await ticks(house);
    const { answer } = await second;
    const reading = readAll(answer);
    await ticks(house);
    house.upstream.last.push("b", "fault", done).end("faulted");
    await ticks(house);
    expect(await reading).toMatchObject({ data: ["a", "b", "fault", done], end: "faulted" });
    expect(answer.headers).toEqual({ "x-a": "b" });
    expect((await readAll((await first).answer)).end).toBe("faulted");
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("a reader in the second one counts where the last to leave ends the call", async () => {
    using house = new House({ finishAfterDisconnect: false });
    const other = house.start();
    const leaving = new AbortController();
    const first = house.ask({ signal: leaving.signal });
    await settle();
    house.upstream.last.stream().push("a");
    await first;
    const second = house.ask({ process: other });
    await ticks(house);
    leaving.abort();
    await settle();
    expect(house.upstream.last.signal.aborted).toBe(false);
    house.upstream.last.push("b", done).end("finished");
    const reading = readAll((await second).answer);
    await ticks(house);
    expect(await reading).toMatchObject({ data: ["a", "b", done], end: "finished" });
  });

  test("where the first one's call fails before it knows that another process waits, that one calls", async () => {
    using house = new House();
    const other = house.start();
    const first = house.ask();
    await settle();
    const second = house.ask({ process: other });
    await settle();
    house.upstream.last.whole("busy", 429);
    await first;
    house.clock.advance(50);
    await settle();
    expect(house.upstream.calls).toHaveLength(2);
    house.upstream.last.whole("fine");
    expect(await second).toMatchObject({ joined: false, replayed: false });
    expect(textOf((await house.ask()).answer)).toBe("fine");
  });

  test("when the first one dies, the second one calls; a stream that it was following breaks", async () => {
    using house = new House();
    const other = house.start();
    void house.ask({ id: "whole" }).catch(() => {});
    await settle();
    const waiting = house.ask({ id: "whole", process: other });
    void house.ask({ id: "stream" }).catch(() => {});
    await settle();
    house.upstream.last.stream().push("a");
    const following = house.ask({ id: "stream", process: other });
    for (let tick = 0; tick < 10; tick += 1) {
      house.clock.advance(50);
      await settle();
    }
    const { answer } = await following;
    const read = readAll(answer);
    await settle();
    house.crash();
    house.clock.advance(50);
    await settle();
    expect(house.upstream.calls).toHaveLength(3);
    house.upstream.last.whole("fresh");
    expect(textOf((await waiting).answer)).toBe("fresh");
    const { data, end } = await read;
    expect([data, (end as ApiError).code]).toEqual([["a"], "upstream_unavailable"]);
    const retry = house.ask({ id: "stream" });
    await settle();
    house.upstream.last.stream().push("b", done).end("finished");
    expect((await readAll((await retry).answer)).data).toEqual(["b", done]);
  });

  test("a caller who waits for another process may leave", async () => {
    using house = new House();
    const other = house.start();
    void errorOf(house.ask());
    await settle();
    const leaving = new AbortController();
    const waiting = errorOf(house.ask({ process: other, signal: leaving.signal }));
    await settle();
    leaving.abort(new Error("gone"));
    expect((await waiting).message).toBe("gone");
  });
});

describe("when storage fails", () => {
  const failing = () => {
    throw new StorageError("full", "troupe.db", "the disk is full");
  };

  test("a new id can't be taken: 503 storage_unavailable, and nothing is called", async () => {
    using house = new House();
    Object.assign(house.process.store.runs, { claim: failing });
    const error = await errorOf(house.ask());
    expect([error.status, error.code, error.headers["retry-after"]]).toEqual([503, "storage_unavailable", "5"]);
    expect(house.upstream.calls).toHaveLength(0);
  });

  test("an answer that can't be stored is given all the same, and to retries until it can", async () => {
    using house = new House();
    const rows = house.process.store.runs;
    const { finish } = rows;
    Object.assign(rows, { finish: failing });
    const whole = house.ask({ id: "whole" });
    const stream = house.ask({ id: "stream" });
    await settle();
    house.upstream.calls[0]!.whole("{}");
    house.upstream.calls[1]!.stream().push("a", done).end("finished");
    expect(textOf((await whole).answer)).toBe("{}");
    expect((await readAll((await stream).answer)).data).toEqual(["a", done]);
    expect(await house.ask({ id: "whole" })).toMatchObject({ replayed: true });
    const again = await house.ask({ id: "stream" });
    expect([again.replayed, (await readAll(again.answer)).data]).toEqual([true, ["a", done]]);
    house.clock.advance(1000);
    await settle();
    expect([house.process.idempotency.running, house.process.idempotency.counts.storeFailures]).toEqual([2, 2]);
    Object.assign(rows, { finish });
    house.clock.advance(200);
    await settle();
    expect(house.process.idempotency.running).toBe(0);
    house.crash();
    expect((await readAll((await house.ask({ id: "stream" })).answer)).data).toEqual(["a", done]);
    expect(house.upstream.calls).toHaveLength(2);
  });

  test("it waits a minute for the store, not for ever; then the id is free again, in every process", async () => {
    using house = new House();
    const other = house.start();
    const rows = house.process.store.runs;
    const { finish } = rows;
    Object.assign(rows, { finish: failing });
    const asked = house.ask();
    await settle();
    house.upstream.last.whole("{}");
    await asked;
    house.clock.advance(60_000);
    await settle();
    house.clock.advance(200);
    await settle();
    expect(house.process.idempotency.running).toBe(0);
    Object.assign(rows, { finish });
    const retry = house.ask({ process: other });
    await settle();
    expect(house.upstream.calls).toHaveLength(2);
    house.upstream.last.whole("{}");
    expect(await retry).toMatchObject({ replayed: false, joined: false });
  });

  test("an id whose release could not be written is free in other processes as soon as it can", async () => {
    using house = new House();
    const other = house.start();
    const rows = house.process.store.runs;
    const { release } = rows;
    Object.assign(rows, { release: failing });
    const asked = house.ask();
    await settle();
    house.upstream.last.whole("no", 500);
    await asked;
    const retry = house.ask({ process: other });
    for (let tick = 0; tick < 5; tick += 1) {
      house.clock.advance(200);
      await settle();
    }
    expect(house.upstream.calls).toHaveLength(1);
    Object.assign(rows, { release });
    for (let tick = 0; tick < 5; tick += 1) {
      house.clock.advance(200);
      await settle();
    }
    expect(house.upstream.calls).toHaveLength(2);
    house.upstream.last.whole("yes");
    expect(textOf((await retry).answer)).toBe("yes");
  });

  test("an id whose release could not be written is free all the same", async () => {
    using house = new House();
    const rows = house.process.store.runs;
    const { release } = rows;
    Object.assign(rows, { release: failing });
    const asked = house.ask();
    await settle();
    house.upstream.last.whole("no", 500);
    await asked;
    Object.assign(rows, { release });
    const retry = house.ask();
    await settle();
    house.upstream.last.whole("yes");
    expect(textOf((await retry).answer)).toBe("yes");
  });

  test("a stream whose middle can't be stored for a moment is stored all the same", async () => {
    using house = new House();
    const { runs } = house.process.store;
    const { append } = runs;
    Object.assign(runs, { append: failing });
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream();
    for (let at = 0; at < 20; at += 1) call.push(`${at}${"x".repeat(10_000)}`);
    const answer = (await asked).answer;
    await settle();
    Object.assign(runs, { append });
    for (let at = 20; at < 40; at += 1) call.push(`${at}${"x".repeat(10_000)}`);
    call.push(done).end("finished");
    const read = await readAll(answer);
    const again = await readAll((await house.ask()).answer);
    expect([again.data, again.end]).toEqual([read.data, "finished"]);
    expect(house.upstream.calls).toHaveLength(1);
  });

  test("a stream whose middle can't be stored goes on for its reader", async () => {
    using house = new House();
    Object.assign(house.process.store.runs, { append: failing });
    const asked = house.ask();
    await settle();
    const call = house.upstream.last.stream();
    for (let at = 0; at < 120; at += 1) call.push(`${at}${"x".repeat(10_000)}`);
    call.push(done).end("finished");
    const read = await readAll((await asked).answer);
    expect([read.data.length, read.end]).toEqual([121, "finished"]);
    const retry = house.ask();
    await settle();
    expect(house.upstream.calls).toHaveLength(2);
    house.upstream.last.whole("{}");
    await retry;
  });

  test("on a disk that is really full, finished answers are still given", async () => {
    using house = new House({}, { maxBytes: 256 * 1024 });
    const asked = house.ask({ id: "early" });
    await settle();
    house.upstream.last.whole("early");
    await asked;
    let refused: ApiError | undefined;
    for (let at = 0; at < 500 && refused === undefined; at += 1) {
      const one = house.ask({ id: `fill-${at}`, scope: "s".repeat(2000) }).catch((error: ApiError) => {
        refused = error;
      });
      await settle();
      if (house.upstream.calls.length === at + 2)
        house.upstream.last.whole(Buffer.from(crypto.getRandomValues(new Uint8Array(3000))).toString("base64"));
      await one;
    }
    expect(refused).toMatchObject({ status: 503, code: "storage_unavailable" });
    expect(textOf((await house.ask({ id: "early" })).answer)).toBe("early");
  });
});

describe("closing", () => {
  test("cancels what runs, frees its id, and tells its readers", async () => {
    using house = new House();
    const waiting = house.ask({ id: "a" });
    const streaming = house.ask({ id: "b" });
    await settle();
    house.upstream.last.stream().push("x");
    const { answer } = await streaming;
    await nextBatch(answer);
    await house.process.idempotency.close();
    await errorOf(waiting);
    expect((await readAll(answer)).end).toBe("cancelled");
    expect(house.upstream.calls.map(({ signal }) => signal.aborted)).toEqual([true, true]);
    expect(await house.process.store.maintenance.runTotals()).toEqual({
      running: 0,
      finished: 0,
      interrupted: 0,
      bytes: 0,
    });
  });
});
