/** Shared windows in the memory of a test, written for reading: what a store's own must do too. */
import type { Beat, SharedWindows, WindowAsk, WindowState, WindowTimes } from "../../src/store/shared-windows.ts";

type Hold = { held: number; number: number; report: number; wanted: boolean };
type Caller = { readonly uses: { at: number; hits: number }[]; readonly holds: Map<string, Hold> };

export class ModelWindows implements SharedWindows {
  readonly #now: () => number;
  readonly #times: WindowTimes;
  readonly #lapses = new Map<string, number>();
  readonly #callers = new Map<string, Caller>();
  epoch = "1";

  constructor(now: () => number, times: WindowTimes) {
    this.#now = now;
    this.#times = times;
  }

  /** As a restart does that keeps nothing. */
  wipe(): void {
    this.#lapses.clear();
    this.#callers.clear();
    this.epoch += "1";
  }

  async beat(node: string, isNew: boolean): Promise<Beat | undefined> {
    const now = this.#now();
    if (!isNew && !this.#lives(node)) return undefined;
    this.#lapses.set(node, now + this.#times.leaseMs);
    const live = [...this.#lapses.keys()].filter((one) => this.#lives(one));
    const wanted = [...this.#callers].filter(([, { holds }]) => holds.get(node)?.wanted).map(([caller]) => caller);
    const rank = live.filter((one) => one < node).length;
    return { leaseMs: this.#times.leaseMs, nodes: live.length, rank, wanted, epoch: this.epoch };
  }

  async exchange(node: string, asks: readonly WindowAsk[]): Promise<readonly WindowState[] | undefined> {
    return this.#lives(node) ? asks.map((ask) => this.#exchange(node, ask)) : undefined;
  }

  async leave(node: string): Promise<void> {
    this.#lapses.delete(node);
    for (const { holds } of this.#callers.values()) holds.delete(node);
  }

  async tidy(): Promise<void> {}
  async close(): Promise<void> {}

  #lives(node: string): boolean {
    return (this.#lapses.get(node) ?? 0) > this.#now();
  }

  #exchange(node: string, ask: WindowAsk): WindowState {
    const now = this.#now();
    const { windowMs } = this.#times;
    const { uses, holds } = this.#callers.get(ask.caller) ?? { uses: [], holds: new Map<string, Hold>() };
    this.#callers.set(ask.caller, { uses, holds });
    const mine = holds.get(node) ?? { held: 0, number: 0, report: 0, wanted: false };
    if (mine.number < ask.number && mine.report < ask.report) {
      mine.report = ask.report;
      for (const [age, hits] of ask.uses) {
        uses.push({ at: now - age, hits });
        mine.held = Math.max(0, mine.held - hits);
      }
    }
    const within = uses.filter(({ at }) => at > now - windowMs);
    const others = [...holds].filter(([name, { held }]) => name !== node && held > 0);
    const lapsed = others.filter(([name]) => !this.#lives(name) && (this.#lapses.get(name) ?? 0) > now - windowMs);
    const ends = [...within.map(({ at }) => at), ...lapsed.map(([name]) => this.#lapses.get(name)!)];
    const sum = (counts: number[]) => counts.reduce((total, one) => total + one, 0);
    const used = sum(within.map(({ hits }) => hits)) + sum(lapsed.map(([, { held }]) => held));
    const living = others.filter(([name]) => this.#lives(name));
    const held = sum(living.map(([, hold]) => hold.held));
    if (mine.number <= ask.number) {
      mine.number = ask.number;
      mine.wanted = false;
      this.#give(mine, ask, ask.limit - used - held - mine.held);
      if (mine.held < ask.waiting) for (const [, hold] of living) hold.wanted = true;
      holds.set(node, mine);
    }
    return {
      caller: ask.caller,
      held: mine.held,
      used,
      others: held,
      growsMs: ends.length === 0 ? null : Math.min(...ends) + windowMs - now,
    };
  }

  #give(mine: Hold, { want, waiting }: WindowAsk, room: number): void {
    if (want < mine.held) {
      mine.held = want;
      return;
    }
    const live = [...this.#lapses.keys()].filter((one) => this.#lives(one)).length;
    const free = Math.max(0, room);
    const due = Math.min(free, Math.max(0, waiting - mine.held));
    mine.held += Math.min(want - mine.held, due + Math.floor((free - due) / (2 * live)));
  }
}
