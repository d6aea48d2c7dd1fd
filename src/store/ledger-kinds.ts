/** Which lines of the ledger are of one kind, and the number of a kind. */
import { isSameList } from "../lib/json/same-list.ts";
import { dayMs, kindNames } from "./ledger-columns.ts";
import { coarse, type KindValues, knownTo, type Rollup } from "./ledger-rollups.ts";
import type { LedgerLine } from "./usage.ts";

/**
 * True if two lines are of one kind. Written out, as it runs twice for every call, and what is looked up by changing names takes ten times
 * as long. What differs most often comes first.
 */
export function isAlike(a: LedgerLine, b: LedgerLine): boolean {
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
    isSameList(a.tags, b.tags)
  );
}

/** Lines by their kinds. Only those of one key are compared. */
export function groupedByKind(lines: readonly LedgerLine[]): readonly (readonly LedgerLine[])[] {
  const groups: LedgerLine[][] = [];
  const byKey = new Map<string, LedgerLine[][]>();
  for (const line of lines) {
    let own = byKey.get(line.keyId);
    if (own === undefined) {
      own = [];
      byKey.set(line.keyId, own);
    }
    let group: LedgerLine[] | undefined;
    for (let at = 0; at < own.length && group === undefined; at++) if (isAlike(own[at]![0]!, line)) group = own[at];
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
export const kindValues = (line: LedgerLine, textOf = (text: string) => text): KindValues =>
  kindNames.map((name) => {
    const value = line[name];
    if (value === null) return null;
    return typeof value === "string" ? textOf(value) : JSON.stringify(value.map(textOf));
  });

export type Kind = {
  readonly kind: number;
  readonly day: number;
  readonly values: KindValues;
};

/** The number of a rollup's kind, and whether the database has to get it before its sums. */
export type Group = { readonly rollup: Rollup; readonly kind: number; readonly isNew: boolean };

/** A kind of lines, whether the database has to get it before them, and the kinds of rollups that count them. */
export type LineKind = Kind & { readonly isNew: boolean; readonly groups: readonly Group[] };

const maxKnown = 5_000;

/**
 * The kinds that the database has, as far as this process knows: by their numbers, which are a keyed hash of what they are, so that every
 * process gives one kind the same number without asking.
 */
export class KnownKinds {
  readonly #salt: string;
  /** By a kind's values: its number, and in the order of `coarse` those of its groups. */
  readonly #numbers = new Recent<string, { readonly kind: number; readonly groups: readonly number[] }>();
  /** By those numbers: the last day that the database has of them. */
  readonly #days = new Recent<number, number>();

  /** @param salt of the database, so that nobody can choose texts that have another kind's number */
  constructor(salt: number) {
    this.#salt = String(salt);
  }

  find(line: LedgerLine, values: KindValues): LineKind {
    const day = Math.floor(line.at / dayMs);
    const text = JSON.stringify(values);
    let numbers = this.#numbers.get(text);
    if (numbers === undefined) {
      const groups = coarse.map((rollup) => this.#numberOf(`${rollup.id} ${JSON.stringify(knownTo(rollup, values))}`));
      numbers = { kind: this.#numberOf(text), groups };
      this.#numbers.set(text, numbers);
    }
    const isNew = (kind: number) => (this.#days.get(kind) ?? -1) < day;
    const groups = numbers.groups.map((kind, at) => ({ rollup: coarse[at]!, kind, isNew: isNew(kind) }));
    return { kind: numbers.kind, day, values, isNew: isNew(numbers.kind), groups };
  }

  /** The database has it. */
  learn({ kind, day, groups }: LineKind): void {
    for (const one of [kind, ...groups.map((group) => group.kind)])
      this.#days.set(one, Math.max(day, this.#days.get(one) ?? 0));
  }

  /** Hashes a text into as many bits as a number of JSON has. */
  #numberOf(text: string): number {
    const hash = new Bun.CryptoHasher("sha256").update(this.#salt).update(text).digest();
    return hash.readUIntBE(0, 6) * 16 + (hash[6]! >> 4);
  }
}

/** Holds what was asked for lately: a map's worth at least, two at most. What goes goes together, as a map finds its first entry slowly. */
class Recent<K, V> {
  #young = new Map<K, V>();
  #old = new Map<K, V>();

  get(key: K): V | undefined {
    const value = this.#young.get(key) ?? this.#old.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    if (this.#young.size >= maxKnown) [this.#old, this.#young] = [this.#young, new Map()];
    this.#young.set(key, value);
  }
}
