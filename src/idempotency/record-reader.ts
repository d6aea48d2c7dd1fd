/**
 * Reads a call by its record: one that has finished, or one that another process makes. The store has all of it in the end, and all the
 * while where the holder is asked for that; where live streams reach both, events come by them, and the store is only asked now and
 * then. Both number the events of one run alike, so it reads on by either at any event, and neither repeats nor leaves out one.
 */
import type { Clock } from "../lib/clock.ts";
import type { IdempotencyRecord } from "../store/store.ts";
import type { Answer, RecordedEvents } from "../upstream/answer.ts";
import { endOf, takeFailure } from "./failure-record.ts";
import type { FollowedStream } from "./followed-stream.ts";
import type { LiveRuns } from "./live-runs.ts";
import { withIds } from "./recorded-events.ts";
import { interrupted } from "./run-errors.ts";
import type { StoredRecords } from "./stored-records.ts";

export type RecordReaderOptions = {
  readonly call: IdempotencyRecord;
  readonly records: StoredRecords;
  readonly live: LiveRuns | undefined;
  readonly clock: Clock;
  /** Number of the first event that is wanted. */
  readonly from: number;
  readonly signal: AbortSignal;
  /** For how long a store that fails is waited for while events come live. */
  readonly patienceMs: number;
  /** Called once, when nobody reads it any more. */
  readonly onClosed: (reader: RecordReader) => void;
};

/** Interval at which the record is read while events come live. */
const checkMs = 1_000;
/** After this time without an event that came live, such a check reads events too that the store may have. */
const silentMs = 300;

export class RecordReader {
  readonly #options: RecordReaderOptions;
  readonly #clock: Clock;
  #followed: FollowedStream | undefined;
  #record: IdempotencyRecord;
  #checkedAt: number;
  #isChecking = false;
  #isGone = false;
  /** The failure of checks while events come live. */
  #failure: { readonly error: unknown; readonly since: number } | undefined;
  /** Events that a check found. */
  #stored: { readonly firstId: number; readonly events: string[] } | undefined;
  #isWatched = false;
  /** The holder writes to the store what does not come live. */
  #isBehind = false;
  /** An event that the stream has left out. */
  #gapAt = -1;
  #cameAt: number;
  #isLive = true;
  #isWoken = false;
  #wake = () => {};
  #isClosed = false;

  constructor(options: RecordReaderOptions) {
    const { call, live, clock, from, signal } = options;
    this.#options = options;
    this.#clock = clock;
    this.#record = call;
    this.#checkedAt = clock.monotonic();
    this.#cameAt = this.#checkedAt;
    this.#followed = call.state === "running" ? live?.follow(call, from, this.#onChange) : undefined;
    signal.addEventListener("abort", this.#close, { once: true });
  }

  /** True if it is read live, as far as is known. */
  get isLive(): boolean {
    return this.#followed !== undefined && this.#isLive;
  }

  /**
   * Waits for the beginning of the answer.
   * @returns undefined when the call ended without an answer
   * @throws the signal's reason; ApiError storage_unavailable; what the call threw
   */
  async answer(): Promise<Answer<RecordedEvents> | undefined> {
    try {
      for (;;) {
        this.#options.signal.throwIfAborted();
        this.#isWoken = false;
        if (this.#isGone) break;
        const { records } = this.#options;
        const isFinished = this.#record.state === "finished";
        if (isFinished) this.#unfollow();
        if (isFinished && this.#record.events === null) {
          const answer = await records.wholeAnswer(this.#record);
          this.#close();
          return answer;
        }
        const json = this.#followed?.headers ?? this.#record.headers;
        if (json === null && !isFinished) {
          await this.#step(undefined);
          continue;
        }
        const headers = await records.headersOf(this.#record, json);
        takeFailure(headers);
        if (isFinished) await this.#readFirst();
        return { kind: "stream", headers, events: this.#events() };
      }
      this.#close();
      return undefined;
    } catch (error) {
      this.#close();
      throw error;
    }
  }

  /** Reads the first events of a finished stream, so that damage at its beginning is found before the answer begins. */
  async #readFirst(): Promise<void> {
    const { records, from } = this.#options;
    const first = this.#firstOf(from);
    if (first < this.#record.events!)
      this.#stored = { firstId: first, events: await records.eventsOf(this.#record, first) };
  }

  /** A number beyond a finished stream can't be of this call: it is read from its beginning. */
  #firstOf(from: number): number {
    return this.#record.state === "finished" && from > this.#record.events! ? 0 : from;
  }

  /** @throws ApiError upstream_unavailable when the call is interrupted, storage_unavailable */
  async *#events(): RecordedEvents {
    let next = this.#firstOf(this.#options.from);
    try {
      for (;;) {
        if (this.#options.signal.aborted) return "cancelled";
        this.#isWoken = false;
        if (this.#isGone) throw interrupted();
        const events = (await this.#cameLive(next)) ?? this.#takeStored(next);
        if (events !== undefined) {
          if (this.#isReadLive(next)) this.#checkIfDue(next);
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

  readonly #close = () => {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { signal, onClosed } = this.#options;
    signal.removeEventListener("abort", this.#close);
    this.#unfollow();
    onClosed(this);
    this.#onChange();
  };

  #unfollow(): void {
    if (this.#followed !== undefined) this.#options.live!.leave(this.#followed, this.#onChange);
    this.#followed = undefined;
  }

  readonly #onChange = () => {
    this.#isWoken = true;
    this.#wake();
  };

  #isAll(next: number): boolean {
    // Nothing but its error is left of a stream that was not stored.
    if (this.#record.state === "finished" && this.#record.events === null) return true;
    const total = this.#followed?.total ?? (this.#record.state === "finished" ? this.#record.events : undefined);
    return total != null && next >= total;
  }

  /** Events that came live. */
  async #cameLive(next: number): Promise<string[] | undefined> {
    let events = this.#followed?.from(next);
    if (events === "behind" && this.#gapAt !== next)
      events = (await this.#options.live!.read(this.#followed!, next)) ?? "behind";
    if (events === "behind") this.#gapAt = next;
    if (events === undefined || events === "behind") return undefined;
    this.#cameAt = this.#clock.monotonic();
    this.#isBehind = false;
    return events;
  }

  /** Events that were in the store. */
  #takeStored(next: number): string[] | undefined {
    const stored = this.#stored;
    this.#stored = undefined;
    return stored?.firstId === next ? stored.events : undefined;
  }

  /** True if what comes next is waited for live. */
  #isReadLive(next: number | undefined): boolean {
    const followed = this.#followed;
    if (followed === undefined || followed.isOver || this.#record.state !== "running") return false;
    this.#isLive = this.#options.live!.isFollowing(followed) && !this.#isBehind && this.#gapAt !== next;
    return this.#isLive;
  }

  /** Waits for what comes next, or reads it from the store. @throws ApiError storage_unavailable */
  async #step(next: number | undefined): Promise<void> {
    if (this.#isReadLive(next)) {
      this.#checkIfDue(next);
      const due = this.#checkedAt + checkMs - this.#clock.monotonic();
      await this.#woken(this.#options.live!.waitMs(this.#followed!) || (due > 0 ? due : checkMs));
      if (this.#failure !== undefined) this.#failLate(this.#failure);
      return;
    }
    // Events that a stream leaves out are there already.
    if (this.#gapAt !== next) await this.#watch();
    await this.#check(next, true);
    if (this.#hasNews(next)) return;
    await this.#watch();
    await this.#options.records.pause(this.#options.signal);
  }

  async #watch(): Promise<void> {
    if (this.#isWatched || this.#record.state !== "running") return;
    const { records, live, call } = this.#options;
    if (this.#followed?.isOver === false) live!.counts.fellBack += 1;
    await records.watch(call);
    this.#isWatched = true;
  }

  #hasNews(next: number | undefined): boolean {
    if (this.#isGone || this.#record.state === "finished") return true;
    return next === undefined ? this.#record.headers !== null : this.#stored !== undefined;
  }

  #failLate({ error, since }: { readonly error: unknown; readonly since: number }): void {
    if (this.#clock.monotonic() - since > this.#options.patienceMs) throw error;
  }

  #checkIfDue(next: number | undefined): void {
    const now = this.#clock.monotonic();
    if (this.#isChecking || now - this.#checkedAt < checkMs) return;
    this.#isChecking = true;
    const isSilent = now - this.#cameAt >= silentMs;
    void this.#check(next, isSilent)
      .then(
        () => {
          this.#failure = undefined;
          // It is in the store, and did not come live.
          if (isSilent && this.#stored !== undefined) this.#isBehind = true;
        },
        (error) => {
          this.#failure = { error, since: this.#failure?.since ?? now };
        },
      )
      .finally(() => {
        this.#isChecking = false;
        this.#onChange();
      });
  }

  /** Reads the record, and events where they are to be in the store. @throws ApiError storage_unavailable */
  async #check(next: number | undefined, forEvents: boolean): Promise<void> {
    this.#checkedAt = this.#clock.monotonic();
    const { records, call } = this.#options;
    const found = await records.find(call);
    if (found === undefined) {
      this.#isGone = true;
      return;
    }
    this.#record = found;
    if (next === undefined || !forEvents || found.headers === null) return;
    if (found.state === "finished" && (found.events === null || next >= found.events)) return;
    const events = await records.eventsOf(found, next);
    if (events.length > 0) this.#stored = { firstId: next, events };
  }

  /** Resolves when there may be something new, or after that time. */
  #woken(ms: number): Promise<void> {
    if (this.#isWoken) return Promise.resolve();
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
