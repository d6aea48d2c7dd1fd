/**
 * Compares what all nodes serve, and this node's clock with the store's. Personas and configuration are files on each of them, and one that was forgotten answers otherwise
 * than the rest: a warning in the log, in `/health` and in the metrics, and nothing more, as it is usual while nodes are replaced.
 */
import { hostname } from "node:os";
import type { Logger } from "../lib/process/log.ts";
import type { SampledTable } from "../lib/process/metrics.ts";
import { aheadBy, type Clock, maxApartMs, repeat } from "../lib/time/clock.ts";
import type { NodeRepository, NodeVersions } from "../store/contract/store.ts";

type NodeComparisonOptions = {
  readonly nodes: NodeRepository;
  readonly clock: Clock;
  readonly log: Logger;
  readonly versions: () => NodeVersions;
};

/** Number of nodes, this one included, and of those among them that serve something else than this one. */
type NodeDifference = { readonly nodes: number } & { readonly [Part in keyof NodeVersions]: number };

/** @property node its machine's name, and what tells several on one machine apart */
export type ServingNode = NodeVersions & { readonly node: string };

const everyMs = 10_000;
/** Comparisons in a row that find a difference until it is logged: files reach all nodes within some seconds, but not at once. */
const differencesUntilWarned = 3;

export class NodeComparison {
  readonly #options: NodeComparisonOptions;
  readonly #node: string;
  /** The others, as they reported last. */
  #others: readonly ServingNode[] = [];
  #found: NodeDifference = { nodes: 1, program: 0, configuration: 0, personas: 0 };
  /** Number of other nodes that come before this one, in an order of their names. */
  #rank = 0;
  #differences = 0;
  #aheadMs: number | undefined;
  #stop: (() => Promise<void>) | undefined;

  constructor(options: NodeComparisonOptions) {
    this.#options = options;
    this.#node = `${hostname()}/${options.clock.newId().slice(-12)}`;
  }

  /** The latest difference, at most some seconds old. */
  get difference(): NodeDifference {
    return this.#found;
  }

  /** This machine, and by how much the store's clock is ahead of its own; undefined: it is not known yet. */
  get clockState(): { readonly machine: string; readonly aheadMs: number } | undefined {
    return this.#aheadMs === undefined ? undefined : { machine: machineOf(this.#node), aheadMs: this.#aheadMs };
  }

  /** The machines of all nodes. */
  get machines(): readonly string[] {
    return this.all.map(({ node }) => machineOf(node));
  }

  /** Each node and what it serves, this one first; the others are as of the latest comparison. */
  get all(): readonly ServingNode[] {
    return [{ node: this.#node, ...this.#options.versions() }, ...this.#others];
  }

  /** The nodes, and this one's number among them, which each has alone. */
  get group(): { readonly nodes: number; readonly rank: number } {
    return { nodes: this.#found.nodes, rank: this.#rank };
  }

  /** Reports this node's versions and compares, now and from then on. Resolves after the first time, and never rejects. */
  start(): Promise<void> {
    const first = this.#compare();
    this.#stop = repeat(this.#options.clock, everyMs, () => this.#compare(), first);
    return first;
  }

  async close(): Promise<void> {
    await this.#stop?.();
    // A row that stays is not counted after a minute.
    await this.#options.nodes.leave(this.#node).catch(() => {});
  }

  async #compare(): Promise<void> {
    const { nodes, versions, clock } = this.#options;
    try {
      const own = versions();
      const askedAt = clock.now();
      const { others, now } = await nodes.report(this.#node, own);
      this.#keepClock(aheadBy(now, askedAt, clock.now()));
      this.#rank = others.filter(({ node }) => node < this.#node).length;
      this.#others = others;
      const differing = (part: keyof NodeVersions) => others.filter((other) => other[part] !== own[part]).length;
      this.#keep({
        nodes: others.length + 1,
        program: differing("program"),
        configuration: differing("configuration"),
        personas: differing("personas"),
      });
    } catch {
      // The store logs that it is away; what was known last stays.
    }
  }

  #keepClock(aheadMs: number): void {
    const { log } = this.#options;
    const wasApart = Math.abs(this.#aheadMs ?? 0) >= maxApartMs;
    const isApart = Math.abs(aheadMs) >= maxApartMs;
    this.#aheadMs = aheadMs;
    if (isApart === wasApart) return;
    const seconds = Math.round(aheadMs / 100) / 10;
    if (isApart) log.warn("this machine's clock is wrong, or the database's is", { database_ahead_seconds: seconds });
    else log.info("this machine's clock agrees with the database's again", { database_ahead_seconds: seconds });
  }

  #keep(found: NodeDifference): void {
    this.#found = found;
    const { program, configuration, personas } = found;
    const isSame = program + configuration + personas === 0;
    if (isSame && this.#differences >= differencesUntilWarned)
      this.#options.log.info("all nodes serve the same again", found);
    this.#differences = isSame ? 0 : this.#differences + 1;
    if (this.#differences === differencesUntilWarned) {
      this.#options.log.warn("other nodes serve another program, configuration or personas than this one", found);
    }
  }
}

const machineOf = (node: string): string => node.slice(0, node.lastIndexOf("/"));

const otherNodes = (part: keyof NodeVersions, words: string) =>
  ({
    help: `Nodes whose ${words} another than of this one.`,
    aggregate: "max",
    read: ({ difference }: NodeComparison) => difference[part],
  }) as const;

export const comparisonMetrics: SampledTable<NodeComparison> = {
  troupe_nodes_other_program: otherNodes("program", "program is"),
  troupe_nodes_other_configuration: otherNodes("configuration", "configuration is"),
  troupe_nodes_other_personas: otherNodes("personas", "personas are"),
  troupe_clock_offset_seconds: {
    help: "By how much this machine's clock and the database's are apart.",
    aggregate: "max",
    read: ({ clockState }: NodeComparison) => Math.abs(clockState?.aheadMs ?? 0) / 1000,
  },
};
