/**
 * Random requests, joins, disconnects, retries with other bodies, expiries and crashes, on two processes that share a data
 * folder, against a model that fits on a page. A failure prints its seed: MODEL_SEED=… MODEL_STEPS=… bun test …
 */
import { expect, spyOn, test } from "bun:test";
import { Idempotency, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite/store.ts";
import type { Answer, RecordedEvents, StreamEnd } from "../../src/upstream/answer.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { Random } from "../helpers/random.ts";
import { keptEvent, type ScriptedCall, ScriptedUpstream, settle } from "../helpers/scripted-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const done = "[DONE]";
const hourMs = 3_600_000;
const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1_000_000 };

/** Its wall clock jumps without time passing. */
class JumpingClock extends ManualClock {
  #jumped = 0;

  override now(): number {
    return super.now() + this.#jumped;
  }

  jump(ms: number): void {
    this.#jumped += ms;
  }
}

/** A real process, but for the operating system. */
class Process {
  readonly store: SqliteStore;
  readonly idempotency: Idempotency;

  constructor(folder: TempFolder, clock: ManualClock) {
    this.store = openStore(folder.path);
    this.idempotency = new Idempotency(this.store, clock, () => rules);
  }

  die(): void {
    for (const name of Object.keys(this.store.runs)) {
      // Answered from memory: it can't reject.
      if (name === "holds") continue;
      Object.assign(this.store.runs, {
        [name]: async () => {
          throw new StorageError("unusable", "", "this process is dead");
        },
      });
    }
    void this.store.close();
  }
}

/** A caller and what it got. Eager ones read all there is, the others only keep their connection. */
class Client {
  readonly process: number;
  readonly key: string;
  readonly body: string;
  readonly eager: boolean;
  readonly leaving = new AbortController();
  /** Of a stream, the number of the first event it asked for. */
  readonly from: number;
  kept: IdempotentAnswer | undefined;
  error: unknown;
  readonly read: string[] = [];
  /** What the ids of its events begin with. */
  prefix: string | undefined;
  end: StreamEnd | Error | undefined;
  gone = false;

  constructor(process: number, key: string, body: string, eager: boolean, from: number) {
    this.process = process;
    this.key = key;
    this.body = body;
    this.eager = eager;
    this.from = from;
  }

  async follow(asked: Promise<IdempotentAnswer>): Promise<void> {
    try {
      this.kept = await asked;
      if (this.eager) await this.#readAll(this.kept.answer);
    } catch (error) {
      this.error = error;
    }
  }

  async #readAll(answer: Answer<RecordedEvents>): Promise<void> {
    if (answer.kind === "whole") return;
    try {
      for (;;) {
        const { value, done } = await answer.events.next();
        if (done === true) {
          this.end = value;
          return;
        }
        const events = value.map(keptEvent);
        expect(events[0]!.number).toBe(this.from + this.read.length);
        this.prefix = events[0]!.prefix;
        this.read.push(...events.map(({ text }) => text));
      }
    } catch (error) {
      this.end = error as Error;
    }
  }
}

/** One upstream call, as the model sees it. */
type ModelCall = {
  readonly script: ScriptedCall;
  readonly process: number;
  readonly key: string;
  readonly body: string;
  /** Of the same process; the first one made the call. */
  readonly clients: Client[];
  /** Of the other process. */
  readonly foreign: Client[];
  watched: boolean;
  whole: { status: number; text: string } | undefined;
  stream: boolean;
  /** What the upstream has sent; `taken` of it was read. */
  readonly sent: string[];
  taken: number;
  /** What has not been read: batches by their size, and the end. */
  readonly queue: (number | "end")[];
  /** A read waits for the upstream: it will take one batch, even if nobody asks for more by then. */
  reading: boolean;
  ended: StreamEnd | "broken" | undefined;
  state: "running" | "finished" | "released";
  /** Those of the other process are told how it failed. */
  told: boolean;
};

class World {
  readonly random: Random;
  readonly folder = new TempFolder();
  readonly clock = new JumpingClock();
  readonly upstream = new ScriptedUpstream();
  readonly processes: Process[] = [];
  readonly calls: ModelCall[] = [];
  /** By key: the call that has the id now. */
  readonly holders = new Map<string, ModelCall>();
  readonly expiries = new Map<ModelCall, number>();
  readonly counts: Record<string, number> = {};
  /** What was done, for who looks for a fault. */
  readonly trace: string[] = [];
  /** Upstream calls that the model has not seen yet, by key. */
  readonly #due = new Map<string, ScriptedCall>();
  #texts = 0;

  constructor(random: Random) {
    this.random = random;
    for (const _ of [0, 1]) this.processes.push(new Process(this.folder, this.clock));
  }

  async step(): Promise<void> {
    const running = this.calls.filter(({ state }) => state === "running");
    const moves: [weight: number, name: string, move: () => void | Promise<void>][] = [
      [30, "ask", () => this.#ask()],
      [running.length > 0 ? 45 : 0, "upstream", () => this.#upstream(this.random.pick(running))],
      [8, "leave", () => this.#leave()],
      [2, "expire", () => this.clock.jump(25 * hourMs)],
      [4, "crash", () => this.#crash(this.random.below(2))],
    ];
    let at = this.random.below(moves.reduce((sum, [weight]) => sum + weight, 0));
    const [, name, move] = moves.find(([weight]) => {
      at -= weight;
      return at < 0;
    })!;
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    this.trace.push(name);
    await move();
    await this.#rest();
    this.#check();
  }

  /** Lets everything happen that is bound to, in the world and in the model. */
  async #rest(): Promise<void> {
    await settle();
    this.#reconcile();
    for (let tick = 0; tick < 10; tick += 1) {
      this.clock.advance(100);
      await settle();
      this.#reconcile();
    }
  }

  async #ask(): Promise<void> {
    const process = this.random.below(2);
    const key = this.random.pick(["id-1", "id-2", "id-3"]);
    const holder = this.#holder(key);
    const body = holder !== undefined && this.random.chance(85) ? holder.body : this.random.pick(["body-1", "body-2"]);
    const [lastEventId, from] = this.#lastEventId(holder);
    const client = new Client(process, key, body, this.random.chance(75), from);
    this.#note(`${process} asks for ${key} with ${body}, ${client.eager ? "reading" : "idle"} from ${from}`);
    const claim = { scope: "scope", requestId: key, fingerprint: body };
    const { idempotency } = this.processes[process]!;
    const produce = (signal: AbortSignal) => {
      const answer = this.upstream.produce(signal);
      this.#due.set(key, this.upstream.last);
      return answer;
    };
    void client.follow(idempotency.run(claim, client.leaving.signal, produce, { lastEventId }));
    await settle();
    this.#expectAsked(client);
  }

  /** What becomes of a request, by what the id stands for now. */
  #expectAsked(client: Client): void {
    const holder = this.#holder(client.key);
    if (holder === undefined) {
      this.#expectCall(client);
    } else if (holder.body !== client.body) {
      this.#later(() => expect(client.error).toMatchObject({ status: 422 }));
    } else if (holder.state === "finished") {
      this.#count("replay");
      this.#later(() => {
        expect(client.kept).toMatchObject({ replayed: true, joined: false });
        this.#checkComplete(client, holder);
      });
    } else if (holder.process === client.process) {
      this.#count("join");
      holder.clients.push(client);
    } else {
      this.#count("join elsewhere");
      holder.foreign.push(client);
      holder.watched = true;
    }
  }

  #expectCall(client: Client): void {
    const script = this.#due.get(client.key);
    if (script === undefined) throw new Error("a call was due and did not come");
    this.#due.delete(client.key);
    const call: ModelCall = {
      script,
      process: client.process,
      key: client.key,
      body: client.body,
      clients: [client],
      foreign: [],
      watched: false,
      whole: undefined,
      stream: false,
      sent: [],
      taken: 0,
      queue: [],
      reading: false,
      ended: undefined,
      state: "running",
      told: false,
    };
    this.calls.push(call);
    this.holders.set(client.key, call);
  }

  #upstream(call: ModelCall): void {
    if (call.ended !== undefined || call.whole !== undefined) return;
    this.#note(`of call ${this.calls.indexOf(call)} for ${call.key} by ${call.process}`);
    const text = () => {
      this.#texts += 1;
      return `{"text":"${this.#texts}${"x".repeat(this.random.chance(10) ? 30_000 : 5)}"}`;
    };
    if (!call.stream) {
      if (this.random.chance(30)) {
        call.whole = { status: this.random.pick([200, 200, 200, 400, 429, 500]), text: text() };
        call.script.whole(call.whole.text, call.whole.status);
      } else if (this.random.chance(10)) {
        call.ended = "broken";
        call.script.fail(ApiError.upstreamTimeout("slow"));
      } else {
        call.stream = true;
        call.script.stream();
      }
      return;
    }
    if (this.random.chance(70)) {
      const batch = Array.from({ length: 1 + this.random.below(3) }, text);
      call.sent.push(...batch);
      call.queue.push(batch.length);
      call.script.push(...batch);
      return;
    }
    const end = this.random.pick([
      "finished",
      "finished",
      "finished",
      "faulted",
      "faulted",
      "cancelled",
      "cancelled",
    ] as const);
    if (end === "finished" || end === "faulted") {
      call.sent.push(`{"last":"${end}"}`, done);
      call.queue.push(2);
      call.script.push(`{"last":"${end}"}`, done).end(end);
    } else call.script.end(end);
    call.queue.push("end");
    call.ended = end;
  }

  #leave(): void {
    const present = this.calls.flatMap(({ clients, foreign }) => [...clients, ...foreign]).filter(({ gone }) => !gone);
    if (present.length === 0) return;
    const client = this.random.pick(present);
    this.#note(`${client.process} leaves ${client.key}`);
    client.gone = true;
    client.leaving.abort(new Error("the client left"));
  }

  #crash(process: number): void {
    this.#note(`of ${process}`);
    this.processes[process]!.die();
    this.processes[process] = new Process(this.folder, this.clock);
    for (const call of this.calls) {
      for (const client of [...call.clients, ...call.foreign]) if (client.process === process) client.gone = true;
      if (call.process === process && call.state === "running") this.#release(call);
    }
  }

  #holder(key: string): ModelCall | undefined {
    const call = this.holders.get(key);
    const expiry = call && this.expiries.get(call);
    return expiry !== undefined && expiry <= this.clock.now() ? undefined : call;
  }

  /** Sometimes an id of an event of that call, or of an odd one. */
  #lastEventId(call: ModelCall | undefined): [id: string | undefined, from: number] {
    const prefix = call?.clients.find((client) => client.prefix !== undefined)?.prefix;
    if (prefix === undefined || call?.taken === 0 || this.random.chance(60)) return [undefined, 0];
    if (this.random.chance(20)) return ["00000000-1", 0];
    const number = this.random.below(call!.taken);
    return [`${prefix}${number}`, number + 1];
  }

  #reconcile(): void {
    for (const call of this.calls) {
      if (call.state !== "running") continue;
      const readers = call.clients.filter(({ gone }) => !gone);
      const driven = call.watched || readers.length === 0 || readers.some(({ eager }) => eager);
      if (call.whole !== undefined) {
        if (call.whole.status === 200) this.#finish(call);
        else this.#fail(call);
      } else if (call.ended === "broken" && !call.stream) {
        this.#fail(call);
      } else if (call.stream) {
        while (call.queue.length > 0 && (driven || call.reading)) this.#read(call);
        call.reading ||= driven;
      }
    }
  }

  /** One read of the upstream's events. */
  #read(call: ModelCall): void {
    const item = call.queue.shift();
    call.reading = false;
    if (item !== "end") {
      call.taken += item!;
      // With the last event in hand, the end is asked for at once.
      if (call.sent[call.taken - 1] !== done) return;
      call.queue.shift();
    }
    if (call.ended === "finished") this.#finish(call);
    else if (call.ended === "faulted") this.#fail(call);
    else this.#release(call);
  }

  #finish(call: ModelCall): void {
    call.state = "finished";
    this.#count("finish");
    this.expiries.set(call, this.clock.now() + 24 * hourMs);
  }

  #fail(call: ModelCall): void {
    call.told = call.watched;
    if (call.foreign.some(({ gone }) => !gone)) this.#count("tell");
    this.#release(call);
  }

  #release(call: ModelCall): void {
    call.state = "released";
    this.#count("release");
    this.holders.delete(call.key);
    if (call.told) return;
    this.#later(() => {
      // Those who had seen nothing of it notice within a tick, and the first of them calls anew.
      const waiting = call.foreign.filter(({ gone, kept }) => !gone && kept === undefined);
      for (const [at, client] of waiting.entries()) {
        call.foreign.splice(call.foreign.indexOf(client), 1);
        if (at > 0) this.#expectAsked(client);
        else this.#expectCall(client);
      }
      if (waiting.length > 0) this.#count("take over");
    });
  }

  /** What is checked once everything has come to rest. */
  readonly #checks: (() => void)[] = [];

  #later(work: () => void): void {
    this.#checks.push(work);
  }

  #check(): void {
    for (const work of this.#checks.splice(0)) work();
    expect(this.upstream.calls.length).toBe(this.calls.length);
    for (const call of this.calls) {
      for (const [at, client] of call.clients.entries()) {
        if (client.gone) continue;
        if (client.kept !== undefined) expect(client.kept).toMatchObject({ replayed: false, joined: at > 0 });
        this.#checkReader(client, call);
      }
      for (const client of call.foreign) if (!client.gone) this.#checkForeign(client, call);
    }
    this.#forget();
  }

  #checkReader(client: Client, call: ModelCall): void {
    if (call.whole !== undefined) {
      expect(client.kept?.answer).toMatchObject({ kind: "whole", status: call.whole.status, body: call.whole.text });
      return;
    }
    if (!call.stream) {
      expect(client.kept).toBeUndefined();
      if (call.ended === "broken") expect(client.error).toMatchObject({ status: 504 });
      return;
    }
    if (!client.eager) return;
    expect(client.read).toEqual(call.sent.slice(client.from, call.taken));
    if (call.ended === undefined) expect(client.end).toBeUndefined();
    else expect<unknown>(client.end).toBe(call.ended);
  }

  #checkForeign(client: Client, call: ModelCall): void {
    if (call.state === "finished") {
      expect(client.kept).toMatchObject({ replayed: false, joined: true });
      this.#checkComplete(client, call);
    } else if (call.told) {
      this.#checkTold(client, call);
    } else if (client.kept !== undefined && client.eager) {
      expect(client.read).toEqual(call.sent.slice(client.from, client.from + client.read.length));
      if (call.state === "released") expect(client.end).toMatchObject({ code: "upstream_unavailable" });
      else expect(client.read.length).toBe(call.taken - client.from);
    }
  }

  /** The same as those of its own process. */
  #checkTold(client: Client, call: ModelCall): void {
    if (call.ended === "broken") {
      expect(client.error).toMatchObject({ status: 504, code: "upstream_timeout" });
      return;
    }
    expect(client.kept).toMatchObject({ replayed: false, joined: true });
    const { answer } = client.kept!;
    if (call.whole !== undefined) {
      expect(answer).toMatchObject({ kind: "whole", status: call.whole.status });
      expect(answer.kind === "whole" && Buffer.from(answer.body).toString()).toBe(call.whole.text);
    } else if (client.eager) {
      expect(client.read).toEqual(call.sent.slice(client.from));
      expect(client.end).toBe("faulted");
    }
  }

  /** Everything, from where it was asked for. */
  #checkComplete(client: Client, call: ModelCall): void {
    if (call.whole !== undefined) {
      const { answer } = client.kept!;
      expect(answer.kind === "whole" && Buffer.from(answer.body).toString()).toBe(call.whole.text);
    } else if (client.eager) {
      expect(client.read).toEqual(call.sent.slice(client.from));
      expect(client.end).toBe("finished");
    }
  }

  #note(what: string): void {
    this.trace.push(`  ${what}`);
  }

  #count(name: string): void {
    this.#note(name);
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  /** What is over and checked need not be checked again. */
  #forget(): void {
    for (const call of this.calls) {
      if (call.state === "running") continue;
      call.clients.length = 0;
      call.foreign.length = 0;
    }
  }

  close(): void {
    for (const { idempotency, store } of this.processes) {
      void idempotency.close();
      void store.close();
    }
    this.folder[Symbol.dispose]();
  }
}

test("the world does what the model says", async () => {
  // Another thread's work would end at times that the model does not know.
  using _compress = spyOn(Bun, "zstdCompress").mockImplementation(async (bytes, options) =>
    Bun.zstdCompressSync(bytes, options),
  );
  using _decompress = spyOn(Bun, "zstdDecompress").mockImplementation(async (bytes) => Bun.zstdDecompressSync(bytes));
  const random = Random.fromEnvironment("MODEL_SEED");
  const steps = Number(process.env["MODEL_STEPS"] ?? 2000);
  const world = new World(random);
  let step = 0;
  try {
    for (; step < steps; step += 1) await world.step();
  } catch (error) {
    console.error(
      `model: MODEL_SEED=${random.seed} fails at step ${step}, after\n${world.trace.slice(-30).join("\n")}`,
    );
    throw error;
  } finally {
    world.close();
  }
  console.info(`model: ${steps} steps with seed ${random.seed}: ${JSON.stringify(world.counts)}`);
  for (const name of [
    "ask",
    "upstream",
    "leave",
    "expire",
    "crash",
    "join",
    "replay",
    "join elsewhere",
    "take over",
    "tell",
  ]) {
    expect([name, world.counts[name] ?? 0]).not.toEqual([name, 0]);
  }
});
