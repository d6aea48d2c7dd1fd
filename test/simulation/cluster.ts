/** Nodes that share modelled stores, the faults that befall them, and what is found to be wrong. */
import { LeaseOwner } from "../../src/store/postgres/lease-owner.ts";
import { QueryPool } from "../../src/store/postgres/query-pool.ts";
import { ModelledCoordination } from "./coordination.ts";
import { Machine, type Place } from "./machine.ts";
import type { Mutation } from "./mutations.ts";
import { calm, type Weather } from "./network.ts";
import { ModelledPostgres } from "./postgres/server.ts";
import { World } from "./world.ts";

export type ClusterOptions = {
  readonly seed: number;
  readonly nodes: number;
  /** For how long calls and faults come, in milliseconds. */
  readonly span: number;
  /**
   * `all`: of every kind, at random. `kills`: nodes die and others come. `outage`: after 20 s the stores say nothing for 90 s.
   * `oldCopies`: the database fails over to a server that lacks the last seconds, and the coordination comes back with an old copy of its data.
   * `none`: messages come late and twice, and nothing else happens.
   */
  readonly faults?: FaultPlan;
  readonly mutations?: readonly Mutation[];
  /** After the last fault, in milliseconds: whoever waits longer waits for ever. */
  readonly patience?: number;
};

export type FaultPlan = "all" | "kills" | "outage" | "oldCopies" | "none";

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
  /** After the last fault, where that is longer than others': whoever waits longer waits for ever. */
  readonly patienceMs?: number;
  /** Faults are over: whether nobody waits any more. */
  readonly isDone: boolean;
  /** Faults are over: whether nobody calls any more, so that few nodes suffice for what is left. Default: `isDone`. */
  readonly isIdle?: boolean;
  /** Looks at what is left. */
  check(): Counts;
}

const foul: Weather = { lostRequest: 5, lostAnswer: 10, silence: 3, late: 4, repeated: 0, slow: 20 };
export const leaseMs = 15_000;
/** A node has a fault about so often. */
const nodeFaultMs = 120_000;
const storeFaultMs = 40_000;
const oldCopies = { everyMs: 30_000, oldMs: { database: 2_000, coordination: 25_000 } };
const outage = { atMs: 20_000, forMs: 90_000 };
const defaultPatienceMs = 180_000;
/** So many nodes stay when nobody calls any more: what all of them would do in time of its own is most of what happens. */
const fewNodes = 5;
/** What an orderly end may take. */
const stopMs = 30_000;
/** Traces that are kept. */
const maxTraces = 20;

/** A process, with what all parts of it share. */
export class Node {
  readonly machine: Machine;
  readonly path: QueryPool;
  readonly background: QueryPool;
  readonly leaseOwner: LeaseOwner;
  /** Of rate windows. */
  readonly windowPool: QueryPool;
  /** Once it has reached the database, without which none starts. */
  readonly ready: Promise<void>;
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
    this.leaseOwner = new LeaseOwner(poolOf(1, 2_000), "model", machine, leaseMs);
    this.windowPool = poolOf(2, 1_000);
    this.ready = this.#start();
  }

  async #start(): Promise<void> {
    while (!(await this.#reaches())) await new Promise<void>((resolve) => this.machine.setTimer(1_000, resolve));
  }

  async #reaches(): Promise<boolean> {
    try {
      await this.leaseOwner.current();
      return true;
    } catch {
      return false;
    }
  }
}

export class Cluster {
  readonly options: ClusterOptions;
  readonly world: World;
  readonly database: ModelledPostgres;
  readonly coordination: ModelledCoordination;
  readonly faultPlan: FaultPlan;
  /** When a node came or went after the start. */
  readonly replacements: number[] = [];
  readonly #nodes: Node[] = [];
  readonly #parts: Part[] = [];
  readonly #faults: Record<string, number> = {};
  readonly #violations: string[] = [];
  #started = 0;
  #isQuiet = false;

  constructor(options: ClusterOptions) {
    this.options = options;
    this.world = new World(options.seed);
    this.faultPlan = options.faults ?? "all";
    const broken = new Set(options.mutations);
    const weather = this.faultPlan === "all" ? foul : calm;
    this.database = new ModelledPostgres(this.world, weather, broken);
    this.coordination = new ModelledCoordination(this.world, { ...weather, repeated: 50 }, broken);
  }

  get isQuiet(): boolean {
    return this.#isQuiet;
  }

  /** How many nodes there are. */
  get size(): number {
    return this.#nodes.length;
  }

  anyNode(): Node {
    return this.world.random.pick(this.#nodes);
  }

  /** One more node. */
  addNode(): Node {
    const node = this.#newNode();
    this.#nodes.push(node);
    return node;
  }

  /** @param subject whose promise it was @param until what happened later is of no interest */
  fail(subject: string, words: string, until?: number): void {
    const trace = this.#violations.length < maxTraces ? `\n${this.world.traceOf(subject, until)}` : "";
    this.#violations.push(`seed ${this.options.seed}: ${subject} ${words}${trace}`);
  }

  async run(parts: readonly Part[]): Promise<ClusterResult> {
    const { nodes, span, patience = defaultPatienceMs } = this.options;
    const { world } = this;
    this.#parts.push(...parts);
    for (let at = 0; at < nodes; at += 1) this.#nodes.push(this.#newNode());
    for (const part of parts) part.begin(span);
    this.#planFaults();
    await world.runUntil(span);
    this.#isQuiet = true;
    for (const { network } of [this.database, this.coordination]) network.isCalm = true;
    world.note("world", "is quiet from now on");
    const isDone = () => parts.every((part) => part.isDone);
    let isNight = false;
    const until = span + Math.max(patience, ...parts.map(({ patienceMs = 0 }) => patienceMs));
    while (!isDone() && world.now < until) {
      if (!isNight && parts.every(({ isDone, isIdle = isDone }) => isIdle)) {
        isNight = true;
        this.#endMost();
      }
      await world.runUntil(world.now + 5_000);
    }
    const counted = Object.fromEntries(parts.map((part) => [part.name, part.check()]));
    return {
      digest: world.digest,
      events: world.events,
      messages: this.database.network.messages + this.coordination.network.messages,
      statements: this.database.statements,
      faults: this.#faults,
      parts: counted,
      violations: this.#violations,
    };
  }

  #planFaults(): void {
    if (this.faultPlan === "outage") {
      this.world.after(outage.atMs, () => {
        this.#count("outage");
        for (const { network } of [this.database, this.coordination]) network.fallSilent(outage.forMs);
      });
    }
    if (this.faultPlan === "all" || this.faultPlan === "kills") this.#nodeFaultLater();
    if (this.faultPlan === "all") this.#storeFaultLater();
    if (this.faultPlan === "oldCopies") for (const of of ["database", "coordination"] as const) this.#oldCopyLater(of);
  }

  #oldCopyLater(of: Place): void {
    this.world.after(oldCopies.everyMs - oldCopies.oldMs[of], () => {
      if (this.#isQuiet) return;
      const goBack = this[of].copy();
      this.world.after(oldCopies.oldMs[of], () => {
        this.#count(of);
        goBack(1_000);
        this.#oldCopyLater(of);
      });
    });
  }

  #newNode(): Node {
    this.#started += 1;
    const node = new Node(new Machine(this.world, this.#started), this.database);
    for (const part of this.#parts) part.join(node);
    return node;
  }

  #replace(node: Node): void {
    const at = this.#nodes.indexOf(node);
    node.machine.die();
    if (at < 0) return;
    this.replacements.push(this.world.now);
    this.#nodes[at] = this.#newNode();
  }

  /** As in an upgrade. */
  async #stop(node: Node): Promise<void> {
    if (node.isStopping) return;
    node.isStopping = true;
    this.world.note(node.machine.name, "ends in order");
    const cancel = this.world.after(stopMs, () => this.#replace(node));
    await Promise.allSettled(this.#parts.map((part) => part.leave(node)));
    await node.leaseOwner.close().catch(() => {});
    cancel();
    this.#replace(node);
  }

  /** As an operator does when it is night. */
  #endMost(): void {
    this.world.note("world", `goes on with ${fewNodes} nodes`);
    for (const node of this.#nodes.splice(fewNodes)) void this.#stop(node);
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
    const kill = ["kill", () => this.#replace(node)] as const;
    const kinds: readonly (readonly [string, () => unknown])[] = [
      kill,
      ["pause", () => machine.standStill(someMs())],
      // Where it matters to the millisecond.
      ["pauseOfLease", () => machine.standStill(world.between(leaseMs - 1_000, leaseMs + 1_000))],
      ["cut", () => machine.cutOff(world.random.pick(places), someMs())],
      ["slow", () => machine.slowDown(someMs())],
      ["stop", () => void this.#stop(node)],
      ["clock", () => machine.setClock()],
    ];
    const [kind, fault] = this.faultPlan === "kills" ? kill : world.random.pick(kinds);
    this.#count(kind);
    fault();
  }

  #storeFaults(): readonly (readonly [string, () => void])[] {
    const { database, coordination, world } = this;
    return [
      ["databaseRestart", () => database.crash(world.between(100, 20_000))],
      ["databaseSilence", () => database.network.fallSilent(world.between(100, 10_000))],
      ["coordinationRestart", () => coordination.restart(world.between(100, 10_000))],
      ["coordinationSilence", () => coordination.network.fallSilent(world.between(100, 30_000))],
      ["coordinationLoss", () => coordination.lose(world.between(100, 10_000))],
    ];
  }
}
