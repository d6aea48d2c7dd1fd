/** A stream that is followed, for all of its readers on this node. */
import type { LiveEntry, LivePlace } from "../store/live-streams.ts";
import { splitText } from "./recorded-events.ts";

/** Characters of the latest events that are kept; a reader who is further behind asks the server for them. */
const windowSize = 32 * 1024;

export class FollowedStream {
  readonly stream: string;
  readonly owner: string;
  readonly askedFirstAt: number;
  askedAt: number;
  readonly listeners = new Set<() => void>();
  /** Entries are read after it. */
  place: LivePlace = [0, 0];
  /** JSON object, once known. */
  headers: string | undefined;
  /** Something of it came: if it falls silent now, the store says why. */
  hasCome = false;
  /** Nobody was there when it was last asked for. */
  isUnanswered = false;
  isOver = false;
  /** Number of events of the stored answer, once it is stored. */
  total: number | undefined;
  readonly #from: number;
  /** The latest events. */
  readonly #window: { readonly firstId: number; readonly events: readonly string[]; readonly size: number }[] = [];
  #windowSize = 0;

  constructor(stream: string, owner: string, from: number, now: number) {
    this.stream = stream;
    this.owner = owner;
    this.#from = from;
    this.askedFirstAt = now;
    this.askedAt = now;
  }

  take(entries: readonly LiveEntry[]): void {
    for (const entry of entries) this.#take(entry);
    this.hasCome = true;
    this.isUnanswered = false;
    this.notify();
  }

  unanswered(): void {
    this.isUnanswered = true;
    this.notify();
  }

  notify(): void {
    for (const listener of this.listeners) listener();
  }

  /**
   * The events from that number on that are at hand.
   * @returns `behind` where they have gone by, undefined where they are yet to come
   */
  from(number: number): string[] | "behind" | undefined {
    if (number >= this.place[0]) return undefined;
    const found: string[] = [];
    for (const { firstId, events } of this.#window) {
      const next = number + found.length;
      if (firstId > next) break;
      if (firstId + events.length > next) found.push(...events.slice(next - firstId));
    }
    return found.length > 0 ? found : "behind";
  }

  #take(entry: LiveEntry): void {
    if (isAfter(entry.place, this.place)) this.place = entry.place;
    else if (entry.kind !== "head") return;
    switch (entry.kind) {
      case "head":
        if (entry.headers !== undefined && this.headers === undefined) {
          this.headers = entry.headers;
          // Events before the first one that is wanted need not be read.
          if (this.#from > this.place[0]) this.place = [this.#from, 0];
        }
        return;
      case "events":
        this.#keep(entry.firstId, splitText(entry.text));
        return;
      case "finished":
        this.total = entry.place[0];
        this.isOver = true;
        return;
      case "look":
        this.isOver = true;
    }
  }

  #keep(firstId: number, events: readonly string[]): void {
    const size = events.reduce((sum, { length }) => sum + length, 0);
    this.#window.push({ firstId, events, size });
    this.#windowSize += size;
    while (this.#window.length > 1 && this.#windowSize > windowSize) this.#windowSize -= this.#window.shift()!.size;
  }
}

const isAfter = ([events, part]: LivePlace, [otherEvents, otherPart]: LivePlace) =>
  events > otherEvents || (events === otherEvents && part > otherPart);
