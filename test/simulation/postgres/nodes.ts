/** The nodes, as they tell of themselves. */
import type { Mutation } from "../mutations.ts";
import { changed, type Statement } from "./server.ts";

const countedMs = 60_000;

export class NodeTable {
  readonly #toldAt = new Map<string, number>();
  readonly statements: readonly Statement[];

  constructor(now: () => number, broken: ReadonlySet<Mutation>) {
    const others = (node: string) =>
      [...this.#toldAt].filter(([other, at]) => other !== node && at > now() - countedMs).map(([other]) => other);
    this.statements = [
      [
        "insert into troupe.node_versions",
        ([node, program, configuration, personas]) => {
          this.#toldAt.set(node as string, now());
          const known = broken.has("nodes-are-unknown") ? [] : others(node as string);
          return { rows: known.map((other) => ({ node: other, program, configuration, personas })) };
        },
      ],
      ["delete from troupe.node_versions where node", ([node]) => changed(Number(this.#toldAt.delete(node as string)))],
    ];
  }
}
