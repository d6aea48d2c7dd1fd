/** The dimensions of the ledger's lines: what like calls share (whose, which model, how it ended), once for all of them, under an id. */
import { isSameList } from "../../lib/json/same-list.ts";
import { dayMs } from "../../lib/time/duration.ts";
import type { LedgerLine } from "../contract/usage.ts";
import { type DimensionValues, parts, type Rollup, rollups } from "../sql/ledger-rollups.ts";
import { dimensionNames } from "./columns.ts";

/**
 * True if two lines have the same dimensions. Written out, as it runs twice for every call, and what is looked up by changing names takes ten times
 * as long. What differs most often comes first.
 */
export function hasSameDimensions(a: LedgerLine, b: LedgerLine): boolean {
  return (
    a.ended === b.ended &&
    a.keyId === b.keyId &&
    a.model === b.model &&
    a.user === b.user &&
    a.upstreamModel === b.upstreamModel &&
    a.provider === b.provider &&
    a.failure === b.failure &&
    a.errorCode === b.errorCode &&
    a.upstreamFormat === b.upstreamFormat &&
    a.upstreamKey === b.upstreamKey &&
    a.upstreamEndpoint === b.upstreamEndpoint &&
    a.surface === b.surface &&
    a.format === b.format &&
    a.client === b.client &&
    a.metadata === b.metadata &&
    a.persona === b.persona &&
    a.personaVersion === b.personaVersion &&
    a.variant === b.variant &&
    a.serviceTier === b.serviceTier &&
    a.counted === b.counted &&
    a.priceSource === b.priceSource &&
    a.priceDate === b.priceDate &&
    a.priceNote === b.priceNote &&
    (a.tags === b.tags || isSameList(a.tags, b.tags))
  );
}

/** Lines by their dimensions. Only those of one key are compared. */
export function groupedByDimensions(lines: readonly LedgerLine[]): readonly (readonly LedgerLine[])[] {
  const groups: LedgerLine[][] = [];
  const byKey = new Map<string, LedgerLine[][]>();
  for (const line of lines) {
    let own = byKey.get(line.keyId);
    if (own === undefined) {
      own = [];
      byKey.set(line.keyId, own);
    }
    let group: LedgerLine[] | undefined;
    for (let at = 0; at < own.length && group === undefined; at++)
      if (hasSameDimensions(own[at]![0]!, line)) group = own[at];
    if (group === undefined) {
      group = [];
      own.push(group);
      groups.push(group);
    }
    group.push(line);
  }
  return groups;
}

/** @param textOf makes a text one that the database can keep */
export const dimensionValues = (line: LedgerLine, textOf = (text: string) => text): DimensionValues =>
  dimensionNames.map((name) => {
    const value = line[name];
    if (value === null) return null;
    return typeof value === "string" ? textOf(value) : JSON.stringify(value.map(textOf));
  });

export type Dimensions = {
  readonly id: number;
  readonly day: number;
  readonly values: DimensionValues;
};

/** The id of a rollup's dimensions, and whether the database has to get them before its sums. */
export type Group = { readonly rollup: Rollup; readonly id: number; readonly isNew: boolean };

/** The dimensions of lines, whether the database has to get them before these, and those of rollups that count them. */
export type LineDimensions = Dimensions & { readonly isNew: boolean; readonly groups: readonly Group[] };

const maxKnown = 5_000;
/** One more than the largest id: as many bits as a number of JSON has, less one. */
const numbers = 2 ** 52;

/**
 * The dimensions that the database has, as far as this process knows: by their ids, which are a keyed hash of what they are, so that every
 * process gives the same ones the same id without asking. It is the sum of the hashes of their parts, and so made of what is known where
 * only their combination is new.
 */
export class KnownDimensions {
  readonly #salt: string;
  /** By a part's values, for each of `parts`. */
  readonly #hashes = parts.map((members) => ({
    columns: members.map((name) => dimensionNames.indexOf(name)),
    known: new Recent<string, number>(),
  }));
  /** Of each rollup: what its ids begin with, and by these the last day that the database has of them. */
  readonly #rollups: readonly {
    readonly rollup: Rollup;
    readonly base: number;
    readonly days: Recent<number, number>;
  }[];

  /** @param salt of the database, so that nobody can choose texts that have the id of others */
  constructor(salt: number) {
    this.#salt = String(salt);
    this.#rollups = rollups.map((rollup) => ({
      rollup,
      base: this.#hashOf(`${rollup.id}`),
      days: new Recent<number, number>(),
    }));
  }

  find(line: LedgerLine, values: DimensionValues): LineDimensions {
    const day = Math.floor(line.at / dayMs);
    const hashes = this.#hashes.map(({ columns, known }, at) => {
      const part = JSON.stringify(columns.map((column) => values[column]));
      let hash = known.get(part);
      if (hash === undefined) {
        hash = this.#hashOf(`${at} ${part}`);
        known.set(part, hash);
      }
      return hash;
    });
    const groups = this.#rollups.map(({ rollup, base, days }): Group => {
      const id = rollup.parts.reduce((sum, part) => (sum + hashes[part]!) % numbers, base);
      return { rollup, id, isNew: (days.get(id) ?? -1) < day };
    });
    const { id, isNew } = groups.pop()!;
    return { id, day, values, isNew, groups };
  }

  /** The database has them. */
  learn({ id, day, groups }: LineDimensions): void {
    for (const [at, { days }] of this.#rollups.entries()) {
      const one = groups[at]?.id ?? id;
      days.set(one, Math.max(day, days.get(one) ?? 0));
    }
  }

  #hashOf(text: string): number {
    const hash = new Bun.CryptoHasher("sha256").update(this.#salt).update(` ${text}`).digest();
    return hash.readUIntBE(0, 6) * 16 + (hash[6]! >> 4);
  }
}

/** Holds what was asked for lately: a map's worth at least, two at most. What goes goes together, as a map finds its first entry slowly. */
class Recent<K, V> {
  #young = new Map<K, V>();
  #old = new Map<K, V>();

  get(key: K): V | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: K, value: V): void {
    if (this.#young.size >= maxKnown && !this.#young.has(key)) [this.#old, this.#young] = [this.#young, new Map()];
    this.#young.set(key, value);
  }
}
