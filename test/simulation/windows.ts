/**
 * Rate windows over many nodes. What runs is the limiter of a node, with the PostgreSQL client of windows or over a modelled Valkey;
 * what the stores decide is modelled. Held to docs/postgres.md: exact while the store is there, and what is told there for when it is not.
 */
import { type Decision, windowMs } from "../../src/limits/limiter.ts";
import { StoredLimiter } from "../../src/limits/stored.ts";
import { NodeComparison } from "../../src/observability/node-versions.ts";
import { nodeRepository } from "../../src/store/postgres/node-repository.ts";
import { postgresWindows } from "../../src/store/postgres/windows.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import type { Cluster, Counts, Node, Part } from "./cluster.ts";

type Admission = { readonly at: number; readonly byShare: boolean };
type Caller = { readonly name: string; readonly limit: number; readonly admitted: Admission[] };

/** A request that was counted before a loss may be decided after it. */
const lateMs = 1_000;
const same = { program: "", configuration: "", personas: "" };
/** How often what the limits allow is asked for. */
const pressure = 2;
/** Of a limit that is asked for so often, at least so much is given. */
const leastPart = 0.65;
/** Until all nodes have told what they admitted, and know each other. */
const settledMs = 15_000;
/** A request waits no longer than that for its decision. */
const patienceMs = 5_000;
/** Of hits that come at once, in a thousand. */
const bursts = 5;

export class Windows implements Part {
  readonly name: string;
  readonly #cluster: Cluster;
  readonly #store: "database" | "coordination";
  readonly #limiters = new Map<Node, StoredLimiter>();
  readonly #comparisons = new Map<StoredLimiter, NodeComparison>();
  readonly #closing = new Set<Node>();
  readonly #callers: readonly Caller[];
  readonly #counts = { hits: 0, admitted: 0, refused: 0, byShare: 0, waited: 0, lost: 0, unready: 0 };
  #waiting = 0;
  #quietAt = Number.POSITIVE_INFINITY;

  /** @param load of callers beside the first */
  constructor(cluster: Cluster, store: "database" | "coordination", load: number) {
    this.name = store === "coordination" ? "windows" : "databaseWindows";
    this.#cluster = cluster;
    this.#store = store;
    const limits = [7, 100, 2_000, ...Array.from({ length: Math.ceil(load) }, () => 4 * cluster.options.nodes)];
    this.#callers = limits.map((limit, at) => ({ name: `${this.name}${at}`, limit, admitted: [] }));
  }

  join(node: Node): void {
    const { machine, windowPool, background } = node;
    const windows =
      this.#store === "database"
        ? postgresWindows(windowPool, () => machine.newId())
        : this.#cluster.coordination.client(machine);
    void node.ready.then(async () => {
      const options = { clock: machine, log: silentLogger };
      const comparison = new NodeComparison({ ...options, nodes: nodeRepository(background), versions: () => same });
      const limiter = new StoredLimiter({ ...options, windows, place: "model", group: () => comparison.group });
      await comparison.start();
      this.#limiters.set(node, limiter);
      this.#comparisons.set(limiter, comparison);
      machine.onDeath(() => this.#forget(node, limiter));
    });
  }

  async leave(node: Node): Promise<void> {
    this.#closing.add(node);
    await this.#close(this.#limiters.get(node));
  }

  begin(span: number): void {
    for (const caller of this.#callers) this.#hitLater(caller);
    this.#quietAt = span;
    this.#cluster.world.after(this.#endsAt + patienceMs, () => {
      // Its beats are most of what happens: others may take longer.
      for (const [node, limiter] of this.#limiters) {
        this.#closing.add(node);
        void this.#close(limiter);
      }
    });
  }

  async #close(limiter: StoredLimiter | undefined): Promise<void> {
    if (limiter === undefined) return;
    await limiter.close();
    await this.#comparisons.get(limiter)!.close();
  }

  /** Two windows after the last fault, so that one is seen that nothing disturbed. */
  get #endsAt(): number {
    return this.#quietAt + settledMs + 2 * windowMs;
  }

  get isDone(): boolean {
    return this.#cluster.world.now >= this.#endsAt + patienceMs;
  }

  check(): Counts {
    for (const [, limiter] of this.#limiters) this.#sum(limiter);
    if (this.#waiting > 0) this.#cluster.fail(this.name, `has ${this.#waiting} requests that wait for ever`);
    for (const caller of this.#callers) {
      this.#assertCounted(caller);
      this.#assertTotal(caller);
      this.#assertPlan(caller);
      this.#assertWell(caller);
    }
    return this.#counts;
  }

  #forget(node: Node, limiter: StoredLimiter): void {
    this.#sum(limiter);
    this.#limiters.delete(node);
    this.#closing.delete(node);
  }

  #sum({ counts }: StoredLimiter): void {
    this.#counts.waited += counts.waited;
    this.#counts.lost += counts.lost;
  }

  #hitLater(caller: Caller): void {
    const { world } = this.#cluster;
    const everyMs = windowMs / (caller.limit * pressure);
    world.after(2 * everyMs * (world.random.below(1_000) / 1_000), () => {
      if (world.now >= this.#endsAt) return;
      const isBurst = world.chance(bursts);
      for (let hits = isBurst ? Math.ceil(caller.limit / 4) : 1; hits > 0; hits -= 1) this.#hit(caller);
      this.#hitLater(caller);
    });
  }

  #hit(caller: Caller): void {
    const node = this.#cluster.anyNode();
    const { machine } = node;
    machine.deliver(() => {
      const limiter = this.#limiters.get(node);
      if (limiter === undefined || this.#closing.has(node)) {
        this.#counts.unready += 1;
        return;
      }
      this.#counts.hits += 1;
      const before = limiter.counts.byShare;
      const deciding = limiter.hit(caller.name, caller.limit);
      if (!(deciding instanceof Promise)) {
        this.#decided(caller, node, deciding, limiter.counts.byShare > before);
        return;
      }
      this.#waiting += 1;
      const end = () => {
        cancelDeath();
        this.#waiting -= 1;
      };
      const cancelDeath = machine.onDeath(end);
      void deciding.then((decision) => {
        if (machine.isDead) return;
        end();
        this.#decided(caller, node, decision, limiter.status.state === "away" || this.#closing.has(node));
      });
    });
  }

  #decided(caller: Caller, { machine }: Node, { allowed }: Decision, byShare: boolean): void {
    this.#cluster.world.note(
      caller.name,
      `${allowed ? "admitted" : "refused"} by ${machine.name}${byShare ? ", alone" : ""}`,
    );
    if (!allowed) {
      this.#counts.refused += 1;
      return;
    }
    this.#counts.admitted += 1;
    this.#counts.byShare += Number(byShare);
    caller.admitted.push({ at: this.#cluster.world.now, byShare });
  }

  /** What the store counted: never more than the limit, whatever happens to nodes and messages. */
  #assertCounted(caller: Caller): void {
    const { losses } = this.#cluster[this.#store];
    const counted = caller.admitted.filter(({ byShare }) => !byShare);
    for (const { from, to, count } of windowsOf(counted)) {
      // A store that has lost all gives a limit anew.
      const lost = losses.filter((at) => from < at + lateMs && to >= at).length;
      if (count > caller.limit * (1 + lost)) {
        this.#over(caller, count, from, to, "counted");
        return;
      }
    }
  }

  /** A node that is alone adds its share to what the others admit, and one that came in a dead one's place its own. */
  #assertTotal(caller: Caller): void {
    const { replacements, options } = this.#cluster;
    const { losses } = this.#cluster[this.#store];
    for (const { from, to, count } of windowsOf(caller.admitted)) {
      if (count <= 2 * caller.limit) continue;
      const came = replacements.filter((at) => at > from - windowMs && at <= to).length;
      const lost = losses.filter((at) => from < at + lateMs && to >= at).length;
      const shares = 1 + (came + 1) / options.nodes;
      if (count > Math.ceil(caller.limit * (1 + lost + shares)) + came) {
        this.#over(caller, count, from, to, "in all");
        return;
      }
    }
  }

  /** Where it is known what befell the stores, it is exact. */
  #assertPlan(caller: Caller): void {
    const { faultPlan } = this.#cluster;
    const { outages } = this.#cluster[this.#store].network;
    const { limit, admitted } = caller;
    if (faultPlan === "all") return;
    const [cut] = outages;
    for (const { from, to, count } of windowsOf(admitted)) {
      // What was admitted just before an outage may be anywhere: no more than twice. From then on shares are the limit.
      const isShared = outages.some((one) => from >= one.from + lateMs && from < one.from + windowMs);
      const isStraddling = !isShared && outages.some((one) => from < one.from + lateMs && to > one.from);
      if (count > (isStraddling ? 2 * limit : limit)) {
        this.#over(caller, count, from, to, faultPlan);
        return;
      }
    }
    // Of a small limit most nodes have no share at all.
    const hasShares = limit >= 4 * this.#cluster.options.nodes;
    if (faultPlan === "outage" && hasShares) this.#assertGiven(caller, cut!.from, cut!.to);
    if (faultPlan === "none") this.#assertGiven(caller, 0, windowMs);
    if (faultPlan === "none" && admitted.some(({ byShare }) => byShare))
      this.#cluster.fail(caller.name, "met a node alone");
  }

  /** After the last fault all is as if nothing had been. Of two minutes one is full: what is used in a burst comes free a window later. */
  #assertWell(caller: Caller): void {
    const from = this.#quietAt + settledMs;
    const to = from + 2 * windowMs;
    const after = caller.admitted.filter(({ at }) => at >= from && at < to);
    const fullest = Math.max(0, ...Array.from(windowsOf(after), ({ count }) => count));
    this.#assertEnough(caller, fullest, from, to);
    if (after.some(({ at, byShare }) => byShare && at >= from + windowMs)) {
      this.#cluster.fail(caller.name, "meets a node alone, long after the last fault");
    }
  }

  #assertGiven(caller: Caller, from: number, to: number): void {
    this.#assertEnough(caller, caller.admitted.filter(({ at }) => at >= from && at < to).length, from, to);
  }

  /** What comes free at once is asked for one by one: so not all of it is given. */
  #assertEnough({ name, limit }: Caller, count: number, from: number, to: number): void {
    if (count < Math.floor(limit * leastPart) - 1)
      this.#cluster.fail(name, `got ${count} of ${limit} from ${from} to ${to}`, to);
  }

  #over({ name, limit }: Caller, count: number, from: number, to: number, words: string): void {
    this.#cluster.fail(name, `got ${count} of ${limit} (${words}) from ${from.toFixed(0)} to ${to.toFixed(0)}`, to);
  }
}

/** For each admission, the window that ends with it. */
function* windowsOf(admitted: readonly Admission[]): Generator<{ from: number; to: number; count: number }> {
  let first = 0;
  for (const [last, { at }] of admitted.entries()) {
    while (at - admitted[first]!.at >= windowMs) first += 1;
    yield { from: admitted[first]!.at, to: at, count: last - first + 1 };
  }
}
