/**
 * The rate limiter in shared memory: sliding windows in files of the data folder, mapped by every process that serves from it,
 * so that a limit holds across workers, restarts, crashes and upgrades.
 */
import type { Clock } from "../lib/clock.ts";
import { type Decision, decisionOf, type Limiter } from "./limiter.ts";
import type { WindowFiles } from "./window-files.ts";
import { capacityFor, type Hit, type TableShape, type WindowTable } from "./window-table.ts";

/** A key's file is one page of memory for limits below this. */
const minKeyCapacity = 512;
/** How many keys' files stay mapped. */
const maxMapped = 10_000;
/** Of the addresses' file: 16 MiB, which are 4,096 windows for a limit of 600. */
const addressWords = 2 ** 22;
const minAddressCapacity = 128;
/** Retries when the table is replaced meanwhile. */
const maxTries = 10;

/** How a kind of callers maps to files. */
type Kind = {
  /** Callers with the same name share a file. */
  name(caller: string): string;
  path(name: string): string;
  shape(limit: number): TableShape;
};

/** A hit costs 0.8 µs of CPU, a refusal 0.4 µs; for addresses 1.2 and 0.5 µs (300,000 in a row, 50 callers). */
export class SharedMemoryLimiter implements Limiter {
  readonly #kind: Kind;
  readonly #files: WindowFiles;
  readonly #clock: Clock;
  /** By name, oldest mapping first. */
  readonly #tables = new Map<string, WindowTable>();

  private constructor(kind: Kind, files: WindowFiles, clock: Clock) {
    this.#kind = kind;
    this.#files = files;
    this.#clock = clock;
  }

  /** For API keys: one file each. */
  static ofKeys(files: WindowFiles, clock: Clock): SharedMemoryLimiter {
    const shape = (limit: number) => ({ sets: 0, capacity: capacityFor(limit, minKeyCapacity) });
    return new SharedMemoryLimiter(
      { name: (caller) => caller, path: (name) => files.pathOf(name), shape },
      files,
      clock,
    );
  }

  /** For client addresses, of which anybody may use many: one file of fixed size. */
  static ofAddresses(files: WindowFiles, clock: Clock): SharedMemoryLimiter {
    return new SharedMemoryLimiter({ name: () => "", path: () => files.addresses, shape: addressShape }, files, clock);
  }

  /** @throws the file system's errors, and SQLite's when another process holds the lock for too long */
  hit(caller: string, perMinute: number): Decision {
    for (let tries = 0; tries < maxTries; tries += 1) {
      const table = this.#tableFor(caller, perMinute);
      const now = this.#files.now();
      const window = table.windowOf(caller, now, true);
      const hit = table.hit(window, perMinute, now);
      if (hit !== undefined) return this.#decision(table, window, perMinute, now, hit);
      // Frozen or damaged: freeze it for all, so that it is replaced.
      table.freeze();
    }
    throw new Error("the files of the rate limits change all the time");
  }

  /** Creates no file. @throws as `hit` */
  peek(caller: string, perMinute: number): Decision {
    const now = this.#files.now();
    const table = this.#has(caller) ? this.#tableFor(caller, perMinute) : undefined;
    const window = table?.windowOf(caller, now, false);
    if (table === undefined || window === undefined) return decisionOf(empty, perMinute, true, now, this.#clock.now());
    const head = table.head(window);
    return this.#decision(table, window, perMinute, now, { allowed: table.count(window, now, head) < perMinute, head });
  }

  #has(caller: string): boolean {
    const name = this.#kind.name(caller);
    return this.#tables.has(name) || this.#files.has(this.#kind.path(name));
  }

  #tableFor(caller: string, limit: number): WindowTable {
    const name = this.#kind.name(caller);
    const known = this.#tables.get(name);
    if (known !== undefined && known.shape.capacity > limit && !known.isFrozen) return known;
    const table = this.#files.open(this.#kind.path(name), this.#kind.shape(limit));
    this.#tables.set(name, table);
    if (this.#tables.size > maxMapped) this.#tables.delete(this.#tables.keys().next().value!);
    return table;
  }

  #decision(table: WindowTable, window: number, perMinute: number, now: number, { allowed, head }: Hit): Decision {
    const count = table.count(window, now, head);
    const at = (index: number) => (index < count ? table.timeOf(window, head - count + index, now) : undefined);
    return decisionOf({ count, at }, perMinute, allowed, now, this.#clock.now());
  }
}

const empty = { count: 0, at: () => undefined };

function addressShape(limit: number): TableShape {
  const capacity = capacityFor(limit, minAddressCapacity);
  return { sets: Math.max(1, addressWords / 4 / capacity), capacity };
}
