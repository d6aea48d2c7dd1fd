/**
 * The limiter of all modes: exact sliding windows in files of the data folder, mapped into the memory of every process that
 * serves from it. So a limit holds across workers, restarts, crashes and upgrades.
 */
import type { Clock } from "../lib/clock.ts";
import { type Limiter, type Verdict, verdictOf } from "./rate-limiter.ts";
import type { WindowFiles } from "./window-files.ts";
import { capacityFor, type TableShape, type Taken, type WindowTable } from "./window-table.ts";

/** A key's file is one page of memory up to that limit. */
const minKeyCapacity = 512;
/** More keys' files are mapped anew when they are needed. */
const maxMapped = 10_000;
/** Of the addresses' file: 16 MiB, which are 4,096 windows for a limit of 600. */
const addressWords = 2 ** 22;
const minAddressCapacity = 128;
/** A table that was replaced meanwhile is looked for anew. */
const maxTries = 10;

/** Where the windows of a kind of callers lie. */
type Kind = {
  /** Which callers share a file: those of one name. */
  name(who: string): string;
  path(name: string): string;
  shape(limit: number): TableShape;
};

/** A hit costs 0.8 µs of CPU, a refusal 0.4 µs; for addresses 1.2 and 0.5 µs (300,000 in a row, 50 callers). */
export class SharedWindows implements Limiter {
  readonly #kind: Kind;
  readonly #files: WindowFiles;
  readonly #clock: Clock;
  /** By name; the longest mapped stands first. */
  readonly #tables = new Map<string, WindowTable>();

  private constructor(kind: Kind, files: WindowFiles, clock: Clock) {
    this.#kind = kind;
    this.#files = files;
    this.#clock = clock;
  }

  /** For callers that nobody can invent: each has a file of its own. */
  static ofKeys(files: WindowFiles, clock: Clock): SharedWindows {
    const shape = (limit: number) => ({ sets: 0, capacity: capacityFor(limit, minKeyCapacity) });
    return new SharedWindows({ name: (who) => who, path: (name) => files.pathOf(name), shape }, files, clock);
  }

  /** For callers that anybody can invent: they share a file that does not grow. */
  static ofAddresses(files: WindowFiles, clock: Clock): SharedWindows {
    return new SharedWindows({ name: () => "", path: () => files.addresses, shape: addressShape }, files, clock);
  }

  /** @throws the file system's errors, and SQLite's when another process holds the lock for too long */
  take(who: string, perMinute: number): Verdict {
    for (let tries = 0; tries < maxTries; tries += 1) {
      const table = this.#tableFor(who, perMinute);
      const now = this.#files.now();
      const window = table.windowOf(who, now, true);
      const taken = table.take(window, perMinute, now);
      if (taken !== undefined) return this.#verdict(table, window, perMinute, now, taken);
      // Whatever ails it, another one takes its place.
      table.freeze();
    }
    throw new Error("the files of the rate limits change all the time");
  }

  /** Makes no file. @throws as `take` */
  peek(who: string, perMinute: number): Verdict {
    const now = this.#files.now();
    const table = this.#has(who) ? this.#tableFor(who, perMinute) : undefined;
    const window = table?.windowOf(who, now, false);
    if (table === undefined || window === undefined) return verdictOf(empty, perMinute, true, now, this.#clock.now());
    const head = table.head(window);
    return this.#verdict(table, window, perMinute, now, { allowed: table.count(window, now, head) < perMinute, head });
  }

  #has(who: string): boolean {
    const name = this.#kind.name(who);
    return this.#tables.has(name) || this.#files.has(this.#kind.path(name));
  }

  #tableFor(who: string, limit: number): WindowTable {
    const name = this.#kind.name(who);
    const known = this.#tables.get(name);
    if (known !== undefined && known.shape.capacity > limit && !known.isFrozen) return known;
    const table = this.#files.open(this.#kind.path(name), this.#kind.shape(limit));
    this.#tables.set(name, table);
    if (this.#tables.size > maxMapped) this.#tables.delete(this.#tables.keys().next().value!);
    return table;
  }

  #verdict(table: WindowTable, window: number, perMinute: number, now: number, { allowed, head }: Taken): Verdict {
    const count = table.count(window, now, head);
    const at = (index: number) => (index < count ? table.timeOf(window, head - count + index, now) : undefined);
    return verdictOf({ count, at }, perMinute, allowed, now, this.#clock.now());
  }
}

const empty = { count: 0, at: () => undefined };

function addressShape(limit: number): TableShape {
  const capacity = capacityFor(limit, minAddressCapacity);
  return { sets: Math.max(1, addressWords / 4 / capacity), capacity };
}
