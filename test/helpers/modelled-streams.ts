/**
 * A server of live streams as its scripts make it, in memory: `src/store/live-streams.ts` tells what each does. How messages reach it,
 * and what becomes of them, is the way's matter.
 */
import {
  endPart,
  type LiveEntry,
  type LiveNews,
  type LivePlace,
  type LiveStreams,
  liveTimes,
} from "../../src/store/live-streams.ts";

type Stream = { entries: LiveEntry[]; until: number };
type Inbox = { readonly messages: { readonly id: number; readonly asked: string | undefined }[]; until: number };
type Waiter = {
  readonly node: string;
  readonly inbox: string;
  readonly streams: ReadonlyMap<string, LivePlace>;
  readonly tell: (news: LiveNews) => void;
};

const isAfter = ([events, part]: LivePlace, [otherEvents, otherPart]: LivePlace) =>
  events > otherEvents || (events === otherEvents && part > otherPart);

export class ModelledStreams {
  readonly #now: () => number;
  readonly #streams = new Map<string, Stream>();
  readonly #inboxes = new Map<string, Inbox>();
  readonly #owners = new Map<string, { readonly node: string; readonly until: number }>();
  readonly #waiters = new Set<Waiter>();
  /** Those who wait for a stream's entries, and for a node's inbox. */
  readonly #byStream = new Map<string, Set<Waiter>>();
  readonly #byNode = new Map<string, Set<Waiter>>();
  #messages = 0;

  /** @param now the server's clock, in milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** As FLUSHALL does, or another server that takes over with an older clock. */
  flush(): void {
    this.#messages = 0;
    this.#streams.clear();
    this.#inboxes.clear();
    this.#owners.clear();
  }

  /** As a server without memory does. @returns whether there was one */
  evict(pick: (names: string[]) => string): boolean {
    const names = [...this.#streams.keys()];
    return names.length > 0 && this.#streams.delete(pick(names));
  }

  /** Streams that are there. */
  get size(): number {
    return [...this.#streams.keys()].filter((name) => this.#find(name) !== undefined).length;
  }

  listen(node: string, owner: string | undefined): void {
    this.#tell(node, undefined);
    if (owner !== undefined) this.#owners.set(owner, { node, until: this.#now() + liveTimes.listensMs });
  }

  ask(stream: string, owner: string, wakes: string | undefined): Awaited<ReturnType<LiveStreams["ask"]>> {
    if (wakes !== undefined) this.#tell(wakes, undefined);
    const at = this.#owners.get(owner);
    if (at === undefined || at.until <= this.#now()) return undefined;
    this.#tell(at.node, stream);
    const head = this.#keep(stream, liveTimes.keptMs)?.entries[0];
    return head?.kind === "head" ? { head } : {};
  }

  begin(stream: string, generation: number, headers: string | undefined): void {
    const first = this.#find(stream)?.entries[0];
    if (first?.kind === "head" && first.place[1] >= generation) return;
    this.#streams.set(stream, { entries: [], until: 0 });
    this.#add(stream, { kind: "head", place: [0, generation], headers });
  }

  append(stream: string, firstId: number, count: number, text: string, floor: number): number | undefined {
    const last = this.#find(stream)?.entries.at(-1);
    if (last === undefined) return undefined;
    if (last.place[1] >= endPart) return firstId + count;
    this.#keep(stream, liveTimes.keptMs);
    const expected = Math.max(last.place[0], floor);
    if (count === 0 && floor > last.place[0])
      this.#add(stream, { kind: "head", place: [floor, 0], headers: undefined });
    if (count === 0 || firstId !== expected) return expected;
    this.#add(stream, { kind: "events", place: [firstId + count, 0], firstId, text });
    return firstId + count;
  }

  end(stream: string, events: number | undefined): void {
    const last = this.#find(stream)?.entries.at(-1);
    if (last === undefined || last.place[1] >= endPart) return;
    const isWhole = events !== undefined && events >= last.place[0];
    this.#add(stream, { kind: isWhole ? "finished" : "look", place: [isWhole ? events : last.place[0], endPart] });
    this.#keep(stream, liveTimes.endedMs);
  }

  read(stream: string, after: LivePlace, most = 64): LiveEntry[] {
    return (this.#find(stream)?.entries ?? []).filter(({ place }) => isAfter(place, after)).slice(0, most);
  }

  /** @param tell called once, when there is news or the wait was cancelled. @returns how to cancel it */
  wait(
    node: string,
    inbox: string,
    streams: ReadonlyMap<string, LivePlace>,
    tell: (news: LiveNews) => void,
  ): () => void {
    const waiter: Waiter = { node, inbox, streams, tell };
    this.#waiters.add(waiter);
    addTo(this.#byNode, node, waiter);
    for (const stream of streams.keys()) addTo(this.#byStream, stream, waiter);
    this.#serve(waiter);
    return () => {
      if (this.#remove(waiter)) tell({ inbox, messages: 0, asked: [], entries: new Map() });
    };
  }

  #serve(waiter: Waiter): void {
    const { node, inbox, streams, tell } = waiter;
    const box = this.#inboxes.get(node);
    const isThere = box !== undefined && box.until > this.#now();
    const messages = isThere ? box.messages.filter(({ id }) => id > Number(inbox)) : [];
    const entries = new Map<string, LiveEntry[]>();
    for (const [stream, after] of streams) {
      const found = this.read(stream, after);
      if (found.length > 0) entries.set(stream, found);
    }
    if (messages.length === 0 && entries.size === 0) return;
    this.#remove(waiter);
    const asked = messages.flatMap(({ asked }) => (asked === undefined ? [] : [asked]));
    tell({ inbox: String(messages.at(-1)?.id ?? inbox), messages: messages.length, asked, entries });
  }

  /** @returns whether it waited */
  #remove(waiter: Waiter): boolean {
    takeFrom(this.#byNode, waiter.node, waiter);
    for (const stream of waiter.streams.keys()) takeFrom(this.#byStream, stream, waiter);
    return this.#waiters.delete(waiter);
  }

  #serveThose(waiters: ReadonlySet<Waiter> | undefined): void {
    for (const waiter of [...(waiters ?? [])]) this.#serve(waiter);
  }

  #find(stream: string): Stream | undefined {
    const found = this.#streams.get(stream);
    if (found !== undefined && found.until > this.#now()) return found;
    this.#streams.delete(stream);
    return undefined;
  }

  #keep(stream: string, ms: number): Stream | undefined {
    const found = this.#find(stream);
    if (found !== undefined) found.until = this.#now() + ms;
    return found;
  }

  #add(stream: string, entry: LiveEntry): void {
    const found = this.#streams.get(stream)!;
    found.entries.push(entry);
    found.until = this.#now() + liveTimes.keptMs;
    this.#serveThose(this.#byStream.get(stream));
  }

  #tell(node: string, asked: string | undefined): void {
    let box = this.#inboxes.get(node);
    if (box === undefined || box.until <= this.#now()) {
      box = { messages: [], until: 0 };
      this.#inboxes.set(node, box);
    }
    box.messages.push({ id: ++this.#messages, asked });
    box.until = this.#now() + liveTimes.listensMs;
    this.#serveThose(this.#byNode.get(node));
  }
}

function addTo(waiters: Map<string, Set<Waiter>>, name: string, waiter: Waiter): void {
  const those = waiters.get(name) ?? new Set();
  those.add(waiter);
  waiters.set(name, those);
}

function takeFrom(waiters: Map<string, Set<Waiter>>, name: string, waiter: Waiter): void {
  const those = waiters.get(name);
  those?.delete(waiter);
  if (those?.size === 0) waiters.delete(name);
}
