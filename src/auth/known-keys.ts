/** What a process makes of each key: read once, and then again for those alone that changed. */
import { changeModulus, type KeyRepository, type KeyRow } from "../store/contract/store.ts";

export class KnownKeys<T> {
  readonly #rows: KeyRepository;
  readonly #make: (row: KeyRow) => T;
  #known = new Map<string, { readonly change: number; readonly made: T }>();
  /** The latest change that is known, and the sum of all as it is in their digest. */
  #latest = -1;
  #sum = 0;
  /** Readings that were begun, and which of them is what is known. */
  #begun = 0;
  #taken = 0;

  constructor(rows: KeyRepository, make: (row: KeyRow) => T) {
    this.#rows = rows;
    this.#make = make;
  }

  /** Of all keys, in no order. */
  *made(): Iterable<T> {
    for (const { made } of this.#known.values()) yield made;
  }

  /**
   * Reads what changed, and all where the database does not go on from what is known: one that lost its last moments went back.
   * @returns what takes it over, and gives what was made before and now of keys that changed; undefined where a later reading was quicker.
   * Versions don't show that: they may have gone back.
   * @throws StorageError
   */
  async read(): Promise<() => { readonly gone: readonly T[]; readonly made: readonly T[] } | undefined> {
    this.#begun += 1;
    const reading = this.#begun;
    const since = this.#latest;
    const { rows, digest } = await this.#rows.changes(since);
    const goesOn = since >= 0 && digest === this.#digestWith(rows);
    const taken = goesOn || since < 0 ? rows : (await this.#rows.changes(-1)).rows;
    return () => {
      if (reading < this.#taken) return undefined;
      this.#taken = reading;
      const gone: T[] = goesOn ? [] : [...this.made()];
      if (!goesOn) [this.#known, this.#latest, this.#sum] = [new Map(), -1, 0];
      const made = taken.map((row) => {
        const before = this.#known.get(row.id);
        if (before !== undefined) gone.push(before.made);
        const now = { change: row.change, made: this.#make(row) };
        this.#known.set(row.id, now);
        this.#sum += added(row, before);
        this.#latest = Math.max(this.#latest, row.change);
        return now.made;
      });
      return { gone, made };
    };
  }

  #digestWith(rows: readonly (Change & { readonly id: string })[]): string {
    let [count, sum] = [this.#known.size, this.#sum];
    for (const row of rows) {
      const before = this.#known.get(row.id);
      if (before === undefined) count += 1;
      sum += added(row, before);
    }
    return `${count} ${sum}`;
  }
}

type Change = { readonly change: number };

/** To the sum of changes that is in their digest. */
const added = ({ change }: Change, before: Change | undefined): number =>
  (change % changeModulus) - ((before?.change ?? 0) % changeModulus);
