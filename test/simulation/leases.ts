/**
 * Calls with a `service-request-id` over many nodes. What runs is the real code: Idempotency, the PostgreSQL repository of runs, the
 * lease of a process, and the pool with its deadlines; the database, the network, the clocks and the upstream are modelled.
 */
import { Idempotency, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { Holder } from "../../src/store/postgres/holder.ts";
import { QueryPool } from "../../src/store/postgres/query-pool.ts";
import { runRepository } from "../../src/store/postgres/run-repository.ts";
import { Strays } from "../../src/store/postgres/strays.ts";
import type { Producer } from "../../src/upstream/answer.ts";
import { ModelledPostgres, type NetworkFaults } from "./modelled-postgres.ts";
import { Machine, World } from "./world.ts";

export type LeaseRun = {
  readonly seed: number;
  readonly nodes: number;
  readonly ids: number;
  /** In milliseconds: for how long calls and faults come. */
  readonly span: number;
};

export type LeaseResult = {
  readonly violations: readonly string[];
  readonly hash: string;
  readonly answered: number;
  readonly upstreamCalls: number;
  /** Calls that were made while one before was under way, whose lease had lapsed. */
  readonly fenced: number;
  readonly statements: number;
  readonly events: number;
};

const leaseMs = 15_000;
const faults: NetworkFaults = { lostRequest: 5, lostAnswer: 10, silence: 3, slow: 20 };
const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1_000_000 };

/** One upstream call. */
type Made = {
  readonly number: number;
  /** Whether its node takes its lease to hold. */
  readonly holds: () => boolean;
  isOver: boolean;
};
type Known = { readonly made: Made[]; answer: string | undefined; isStored: boolean; waiting: number };

class Node {
  readonly machine: Machine;
  readonly idempotency: Idempotency;
  readonly holder: Holder;

  constructor(world: World, name: string, database: ModelledPostgres) {
    this.machine = new Machine(world, name);
    const poolOf = (connections: number, deadlineMs: number) =>
      new QueryPool({
        connect: () => database.client(this.machine),
        connections,
        deadlineMs,
        place: "model",
        clock: this.machine,
      });
    const path = poolOf(8, 2_000);
    const background = poolOf(2, 10_000);
    this.holder = new Holder(poolOf(1, 2_000), "model", this.machine, leaseMs);
    const strays = new Strays(background, this.holder, this.machine);
    const runs = runRepository({ path, background }, { holder: this.holder, strays, hints: undefined });
    this.idempotency = new Idempotency({ runs }, this.machine, () => rules);
    void this.idempotency.interruptAbandoned().catch(() => {});
  }
}

class LeaseSimulation {
  readonly #options: LeaseRun;
  readonly #world: World;
  readonly #database: ModelledPostgres;
  readonly #nodes: Node[];
  readonly #known = new Map<string, Known>();
  readonly #violations: string[] = [];
  #started = 0;
  #calls = 0;
  #answered = 0;
  #fenced = 0;
  #isQuiet = false;

  constructor(options: LeaseRun) {
    this.#options = options;
    this.#world = new World(options.seed);
    this.#database = new ModelledPostgres(this.#world, faults);
    this.#database.onFinished = (id, run) => {
      this.#world.note(`${id} stored by run ${run}`);
      this.#of(id).isStored = true;
    };
    this.#nodes = Array.from({ length: options.nodes }, () => this.#newNode());
  }

  async run(): Promise<LeaseResult> {
    const { ids, span } = this.#options;
    const world = this.#world;
    for (let at = 0; at < ids; at += 1) world.after(world.between(0, span), () => this.#client(`id${at}`));
    this.#faultLater();
    await world.runUntil(span);
    this.#isQuiet = true;
    // Whoever waits is answered once all is well: leases lapse, and clients try again.
    await world.runUntil(span + 300_000);
    for (const [id, { waiting }] of this.#known) if (waiting > 0) this.#fail(id, "is stuck");
    return {
      violations: this.#violations,
      hash: world.hash,
      answered: this.#answered,
      upstreamCalls: this.#calls,
      fenced: this.#fenced,
      statements: this.#database.statements,
      events: world.events,
    };
  }

  #newNode(): Node {
    this.#started += 1;
    return new Node(this.#world, `node${this.#started}`, this.#database);
  }

  #of(id: string): Known {
    let known = this.#known.get(id);
    if (known === undefined) {
      known = { made: [], answer: undefined, isStored: false, waiting: 0 };
      this.#known.set(id, known);
    }
    return known;
  }

  #fail(id: string, what: string): void {
    this.#violations.push(`${id} ${what}\n${this.#world.historyOf(id)}`);
  }

  /** Some callers of one id, at once and later, each at some node until it is answered. */
  #client(id: string): void {
    const { random } = this.#world;
    for (let caller = 0; caller < 1 + random.below(3); caller += 1) {
      this.#of(id).waiting += 1;
      this.#world.after(random.below(4) === 0 ? this.#world.between(0, 60_000) : random.below(20), () => this.#try(id));
    }
  }

  #try(id: string): void {
    const node = this.#world.random.pick(this.#nodes);
    const { machine, idempotency } = node;
    const again = (error: unknown) => {
      const { message, cause } = error as Error;
      this.#world.note(`${id} refused by ${machine.name}: ${cause instanceof Error ? cause.message : message}`);
      this.#world.after(this.#world.between(500, 5_000), () => this.#try(id));
    };
    if (machine.isDead) {
      again(new Error("dead"));
      return;
    }
    this.#world.note(`${id} asked of ${machine.name}`);
    const claim = { scope: "s", requestId: id, fingerprint: "f" };
    const asked = new Promise<IdempotentAnswer>((resolve) => {
      machine.deliver(() => {
        resolve(idempotency.run(claim, new AbortController().signal, this.#producer(id, node)));
      });
    });
    Promise.race([asked, machine.death]).then(({ answer }) => this.#answeredWith(id, answer), again);
  }

  #producer(id: string, { machine: node, holder }: Node): Producer {
    return (signal) => {
      const under = holder.id;
      const known = this.#of(id);
      const made: Made = { number: ++this.#calls, holds: () => !node.isDead && holder.holds(under), isOver: false };
      this.#world.note(`${id} call ${made.number} by ${node.name}`);
      if (known.isStored) this.#fail(id, `is called again (${made.number}), though its answer is stored`);
      for (const other of known.made) this.#assertFenced(id, other, made);
      known.made.push(made);
      const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<Producer>>>();
      const end = (run: () => void) => {
        if (made.isOver) return;
        made.isOver = true;
        this.#world.note(`${id} call ${made.number} over`);
        run();
      };
      signal.addEventListener("abort", () => end(() => reject(signal.reason)));
      node.death.catch(() => end(() => {}));
      const ms =
        this.#world.random.below(10) === 0 ? this.#world.between(10_000, 40_000) : this.#world.between(20, 2_000);
      const body = `answer ${made.number} of ${id}`;
      this.#world.after(ms, () =>
        node.deliver(() => end(() => resolve({ kind: "whole", status: 200, headers: {}, body }))),
      );
      return promise;
    };
  }

  /** Two calls at once are allowed only where nobody can know of the first one's end: its lease has lapsed. */
  #assertFenced(id: string, other: Made, made: Made): void {
    if (other.isOver) return;
    this.#fenced += 1;
    if (other.holds()) this.#fail(id, `call ${made.number} is made while call ${other.number} is held`);
  }

  #answeredWith(id: string, answer: { readonly kind: string; readonly body?: string | Uint8Array }): void {
    const known = this.#of(id);
    const text = typeof answer.body === "string" ? answer.body : Buffer.from(answer.body ?? []).toString();
    this.#world.note(`${id} answered: ${text}`);
    known.waiting -= 1;
    this.#answered += 1;
    known.answer ??= text;
    if (known.answer !== text) this.#fail(id, `got two answers: ${known.answer}, ${text}`);
  }

  #faultLater(): void {
    const { nodes } = this.#options;
    // A fault of each node about every two minutes.
    this.#world.after(this.#world.between(1, Math.ceil(240_000 / nodes)), () => {
      if (this.#isQuiet) return;
      this.#fault();
      this.#faultLater();
    });
  }

  #fault(): void {
    const { random } = this.#world;
    const at = random.below(this.#nodes.length);
    const { machine } = this.#nodes[at]!;
    switch (random.below(5)) {
      case 0:
        machine.standStill(this.#world.between(100, 40_000));
        return;
      case 1:
        machine.cutOff(this.#world.between(100, 40_000));
        return;
      case 2:
        machine.die();
        this.#nodes[at] = this.#newNode();
        return;
      case 3:
        if (random.below(20) === 0) this.#database.restart(this.#world.between(100, 20_000));
        return;
      default:
        machine.standStill(this.#world.between(14_000, 16_000));
    }
  }
}

export const simulateLeases = (options: LeaseRun): Promise<LeaseResult> => new LeaseSimulation(options).run();
