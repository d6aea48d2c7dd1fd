/**
 * Calls with a `service-request-id` over many nodes. What runs is the real code: Idempotency, the PostgreSQL repository of runs, the
 * lease of a process, and the pool with its deadlines; the database, the network, the clocks, callers and the upstream are modelled.
 */
import { Idempotency, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { runRepository } from "../../src/store/postgres/run-repository.ts";
import type { Producer } from "../../src/upstream/answer.ts";
import type { Cluster, Counts, Node, Part } from "./cluster.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1_000_000 };

/** One upstream call. */
type Made = {
  readonly number: number;
  /** Whether its node takes its lease to hold. */
  readonly holds: () => boolean;
  isOver: boolean;
};
type Known = { readonly made: Made[]; answer: string | undefined; isStored: boolean; waiting: number };

export class Calls implements Part {
  readonly name = "leases";
  readonly #cluster: Cluster;
  readonly #ids: number;
  readonly #nodes = new Map<Node, Idempotency>();
  readonly #known = new Map<string, Known>();
  readonly #counts = { answered: 0, replayed: 0, joined: 0, refused: 0, gaveUp: 0, calls: 0, fenced: 0 };
  #waiting = 0;
  #coming = 0;

  /** @param ids how many ids are asked for in all */
  constructor(cluster: Cluster, ids: number) {
    this.#cluster = cluster;
    this.#ids = ids;
    cluster.database.calls.onFinished = (id, run) => {
      cluster.world.note(id, `stored by run ${run}`);
      this.#of(id).isStored = true;
    };
  }

  join(node: Node): void {
    const { path, background, holder, strays, machine } = node;
    const runs = runRepository({ path, background }, { holder, strays, hints: undefined });
    const idempotency = new Idempotency({ runs }, machine, () => rules);
    this.#nodes.set(node, idempotency);
    machine.onDeath(() => this.#nodes.delete(node));
    void node.ready.then(() => idempotency.interruptAbandoned()).catch(() => {});
  }

  async leave(node: Node): Promise<void> {
    await this.#nodes.get(node)?.close();
  }

  begin(span: number): void {
    const { world } = this.#cluster;
    this.#coming = this.#ids;
    for (let at = 0; at < this.#ids; at += 1) {
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
      known = { made: [], answer: undefined, isStored: false, waiting: 0 };
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
    for (let caller = 0; caller < callers; caller += 1) {
      const isLater = world.chance(250);
      world.after(isLater ? world.between(0, 60_000) : world.random.below(20), () => this.#try(id));
    }
  }

  #try(id: string): void {
    const { world } = this.#cluster;
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
      world.after(world.between(500, 5_000), () => this.#try(id));
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
    world.note(id, `asked of ${machine.name}`);
    const claim = { scope: "s", requestId: id, fingerprint: "f" };
    machine.deliver(() => {
      const idempotency = this.#nodes.get(node);
      if (idempotency === undefined || isOver) return;
      const asked = idempotency.run(claim, client.signal, this.#producer(id, node));
      asked.then(
        (answer) => once(() => this.#answered(id, answer)),
        (error) => once(() => refused(wordsOf(error))),
      );
    });
  }

  #producer(id: string, { machine, holder }: Node): Producer {
    const { world } = this.#cluster;
    return (signal) => {
      const under = holder.id;
      const known = this.#of(id);
      this.#counts.calls += 1;
      const made: Made = {
        number: this.#counts.calls,
        holds: () => !machine.isDead && holder.holds(under),
        isOver: false,
      };
      world.note(id, `call ${made.number} by ${machine.name}`);
      if (known.isStored) this.#cluster.fail(id, `is called again (${made.number}), though its answer is stored`);
      for (const other of known.made) this.#assertFenced(id, other, made);
      known.made.push(made);
      const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<Producer>>>();
      const end = (run: () => void) => {
        if (made.isOver) return;
        made.isOver = true;
        cancelDeath();
        world.note(id, `call ${made.number} over`);
        run();
      };
      const cancelDeath = machine.onDeath(() => end(() => {}));
      signal.addEventListener("abort", () => end(() => reject(signal.reason)));
      const ms = world.chance(100) ? world.between(10_000, 40_000) : world.between(20, 2_000);
      const body = `answer ${made.number} of ${id}`;
      world.after(ms, () =>
        machine.deliver(() => end(() => resolve({ kind: "whole", status: 200, headers: {}, body }))),
      );
      return promise;
    };
  }

  /** Two calls at once are allowed only where nobody can know of the first one's end: its lease has lapsed. */
  #assertFenced(id: string, other: Made, made: Made): void {
    if (other.isOver) return;
    this.#counts.fenced += 1;
    if (other.holds()) this.#cluster.fail(id, `call ${made.number} is made while call ${other.number} is held`);
  }

  #answered(id: string, { answer, replayed, joined }: IdempotentAnswer): void {
    const known = this.#of(id);
    if (answer.kind !== "whole") throw new Error("a stream");
    const text = typeof answer.body === "string" ? answer.body : Buffer.from(answer.body).toString();
    this.#cluster.world.note(id, `answered: ${text}`);
    known.waiting -= 1;
    this.#waiting -= 1;
    this.#counts.answered += 1;
    this.#counts.replayed += Number(replayed);
    this.#counts.joined += Number(joined);
    known.answer ??= text;
    if (known.answer !== text) this.#cluster.fail(id, `got two answers: ${known.answer}, ${text}`);
  }
}

/** @returns what is behind an error */
function wordsOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message : message;
}
