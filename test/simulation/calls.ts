/**
 * Calls with a `service-request-id` over many nodes. What runs is the real code: Idempotency, the PostgreSQL repository of runs, the
 * lease of a process, and the pool with its deadlines; the database, the network, the clocks, callers and the upstream are modelled.
 */
import { Idempotency, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { interrupted } from "../../src/idempotency/run-errors.ts";
import { runRepository } from "../../src/store/postgres/run-repository.ts";
import type { Answer, EventSource, Producer, RecordedEvents } from "../../src/upstream/answer.ts";
import { Caller } from "./caller.ts";
import type { Cluster, Counts, Node, Part } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { StreamSource } from "./stream-source.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1_000_000 };

export type CallOptions = {
  readonly name: string;
  /** How many ids are asked for in all. */
  readonly ids: number;
  /** How many of a thousand are answered by a stream. */
  readonly streams: number;
};

/** One upstream call. */
type Made = {
  readonly number: number;
  /** How many events its stream has; absent: it has a whole answer. */
  events?: number;
  /** Whether its stream breaks after them. */
  isFaulted?: boolean;
  /** Whether its node takes its lease to hold. */
  readonly holds: () => boolean;
  isOver: boolean;
  /** Whether the database has forgotten it. */
  isLost?: boolean;
};
type Known = {
  readonly made: Made[];
  readonly isStream: boolean;
  answer: string | undefined;
  isStored: boolean;
  /** Of which call the answer is that is stored. */
  storedCall?: string;
  /** Whether the database has forgotten something of it: then it may be called again, and be answered otherwise. */
  hasLost?: boolean;
  waiting: number;
};

export class Calls implements Part {
  readonly name: string;
  readonly #cluster: Cluster;
  readonly #options: CallOptions;
  readonly #nodes = new Map<Node, Idempotency>();
  readonly #known = new Map<string, Known>();
  readonly #counts = {
    answered: 0,
    replayed: 0,
    joined: 0,
    refused: 0,
    gaveUp: 0,
    calls: 0,
    fenced: 0,
    streamed: 0,
    events: 0,
    resumed: 0,
  };
  #waiting = 0;
  #coming = 0;

  constructor(cluster: Cluster, options: CallOptions) {
    this.name = options.name;
    this.#cluster = cluster;
    this.#options = options;
    cluster.database.calls.onLost = (id) => {
      cluster.world.note(id, "lost by the database");
      const known = this.#of(id);
      // An answer whose first part is lost is found to be damaged, and called anew.
      known.hasLost = true;
      // Their nodes learn it at their next renewal.
      for (const made of known.made) made.isLost = true;
    };
    cluster.database.calls.onFinished = (id, run, headers) => {
      cluster.world.note(id, `stored by run ${run}`);
      const known = this.#of(id);
      known.isStored = true;
      known.storedCall = (JSON.parse(headers) as { "x-call": string })["x-call"];
    };
  }

  join(node: Node): void {
    const { path, background, leaseOwner, machine } = node;
    const runs = runRepository({ path, background }, leaseOwner);
    const idempotency = new Idempotency({ runs }, machine, () => rules);
    if (this.#cluster.options.mutations?.includes("unknown-calls-stay")) leaseOwner.onRenewed.clear();
    this.#nodes.set(node, idempotency);
    machine.onDeath(() => this.#nodes.delete(node));
    void node.ready.then(() => idempotency.interruptAbandoned()).catch(() => {});
  }

  async leave(node: Node): Promise<void> {
    await this.#nodes.get(node)?.close();
  }

  begin(span: number): void {
    const { world } = this.#cluster;
    const { ids } = this.#options;
    this.#coming = ids;
    for (let at = 0; at < ids; at += 1) {
      world.after(world.between(0, span), () => {
        this.#coming -= 1;
        this.#client(`id${at}`);
      });
    }
  }

  get isDone(): boolean {
    return this.#coming === 0 && this.#waiting === 0;
  }

  check(): Counts {
    for (const [id, { waiting }] of this.#known) if (waiting > 0) this.#cluster.fail(id, "is stuck");
    return this.#counts;
  }

  #of(id: string): Known {
    let known = this.#known.get(id);
    if (known === undefined) {
      const isStream = this.#cluster.world.chance(this.#options.streams);
      known = { made: [], isStream, answer: undefined, isStored: false, waiting: 0 };
      this.#known.set(id, known);
    }
    return known;
  }

  /** Some callers of one id, at once and later, each at some node until it is answered. */
  #client(id: string): void {
    const { world } = this.#cluster;
    const callers = 1 + world.random.below(3);
    this.#of(id).waiting += callers;
    this.#waiting += callers;
    for (let count = 0; count < callers; count += 1) {
      const caller = new Caller(world, id);
      const isLater = world.chance(250);
      world.after(isLater ? world.between(0, 60_000) : world.random.below(this.#of(id).isStream ? 5_000 : 20), () =>
        this.#try(caller),
      );
    }
  }

  #try(caller: Caller): void {
    const { world } = this.#cluster;
    const { id } = caller;
    const node = this.#cluster.anyNode();
    const { machine } = node;
    const client = new AbortController();
    let isOver = false;
    const once = (then: () => void) => {
      if (isOver) return;
      isOver = true;
      cancelDeath();
      cancelWaiting();
      then();
    };
    const refused = (words: string) => {
      world.note(id, `refused by ${machine.name}: ${words}`);
      this.#counts.refused += 1;
      world.after(world.between(500, 5_000), () => this.#try(caller));
    };
    const cancelDeath = machine.onDeath(() => once(() => refused("dead")));
    const gaveUp = () => {
      this.#counts.gaveUp += 1;
      client.abort(new Error("gave up"));
      once(() => refused("the caller gave up"));
    };
    // Some callers have little patience.
    const patienceMs = world.chance(100) ? world.between(100, 10_000) : 120_000;
    const cancelWaiting = world.after(patienceMs, gaveUp);
    const { lastEventId } = caller;
    world.note(id, `asked of ${machine.name}${lastEventId === undefined ? "" : ` after ${lastEventId}`}`);
    const claim = { scope: "s", requestId: id, fingerprint: "f" };
    let own: Made | undefined;
    const call = this.#producer(id, node);
    const produce: Producer = (signal) => {
      const producing = call(signal);
      own = this.#of(id).made.at(-1);
      return producing;
    };
    const ask = async (): Promise<void> => {
      const idempotency = this.#nodes.get(node);
      if (idempotency === undefined || isOver) return;
      const options = lastEventId === undefined ? {} : { lastEventId };
      const answered = await idempotency.run(claim, client.signal, produce, options);
      const { answer } = answered;
      if (answer.kind === "whole") {
        once(() => this.#answered(caller, answered, textOf(answer.body)));
        return;
      }
      if (lastEventId !== undefined) this.#counts.resumed += 1;
      const isWhole = await this.#read(caller, node, answer.events, lastEventId, () => isOver);
      once(() => {
        if (isWhole) this.#answered(caller, answered, caller.call);
        else refused("the stream broke");
      });
    };
    machine.deliver(() => {
      ask().catch((error) => {
        this.#assertLost(id, own, error);
        once(() => refused(wordsOf(error)));
      });
    });
  }

  /** @returns whether it came to its end */
  async #read(
    caller: Caller,
    { machine }: Node,
    events: RecordedEvents,
    after: string | undefined,
    isOver: () => boolean,
  ): Promise<boolean> {
    const { world } = this.#cluster;
    const isSlow = world.chance(100);
    let isFirst = true;
    for (;;) {
      const step = await events.next();
      if (isOver()) return false;
      if (step.done === true) {
        if (step.value === "finished") this.#assertWhole(caller);
        else caller.forget();
        return step.value === "finished";
      }
      for (const event of step.value) {
        this.#counts.events += 1;
        const wrong = caller.take(event, isFirst, after);
        if (wrong !== undefined) this.#cluster.fail(caller.id, wrong);
        isFirst = false;
      }
      this.#assertStored(caller, machine);
      world.note(caller.id, `read by ${machine.name} up to ${caller.count} of call ${caller.call}`);
      if (isSlow) await new Promise<void>((resolve) => machine.setTimer(world.between(100, 1_000), resolve));
    }
  }

  /** Nobody is told of the own call that it was interrupted, once its answer is stored. */
  #assertLost(id: string, own: Made | undefined, error: unknown): void {
    const { storedCall, hasLost } = this.#of(id);
    if (own === undefined || String(own.number) !== storedCall || hasLost === true) return;
    if ((error as Error).message !== interrupted().message) return;
    this.#cluster.fail(id, `is told that call ${own.number} was interrupted, though its answer is stored`);
  }

  /** Nobody is given the end of an answer that a retry might not find. */
  #assertStored({ id, call, count }: Caller, { name }: Machine): void {
    const { made, isStored } = this.#of(id);
    const own = made.find(({ number }) => String(number) === call);
    if (isStored || own?.events !== count || own.isFaulted === true) return;
    this.#cluster.fail(id, `gets the end of call ${call} of ${name} before it is stored`);
  }

  #assertWhole({ id, call, count }: Caller): void {
    this.#counts.streamed += 1;
    const events = this.#of(id).made.find(({ number }) => String(number) === call)?.events;
    if (events !== count) this.#cluster.fail(id, `got ${count} events of call ${call}, which has ${events}`);
  }

  #producer(id: string, { machine, leaseOwner }: Node): Producer {
    const { world } = this.#cluster;
    return (signal) => {
      const under = leaseOwner.id;
      const known = this.#of(id);
      this.#counts.calls += 1;
      const made: Made = {
        number: this.#counts.calls,
        holds: () => !machine.isDead && leaseOwner.holds(under),
        isOver: false,
      };
      world.note(id, `call ${made.number} by ${machine.name}`);
      if (known.isStored && known.hasLost !== true)
        this.#cluster.fail(id, `is called again (${made.number}), though its answer is stored`);
      for (const other of known.made) this.#assertFenced(id, other, made);
      known.made.push(made);
      const { promise, resolve, reject } = Promise.withResolvers<Answer<EventSource>>();
      const end = () => {
        if (made.isOver) return;
        made.isOver = true;
        cancelDeath();
        world.note(id, `call ${made.number} over`);
      };
      const cancelDeath = machine.onDeath(end);
      let source: StreamSource | undefined;
      signal.addEventListener("abort", () => {
        end();
        source?.cancel();
        reject(signal.reason);
      });
      if (known.isStream) {
        made.events = world.between(1, 40);
        made.isFaulted = world.chance(30);
        source = new StreamSource(machine, {
          events: made.events,
          everyMs: world.between(5, 500),
          how: made.isFaulted ? "faulted" : "finished",
          textOf: (number) => `data: ${id} ${made.number} ${number}\n\n`,
          ended: end,
        });
      }
      const ms = world.chance(100) ? world.between(10_000, 40_000) : world.between(20, 2_000);
      machine.setTimer(ms, () => {
        if (made.isOver) return;
        if (source !== undefined) {
          resolve({ kind: "stream", headers: { "x-call": String(made.number) }, events: source });
          return;
        }
        end();
        const headers = { "x-call": String(made.number) };
        resolve({ kind: "whole", status: 200, headers, body: `answer ${made.number} of ${id}` });
      });
      return promise;
    };
  }

  /** Two calls at once are allowed only where nobody can know of the first one's end: its lease has lapsed. */
  #assertFenced(id: string, other: Made, made: Made): void {
    if (other.isOver || other.isLost === true) return;
    this.#counts.fenced += 1;
    if (other.holds()) this.#cluster.fail(id, `call ${made.number} is made while call ${other.number} is held`);
  }

  #answered({ id }: Caller, { replayed, joined }: IdempotentAnswer, text: string): void {
    const known = this.#of(id);
    this.#cluster.world.note(id, `answered: ${text}`);
    known.waiting -= 1;
    this.#waiting -= 1;
    this.#counts.answered += 1;
    this.#counts.replayed += Number(replayed);
    this.#counts.joined += Number(joined);
    known.answer ??= text;
    if (known.answer !== text && known.hasLost !== true)
      this.#cluster.fail(id, `got two answers: ${known.answer}, ${text}`);
  }
}

const textOf = (body: string | Uint8Array): string => (typeof body === "string" ? body : Buffer.from(body).toString());

/** @returns what is behind an error */
function wordsOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message : message;
}
