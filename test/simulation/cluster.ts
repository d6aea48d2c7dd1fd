/** Nodes that share modelled stores, the faults that befall them, and what is found to be wrong. */
import { Holder } from "../../src/store/postgres/holder.ts";
import { QueryPool } from "../../src/store/postgres/query-pool.ts";
import { Strays } from "../../src/store/postgres/strays.ts";
import { Machine, type Place } from "./machine.ts";
import type { Mutation } from "./mutations.ts";
import type { Weather } from "./network.ts";
import { ModelledPostgres } from "./postgres/server.ts";
import { World } from "./world.ts";

export type ClusterOptions = {
  readonly seed: number;
  readonly nodes: number;
  /** For how long calls and faults come, in milliseconds. */
  readonly span: number;
  readonly mutations?: readonly Mutation[];
};

export type Counts = Readonly<Record<string, number>>;

export type ClusterResult = {
  readonly digest: string;
  readonly events: number;
  readonly messages: number;
  readonly statements: number;
  /** By kind. */
  readonly faults: Counts;
  /** By part. */
  readonly parts: Readonly<Record<string, Counts>>;
  /** What was broken, with the seed and the history of whom it happened to. */
  readonly violations: readonly string[];
};

/** A promise that is held over all nodes: what of a node keeps it, who tries it, and how it is checked. */
export interface Part {
  readonly name: string;
  /** A node has come. */
  join(node: Node): void;
  /** A node ends in order. */
  leave(node: Node): Promise<unknown>;
  /** Callers come from now on, for that long. */
  begin(span: number): void;
  /** Faults are over: whether nobody waits any more. */
  readonly isDone: boolean;
  /** Looks at what is left. */
  check(): Counts;
}

const weather: Weather = { lostRequest: 5, lostAnswer: 10, silence: 3, late: 1, repeated: 0, slow: 20 };
export const leaseMs = 15_000;
/** A node has a fault about so often. */
const nodeFaultMs = 120_000;
const storeFaultMs = 40_000;
/** After the last fault: whoever waits longer waits for ever. */
const patienceMs = 180_000;
/** What an orderly end may take. */
const stopMs = 30_000;
/** Traces that are kept. */
const maxTraces = 20;

/** A process, with what all parts of it share. */
export class Node {
  readonly machine: Machine;
  readonly path: QueryPool;
  readonly background: QueryPool;
  readonly holder: Holder;
  readonly strays: Strays;
  isStopping = false;

  constructor(machine: Machine, database: ModelledPostgres) {
    this.machine = machine;
    const poolOf = (connections: number, deadlineMs: number) =>
      new QueryPool({
        connect: () => database.client(machine),
        connections,
        deadlineMs,
        place: "model",
        clock: machine,
      });
    this.path = poolOf(8, 2_000);
    this.background = poolOf(2, 10_000);
    this.holder = new Holder(poolOf(1, 2_000), "model", machine, leaseMs);
    this.strays = new Strays(this.background, this.holder, machine);
  }
}

export class Cluster {
  readonly options: ClusterOptions;
  readonly world: World;
  readonly database: ModelledPostgres;
  readonly #nodes: Node[] = [];
  readonly #parts: Part[] = [];
  readonly #faults: Record<string, number> = {};
  readonly #violations: string[] = [];
  #started = 0;
  #isQuiet = false;

  constructor(options: ClusterOptions) {
    this.options = options;
    this.world = new World(options.seed);
    this.database = new ModelledPostgres(this.world, weather, new Set(options.mutations));
  }

  get isQuiet(): boolean {
    return this.#isQuiet;
  }

  anyNode(): Node {
    return this.world.random.pick(this.#nodes);
  }

  /** @param subject whose promise it was */
  fail(subject: string, words: string): void {
    const trace = this.#violations.length < maxTraces ? `\n${this.world.traceOf(subject)}` : "";
    this.#violations.push(`seed ${this.options.seed}: ${subject} ${words}${trace}`);
  }

  async run(parts: readonly Part[]): Promise<ClusterResult> {
    const { nodes, span } = this.options;
    const { world } = this;
    this.#parts.push(...parts);
    for (let at = 0; at < nodes; at += 1) this.#nodes.push(this.#newNode());
    for (const part of parts) part.begin(span);
    this.#nodeFaultLater();
    this.#storeFaultLater();
    await world.runUntil(span);
    this.#isQuiet = true;
    this.database.network.isCalm = true;
    world.note("world", "is quiet from now on");
    const isDone = () => parts.every((part) => part.isDone);
    while (!isDone() && world.now < span + patienceMs) await world.runUntil(world.now + 5_000);
    const counted = Object.fromEntries(parts.map((part) => [part.name, part.check()]));
    return {
      digest: world.digest,
      events: world.events,
      messages: this.database.network.messages,
      statements: this.database.statements,
      faults: this.#faults,
      parts: counted,
      violations: this.#violations,
    };
  }

  #newNode(): Node {
    this.#started += 1;
    const node = new Node(new Machine(this.world, this.#started), this.database);
    for (const part of this.#parts) part.join(node);
    return node;
  }

  #replace(node: Node): void {
    const at = this.#nodes.indexOf(node);
    if (at < 0) return;
    node.machine.die();
    this.#nodes[at] = this.#newNode();
  }

  /** As in an upgrade. */
  async #stop(node: Node): Promise<void> {
    if (node.isStopping) return;
    node.isStopping = true;
    this.world.note(node.machine.name, "ends in order");
    const cancel = this.world.after(stopMs, () => this.#replace(node));
    await Promise.allSettled(this.#parts.map((part) => part.leave(node)));
    await node.holder.close().catch(() => {});
    cancel();
    this.#replace(node);
  }

  #nodeFaultLater(): void {
    const everyMs = Math.max(1, Math.floor((2 * nodeFaultMs) / this.options.nodes));
    this.world.after(this.world.between(0, everyMs), () => {
      if (this.#isQuiet) return;
      this.#nodeFault(this.anyNode());
      this.#nodeFaultLater();
    });
  }

  #storeFaultLater(): void {
    this.world.after(this.world.between(0, 2 * storeFaultMs), () => {
      if (this.#isQuiet) return;
      const [kind, fault] = this.world.random.pick(this.#storeFaults());
      this.#count(kind);
      fault();
      this.#storeFaultLater();
    });
  }

  #count(kind: string): void {
    this.#faults[kind] = (this.#faults[kind] ?? 0) + 1;
  }

  #nodeFault(node: Node): void {
    const { world } = this;
    const { machine } = node;
    const someMs = () => world.between(100, 40_000);
    const places: readonly (readonly Place[])[] = [["database"], ["coordination"], ["database", "coordination"]];
    const kinds: readonly (readonly [string, () => unknown])[] = [
      ["pause", () => machine.standStill(someMs())],
      // Where it matters to the millisecond.
      ["pauseOfLease", () => machine.standStill(world.between(leaseMs - 1_000, leaseMs + 1_000))],
      ["cut", () => machine.cutOff(world.random.pick(places), someMs())],
      ["slow", () => machine.slowDown(someMs())],
      ["kill", () => this.#replace(node)],
      ["stop", () => void this.#stop(node)],
      ["clock", () => machine.setClock()],
    ];
    const [kind, fault] = world.random.pick(kinds);
    this.#count(kind);
    fault();
  }

  #storeFaults(): readonly (readonly [string, () => void])[] {
    const { network } = this.database;
    return [
      ["databaseRestart", () => network.restart(this.world.between(100, 20_000))],
      ["databaseSilence", () => network.fallSilent(this.world.between(100, 10_000))],
    ];
  }
}
