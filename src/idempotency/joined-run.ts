/**
 * Reads a call that another process makes. The store has all of it in the end, and all the while where the holder is asked for that;
 * where live streams reach both, events come by them, and the store is only looked at now and then. Both number the events of one
 * run alike, so it reads on by either way at any event, and neither repeats nor leaves out one.
 */
import type { Clock } from "../lib/clock.ts";
import type { IdempotencyRecord } from "../store/store.ts";
import type { RecordedEvents } from "../upstream/answer.ts";
import { lost } from "./in-flight-run.ts";
import type { FollowedReader, LiveRuns } from "./live-runs.ts";
import { withIds } from "./recorded-events.ts";
import { endOf } from "./told-failure.ts";

/** The store, as a reader needs it. */
export type JoinedRecords = {
  /** @returns undefined once the call has ended without an answer. @throws ApiError storage_unavailable */
  find(): Promise<IdempotencyRecord | undefined>;
  /** Of a finished call at least one. @throws ApiError storage_unavailable */
  eventsOf(call: IdempotencyRecord, number: number): Promise<string[]>;
  /** Has the holder write events as they come. @throws ApiError storage_unavailable */
  watch(): Promise<void>;
  /** Waits until the record may have changed, and not for long. */
  pause(): Promise<void>;
};

export type JoinedRunOptions = {
  readonly call: IdempotencyRecord;
  readonly records: JoinedRecords;
  readonly live: LiveRuns | undefined;
  readonly clock: Clock;
  /** Number of the first event that is wanted. */
  readonly from: number;
  readonly signal: AbortSignal;
  /** For how long a store that fails is waited for while events come live. */
  readonly patienceMs: number;
  /** Called once, when nobody reads it any more. */
  readonly onClosed: (run: JoinedRun) => void;
};

/** How often the record is looked at while events come live. */
const lookMs = 1_000;
/** Where nothing came live for so long, a look is for events too that the store may have. */
const silentMs = 300;

export class JoinedRun {
  readonly #options: JoinedRunOptions;
  readonly #clock: Clock;
  readonly #live: FollowedReader | undefined;
  #record: IdempotencyRecord;
  #lookedAt: number;
  #isLooking = false;
  #isGone = false;
  /** Of looks, while events come live. */
  #failure: { readonly error: unknown; readonly since: number } | undefined;
  /** Events that a look found. */
  #rows: { readonly firstId: number; readonly events: string[] } | undefined;
  #isWatched = false;
  /** The holder writes to the store what does not come live. */
  #isBehind = false;
  /** An event that the stream has left out. */
  #gapAt = -1;
  #heardAt: number;
  #isLive = true;
  #isRung = false;
  #wake = () => {};
  #isClosed = false;

  constructor(options: JoinedRunOptions) {
    const { call, live, clock, from, signal } = options;
    this.#options = options;
    this.#clock = clock;
    this.#record = call;
    this.#lookedAt = clock.monotonic();
    this.#heardAt = this.#lookedAt;
    const { owner } = call;
    this.#live = owner === undefined ? undefined : live?.follow({ ...call, owner }, from, () => this.#ring());
    signal.addEventListener("abort", this.#close, { once: true });
  }

  /** Whether it is read live, as far as is known. */
  get isLive(): boolean {
    return this.#live !== undefined && this.#isLive;
  }

  /**
   * Waits for the beginning of the answer.
   * @returns the finished record, or a stream's headers; undefined when the call ended without an answer
   * @throws the signal's reason; ApiError storage_unavailable
   */
  async opened(): Promise<IdempotencyRecord | { readonly headers: string } | undefined> {
    for (;;) {
      this.#options.signal.throwIfAborted();
      this.#isRung = false;
      if (this.#isGone) return undefined;
      if (this.#record.state === "finished") return this.#record;
      const headers = this.#live?.headers ?? this.#record.headers;
      if (headers !== null) return { headers };
      await this.#step(undefined);
    }
  }

  /** @throws ApiError upstream_unavailable when the call is interrupted, storage_unavailable */
  async *events(): RecordedEvents {
    let next = this.#options.from;
    try {
      for (;;) {
        if (this.#options.signal.aborted) return "cancelled";
        this.#isRung = false;
        if (this.#isGone) throw lost();
        const events = (await this.#heard(next)) ?? this.#found(next);
        if (events !== undefined) {
          if (this.#goesLive(next)) this.#lookIfDue(next);
          yield withIds(events, this.#record, next);
          next += events.length;
        } else if (this.#isAll(next)) {
          return endOf(this.#record);
        } else {
          await this.#step(next);
        }
      }
    } finally {
      this.#close();
    }
  }

  close(): void {
    this.#close();
  }

  readonly #close = () => {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.signal.removeEventListener("abort", this.#close);
    this.#live?.close();
    this.#options.onClosed(this);
    this.#ring();
  };

  #ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  #isAll(next: number): boolean {
    // Of a stream that was not kept nothing but its error is left.
    if (this.#record.state === "finished" && this.#record.events === null) return true;
    const total = this.#live?.total ?? (this.#record.state === "finished" ? this.#record.events : undefined);
    return total != null && next >= total;
  }

  /** Events that came live. */
  async #heard(next: number): Promise<string[] | undefined> {
    let events = this.#live?.from(next);
    if (events === "behind" && this.#gapAt !== next) events = (await this.#live!.fetch(next)) ?? "behind";
    if (events === "behind") this.#gapAt = next;
    if (events === undefined || events === "behind") return undefined;
    this.#heardAt = this.#clock.monotonic();
    this.#isBehind = false;
    return events;
  }

  /** Events that were in the store. */
  #found(next: number): string[] | undefined {
    const rows = this.#rows;
    this.#rows = undefined;
    return rows?.firstId === next ? rows.events : undefined;
  }

  /** Whether what comes next is waited for live. */
  #goesLive(next: number | undefined): boolean {
    const live = this.#live;
    if (live === undefined || live.isOver || this.#record.state !== "running") return false;
    this.#isLive = live.isHeard && !this.#isBehind && this.#gapAt !== next;
    return this.#isLive;
  }

  /** Waits for what comes next, or looks for it. @throws ApiError storage_unavailable */
  async #step(next: number | undefined): Promise<void> {
    if (this.#goesLive(next)) {
      this.#lookIfDue(next);
      const due = this.#lookedAt + lookMs - this.#clock.monotonic();
      const ms = this.#live!.waitsMs || (due > 0 ? due : lookMs);
      await this.#rung(ms);
      if (this.#failure !== undefined) this.#failLate(this.#failure);
      return;
    }
    // What a stream leaves out is there already.
    if (this.#gapAt !== next) await this.#watch();
    await this.#look(next, true);
    if (this.#hasNews(next)) return;
    await this.#watch();
    await this.#options.records.pause();
  }

  async #watch(): Promise<void> {
    if (this.#isWatched || this.#record.state !== "running") return;
    if (this.#live?.isOver === false) this.#live.fellBack();
    await this.#options.records.watch();
    this.#isWatched = true;
  }

  #hasNews(next: number | undefined): boolean {
    if (this.#isGone || this.#record.state === "finished") return true;
    return next === undefined ? this.#record.headers !== null : this.#rows !== undefined;
  }

  #failLate({ error, since }: { readonly error: unknown; readonly since: number }): void {
    if (this.#clock.monotonic() - since > this.#options.patienceMs) throw error;
  }

  #lookIfDue(next: number | undefined): void {
    const now = this.#clock.monotonic();
    if (this.#isLooking || now - this.#lookedAt < lookMs) return;
    this.#isLooking = true;
    const isSilent = now - this.#heardAt >= silentMs;
    void this.#look(next, isSilent)
      .then(
        () => {
          this.#failure = undefined;
          // It is in the store, and did not come live.
          if (isSilent && this.#rows !== undefined) this.#isBehind = true;
        },
        (error) => {
          this.#failure = { error, since: this.#failure?.since ?? now };
        },
      )
      .finally(() => {
        this.#isLooking = false;
        this.#ring();
      });
  }

  /** Looks at the record, and for events where they are to be in the store. @throws ApiError storage_unavailable */
  async #look(next: number | undefined, forEvents: boolean): Promise<void> {
    this.#lookedAt = this.#clock.monotonic();
    const { records } = this.#options;
    const found = await records.find();
    if (found === undefined) {
      this.#isGone = true;
      return;
    }
    this.#record = found;
    if (next === undefined || !forEvents || found.headers === null) return;
    if (found.state === "finished" && (found.events === null || next >= found.events)) return;
    const events = await records.eventsOf(found, next);
    if (events.length > 0) this.#rows = { firstId: next, events };
  }

  /** Resolves when there may be something new, or after that time. */
  #rung(ms: number): Promise<void> {
    if (this.#isRung) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#clock.setTimer(ms, () => this.#wake());
      this.#wake = () => {
        cancel();
        this.#wake = () => {};
        resolve();
      };
    });
  }
}
