/** Which lines of the ledger are of one kind, and the number of a kind. */
import { isSameList } from "../lib/json/same-list.ts";
import { dayMs, kindNames } from "./ledger-columns.ts";
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

/** Values of a kind, in the order of the columns. */
export type KindValues = readonly (string | null)[];

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

/** Beyond it the ones that were longest in memory are forgotten. */
const maxKnown = 10_000;

/**
 * The kinds that the database has, as far as this process knows: by their numbers, which are a keyed hash of what they are, so that every
 * process gives one kind the same number without asking.
 */
export class KnownKinds {
  readonly #salt: string;
  /** By the kind's values: its number, and the last day that the database has of it. */
  readonly #known = new Map<string, { kind: number; day: number }>();

  /** @param salt of the database, so that nobody can choose texts that have another kind's number */
  constructor(salt: number) {
    this.#salt = String(salt);
  }

  /** @returns the kind's number, and whether the database has to get it before its lines */
  find(line: LedgerLine, values: KindValues): Kind & { readonly isNew: boolean } {
    const day = Math.floor(line.at / dayMs);
    const text = JSON.stringify(values);
    const known = this.#known.get(text);
    if (known !== undefined) return { kind: known.kind, day, values, isNew: known.day < day };
    return { kind: this.#numberOf(text), day, values, isNew: true };
  }

  /** The database has it. */
  learn({ kind, day, values }: Kind): void {
    const text = JSON.stringify(values);
    this.#known.delete(text);
    this.#known.set(text, { kind, day });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= maxKnown) break;
      this.#known.delete(oldest);
    }
  }

  /** Hashes a text into as many bits as a number of JSON has. */
  #numberOf(text: string): number {
    const hash = new Bun.CryptoHasher("sha256").update(this.#salt).update(text).digest();
    return hash.readUIntBE(0, 6) * 16 + (hash[6]! >> 4);
  }
}
