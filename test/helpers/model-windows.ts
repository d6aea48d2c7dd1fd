/** Shared windows in the memory of a test: what a store's own must do too. Made for thousands of nodes, so nothing is looked for one by one. */
import {
  type Beat,
  maxWanted,
  type SharedWindows,
  type WindowAsk,
  type WindowState,
  type WindowTimes,
  windowParts,
} from "../../src/store/shared-windows.ts";

/** What a node holds of a caller. */
type Hold = { held: number; number: number; report: number };
type Use = { readonly at: number; hits: number };
type Caller = {
  /** By time; those before `first` count no more. */
  readonly uses: Use[];
  first: number;
  /** Hits that still count. */
  used: number;
  readonly holds: Map<string, Hold>;
  /** The nodes that hold slots. */
  readonly holders: Set<string>;
};

/** Bugs that a simulation puts in on purpose. */
export type WindowBug = "slots-of-lapsed-nodes-are-free" | "equal-ranks" | "reports-are-lost";

export class ModelWindows implements SharedWindows {
  readonly #now: () => number;
  readonly #times: WindowTimes;
  readonly #bugs: ReadonlySet<string>;
  #lapses = new Map<string, number>();
  /** Those whose lease holds, in order, until one of them may have lapsed. */
  #live: string[] = [];
  #liveUntil = Number.NEGATIVE_INFINITY;
  #callers = new Map<string, Caller>();
  /** By node: callers for whom others need its slots. */
  #wanted = new Map<string, Set<string>>();
  epoch = "1";

  constructor(now: () => number, times: WindowTimes, bugs: ReadonlySet<string> = new Set()) {
    this.#now = now;
    this.#times = times;
    this.#bugs = bugs;
  }

  /** @returns how to go back to what it has now */
  copy(): () => void {
    const [lapses, callers, wanted] = structuredClone([this.#lapses, this.#callers, this.#wanted] as const);
    const { epoch } = this;
    return () => {
      [this.#lapses, this.#callers, this.#wanted, this.epoch] = [lapses, callers, wanted, epoch];
      this.#liveUntil = Number.NEGATIVE_INFINITY;
    };
  }

  /** As a restart does that keeps nothing. */
  wipe(): void {
    this.#lapses.clear();
    this.#callers.clear();
    this.#wanted.clear();
    this.#liveUntil = Number.NEGATIVE_INFINITY;
    this.epoch += "1";
  }

  async beat(node: string, isNew: boolean, counts: boolean): Promise<Beat | undefined> {
    return this.beatNow(node, isNew, counts);
  }

  beatNow(node: string, isNew: boolean, counts: boolean): Beat | undefined {
    const now = this.#now();
    const { leaseMs } = this.#times;
    if (!this.#lives(node)) {
      if (!isNew) return undefined;
      this.#liveUntil = Number.NEGATIVE_INFINITY;
    }
    let lapsesAt = this.#lapses.get(node) ?? now;
    // Most beats only look.
    if (lapsesAt - now < (leaseMs * 3) / 4) lapsesAt = now + leaseMs;
    this.#lapses.set(node, lapsesAt);
    const wanted = [...(this.#wanted.get(node) ?? [])].slice(0, maxWanted);
    const beat = { leaseMs: lapsesAt - now, wanted, epoch: this.epoch };
    if (!counts) return beat;
    const live = this.#liveNodes();
    const rank = this.#bugs.has("equal-ranks") ? 0 : placeIn(live, node);
    return { ...beat, group: { nodes: live.length, rank } };
  }

  async exchange(node: string, asks: readonly WindowAsk[]): Promise<readonly WindowState[] | undefined> {
    return this.exchangeNow(node, asks);
  }

  exchangeNow(node: string, asks: readonly WindowAsk[]): readonly WindowState[] | undefined {
    return this.#lives(node) ? asks.map((ask) => this.#exchange(node, ask)) : undefined;
  }

  async leave(node: string): Promise<void> {
    this.leaveNow(node);
  }

  leaveNow(node: string): void {
    this.#lapses.delete(node);
    this.#wanted.delete(node);
    this.#liveUntil = Number.NEGATIVE_INFINITY;
    for (const { holds, holders } of this.#callers.values()) {
      holds.delete(node);
      holders.delete(node);
    }
  }

  async tidy(): Promise<void> {}
  async close(): Promise<void> {}

  #lives(node: string): boolean {
    return (this.#lapses.get(node) ?? 0) > this.#now();
  }

  #liveNodes(): readonly string[] {
    const now = this.#now();
    if (now >= this.#liveUntil) {
      const live = [...this.#lapses].filter(([, lapsesAt]) => lapsesAt > now);
      this.#live = live.map(([node]) => node).sort();
      this.#liveUntil = live.reduce((least, [, lapsesAt]) => Math.min(least, lapsesAt), Number.POSITIVE_INFINITY);
    }
    return this.#live;
  }

  #callerOf(name: string): Caller {
    let caller = this.#callers.get(name);
    if (caller === undefined) {
      caller = { uses: [], first: 0, used: 0, holds: new Map(), holders: new Set() };
      this.#callers.set(name, caller);
    }
    return caller;
  }

  #exchange(node: string, ask: WindowAsk): WindowState {
    const now = this.#now();
    const { windowMs } = this.#times;
    const caller = this.#callerOf(ask.caller);
    const mine = caller.holds.get(node) ?? { held: 0, number: -1, report: -1 };
    expire(caller, now - windowMs);
    if (mine.number < ask.number && mine.report < ask.report) {
      mine.report = ask.report;
      this.#report(caller, mine, ask.uses);
    }
    let [others, lapsed, oldest] = [0, 0, caller.uses[caller.first]?.at ?? Number.POSITIVE_INFINITY];
    const living: string[] = [];
    for (const name of caller.holders) {
      if (name === node) continue;
      const { held } = caller.holds.get(name)!;
      const lapsesAt = this.#lapses.get(name) ?? 0;
      if (lapsesAt > now) {
        others += held;
        living.push(name);
      } else if (lapsesAt > now - windowMs && !this.#bugs.has("slots-of-lapsed-nodes-are-free")) {
        lapsed += held;
        oldest = Math.min(oldest, lapsesAt);
      } else if (lapsesAt <= now - windowMs) {
        caller.holds.delete(name);
        caller.holders.delete(name);
      }
    }
    const used = caller.used + lapsed;
    if (mine.number <= ask.number) {
      mine.number = ask.number;
      this.#wanted.get(node)?.delete(ask.caller);
      this.#give(mine, ask, ask.limit - used - others - mine.held);
      if (mine.held < ask.waiting) for (const name of living) this.#want(name, ask.caller);
    }
    caller.holds.set(node, mine);
    if (mine.held > 0) caller.holders.add(node);
    else caller.holders.delete(node);
    const growsMs = used === 0 ? null : Math.max(1, oldest + windowMs - now);
    return { caller: ask.caller, held: mine.held, used, others, growsMs };
  }

  /** At the end of their part of the window, so that none is forgotten too early. */
  #report(caller: Caller, mine: Hold, uses: WindowAsk["uses"]): void {
    const now = this.#now();
    const { windowMs } = this.#times;
    const part = Math.max(1, Math.floor(windowMs / windowParts));
    for (const [age, hits] of uses) {
      mine.held = Math.max(0, mine.held - hits);
      if (age < windowMs && !this.#bugs.has("reports-are-lost"))
        count(caller, Math.ceil((now - age) / part) * part, hits);
    }
  }

  #want(node: string, caller: string): void {
    const wanted = this.#wanted.get(node) ?? new Set();
    wanted.add(caller);
    this.#wanted.set(node, wanted);
  }

  #give(mine: Hold, { want, waiting }: WindowAsk, room: number): void {
    if (want < mine.held) {
      mine.held = want;
      return;
    }
    const free = Math.max(0, room);
    const due = Math.min(free, Math.max(0, waiting - mine.held));
    mine.held += Math.min(want - mine.held, due + Math.floor((free - due) / (2 * this.#liveNodes().length)));
  }
}

function count(caller: Caller, at: number, hits: number): void {
  const { uses } = caller;
  let place = uses.length;
  while (place > caller.first && uses[place - 1]!.at > at) place -= 1;
  const before = uses[place - 1];
  if (place > caller.first && before!.at === at) before!.hits += hits;
  else uses.splice(place, 0, { at, hits });
  caller.used += hits;
}

function expire(caller: Caller, until: number): void {
  const { uses } = caller;
  while (caller.first < uses.length && uses[caller.first]!.at <= until) {
    caller.used -= uses[caller.first]!.hits;
    caller.first += 1;
  }
  if (caller.first > 1_000) {
    uses.splice(0, caller.first);
    caller.first = 0;
  }
}

/** @returns how many come before it in an ordered list */
function placeIn(names: readonly string[], name: string): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (names[middle]! < name) low = middle + 1;
    else high = middle;
  }
  return low;
}
