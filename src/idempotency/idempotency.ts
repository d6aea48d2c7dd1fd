/**
 * Idempotency by `service-request-id`: makes one upstream call for each id, however many callers race in this process and in
 * others on the same data folder. Callers join a running call; callers of a finished one get its stored bytes.
 */
import type { Config } from "../config/config.ts";
import { BriefMap } from "../lib/process/brief-map.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import { hourMs } from "../lib/time/duration.ts";
import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "../store/contract/storage-error.ts";
import type { IdempotencyRecord, Lease, NewCall, RunRepository } from "../store/contract/store.ts";
import { asUnavailable, needsStorage } from "../store/require-storage.ts";
import type { Answer, Producer, RecordedEvents } from "../upstream/answer.ts";
import { type CallName, type Claim, callKeyOf } from "./call-name.ts";
import { Effects } from "./effects.ts";
import { InFlightRun, type RunEnd } from "./in-flight-run.ts";
import { PendingWrites } from "./pending-writes.ts";
import { RecordReader } from "./record-reader.ts";
import { firstWanted } from "./recorded-events.ts";
import { unsaved } from "./run-errors.ts";
import { StoredRecords } from "./stored-records.ts";
import { UnreadPace } from "./unread-pace.ts";

export type IdempotentAnswer = {
  readonly answer: Answer<RecordedEvents>;
  /** True if the answer comes from the stored record of a finished call. */
  readonly replayed: boolean;
  /** True if this caller joined a call that was still running. */
  readonly joined: boolean;
};

type JoinOptions = {
  readonly lastEventId?: string | undefined;
  /** Called with whether this caller now waits for another's call: what it throws from then on is that call's. */
  readonly onWait?: (isOther: boolean) => void;
};

/** An answer longer than `recordBytes` is not stored: it goes to its current readers only, and its id is released. */
export type IdempotencyRules = Config["idempotency"];

/** Interval for finding readers in other processes and flushing events to the store for them. */
const tickMs = 200;
const maxRunning = 10_000;

export class Idempotency {
  readonly #rows: RunRepository;
  readonly #clock: Clock;
  readonly #rules: () => IdempotencyRules;
  readonly #log: Logger | undefined;
  /** By scope and request id. */
  readonly #runs = new BriefMap<InFlightRun>();
  readonly #pace: UnreadPace;
  readonly #records: StoredRecords;
  /** Calls of other processes that are read here. */
  readonly #joined = new Set<RecordReader>();
  /** Claims that are being written, by the same key. */
  readonly #claiming = new BriefMap<Promise<void>>();
  readonly #pending: PendingWrites;
  /** Background writes, awaited by `close`. */
  readonly #writes = new Set<Promise<void>>();
  /** The time at which the leases were last renewed, or it was tried; a monotonic reading. */
  #renewedAt = 0;
  #cancelTick: (() => void) | undefined;
  #closed = false;
  #idle: (() => void)[] = [];

  /** Counters since the start: ids released by errors and cancellation, interrupted calls found, failed writes. */
  readonly counts = { released: 0, interrupted: 0, storeFailures: 0 };

  /** @param rules read for each call, as a reload may change them */
  constructor(store: { readonly runs: RunRepository }, clock: Clock, rules: () => IdempotencyRules, log?: Logger) {
    this.#rows = store.runs;
    this.#clock = clock;
    this.#rules = rules;
    this.#log = log;
    this.#pace = new UnreadPace(clock);
    this.#pending = new PendingWrites(store.runs, clock);
    this.#records = new StoredRecords({
      rows: store.runs,
      clock,
      log,
      interruptAbandoned: () => this.interruptAbandoned(),
      discard: (call) => this.#tryStoring(() => this.#rows.discard(call)),
    });
  }

  /** Marks the running calls of dead processes as interrupted. @throws StorageError */
  async interruptAbandoned(): Promise<void> {
    const calls = await this.#rows.interruptAbandoned(this.#clock.now());
    this.counts.interrupted += calls;
    if (calls > 0) this.#log?.warn("calls of a process that ended were interrupted; a retry calls anew", { calls });
  }

  /** Number of running calls, those that run on after a disconnect included. */
  get running(): number {
    return this.#runs.size;
  }

  /** Readers of calls of other processes. */
  get joined(): number {
    return this.#joined.size;
  }

  /**
   * Answers a request that has an id: calls, joins a running call, or reads the store. Anything but a finished 2xx releases the
   * id.
   * @param clientSignal must abort when this caller disconnects; the call itself may run on
   * @param produce makes the upstream call; called at most once
   * @throws what `produce` throws; the signal's reason; ApiError idempotency_key_reused, storage_unavailable, overloaded
   */
  async run(
    claim: Claim,
    clientSignal: AbortSignal,
    produce: Producer,
    options: JoinOptions = {},
  ): Promise<IdempotentAnswer> {
    for (;;) {
      clientSignal.throwIfAborted();
      const key = callKeyOf(claim);
      const running = this.#runs.get(key);
      if (running !== undefined) {
        if (running.fingerprint !== claim.fingerprint) throw ApiError.idempotencyKeyReused();
        if (running.isOver && this.#canLapse) {
          await this.#savePending();
          if (this.#runs.get(key) === running) throw unsaved();
          continue;
        }
        const replayed = running.isOver;
        options.onWait?.(!replayed);
        const answer = await running.join(clientSignal, firstWanted(running.id, options.lastEventId));
        return { answer, replayed, joined: !replayed };
      }
      const claiming = this.#claiming.get(key);
      if (claiming !== undefined) {
        await claiming;
        continue;
      }
      const { found, isFree } = await needsStorage(() => this.#look(claim));
      // Another caller claimed the id meanwhile.
      if (this.#runs.has(key) || this.#claiming.has(key)) continue;
      if (found === undefined || isFree) {
        options.onWait?.(false);
        const run = await this.#claim(key, claim, found, clientSignal, produce);
        if (run === undefined) continue; // Another process claimed the id.
        return { answer: await run.join(clientSignal, 0), replayed: false, joined: false };
      }
      if (found.fingerprint !== claim.fingerprint) throw ApiError.idempotencyKeyReused();
      const from = firstWanted(found, options.lastEventId);
      const isFinished = found.state === "finished";
      options.onWait?.(!isFinished);
      const answer = await this.#read(found, from, clientSignal);
      if (answer !== undefined) return { answer, replayed: isFinished, joined: !isFinished };
      // The other process' call ended without an answer: try to claim the id.
    }
  }

  /**
   * Starts a call that nobody waits for: it runs on without readers, and `join` reads it. Anything but a finished 2xx releases
   * the id.
   * @param claim its id must be new
   * @param ended called once with how the call ended, also when this closes
   * @throws ApiError storage_unavailable, overloaded, draining
   */
  async begin(claim: Claim, produce: Producer, ended: (how: RunEnd) => void): Promise<void> {
    const nobody = new AbortController().signal;
    const run = await this.#claim(callKeyOf(claim), claim, undefined, nobody, produce, ended);
    if (run === undefined) throw ApiError.internal("a new call's id was taken");
  }

  /**
   * Reads a running or finished call, and never calls.
   * @returns undefined where there is none, or it ended without an answer
   * @throws the signal's reason; ApiError storage_unavailable, overloaded
   */
  async join(id: CallName, signal: AbortSignal): Promise<Answer<RecordedEvents> | undefined> {
    const running = this.#runs.get(callKeyOf(id));
    if (running !== undefined) return running.join(signal, 0);
    const found = await needsStorage(() => this.#rows.find(id.scope, id.requestId));
    if (found === undefined || this.#isFree(found)) return undefined;
    return this.#read(found, 0, signal);
  }

  /** What a call may record before it does what must not be done twice. */
  effectsOf(id: CallName): Effects {
    return new Effects(this.#rows, this.#clock, id, () => this.#rules().retentionHours * hourMs);
  }

  /** True if a call runs, in any process. @throws ApiError storage_unavailable */
  async runs(id: CallName): Promise<boolean> {
    if (this.#runs.has(callKeyOf(id))) return true;
    const found = await needsStorage(() => this.#rows.find(id.scope, id.requestId));
    return found?.state === "running" && found.heldBy === "other";
  }

  /** Cancels a call of this process and releases its id. */
  cancel(id: CallName): void {
    this.#runs.get(callKeyOf(id))?.cancel();
  }

  /** Resolves when no call is running. */
  async settled(): Promise<void> {
    while (this.#runs.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Cancels the running calls and releases their ids. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const run of [...this.#runs.values()]) run.cancel();
    this.#runs.clear();
    this.#pending.clear();
    this.#pace.close();
    this.#cancelTick?.();
    await Promise.all(this.#writes);
  }

  /** True if another process may take over a call of this one while it lives. */
  get #canLapse(): boolean {
    return this.#rows.leaseTerms.lapseMs !== undefined;
  }

  /** Finds the record that holds the id, and whether the id may be claimed anew. @throws StorageError */
  async #look({ scope, requestId }: Claim): Promise<{ found: IdempotencyRecord | undefined; isFree: boolean }> {
    const found = await this.#rows.find(scope, requestId);
    if (found?.heldBy === "gone") await this.interruptAbandoned();
    if (found?.heldBy === "gone") return { found: { ...found, state: "interrupted" }, isFree: true };
    return { found, isFree: found !== undefined && this.#isFree(found) };
  }

  /**
   * Claims the id and starts the call.
   * @param old the record that the claim replaces
   * @param ended of a call that nobody waits for
   * @returns undefined when another process claimed the id first
   * @throws the signal's reason; ApiError storage_unavailable, overloaded, draining
   */
  async #claim(
    key: string,
    claim: Claim,
    old: IdempotencyRecord | undefined,
    clientSignal: AbortSignal,
    produce: Producer,
    ended?: (how: RunEnd) => void,
  ): Promise<InFlightRun | undefined> {
    if (this.#runs.size + this.#claiming.size >= maxRunning) {
      throw ApiError.unavailable("overloaded", "Too many requests are running.");
    }
    const run = this.#clock.newId().slice(-8);
    const claimed = Promise.withResolvers<void>();
    this.#claiming.set(key, claimed.promise);
    try {
      const fresh: NewCall = { ...claim, run, createdAt: this.#clock.now() };
      if (this.#runs.size === 0) this.#renewedAt = this.#clock.monotonic();
      const lease = await this.#rows.claim(fresh, old);
      if (lease === undefined) return undefined;
      const isHeld = this.#rows.holds(lease);
      if (this.#closed || clientSignal.aborted || !isHeld) {
        await this.#release(lease);
        // This process may have been paused: another one may have claimed the id, and call.
        if (!isHeld) return undefined;
        clientSignal.throwIfAborted();
        throw ApiError.unavailable("draining", "The server is shutting down.");
      }
      // In the same turn as the claim leaves `#claiming`: a lookup must always find the id in one of the two maps.
      return this.#start(key, lease, claim.fingerprint, produce, ended);
    } catch (error) {
      throw asUnavailable(error);
    } finally {
      this.#claiming.delete(key);
      claimed.resolve();
    }
  }

  #isFree({ state, heldBy, expiresAt }: IdempotencyRecord): boolean {
    switch (state) {
      case "interrupted":
        return true;
      case "finished":
        return expiresAt! <= this.#clock.now();
      case "running":
        // A record of this process without a run is one whose end could not be written.
        return heldBy === "self";
    }
  }

  #start(
    key: string,
    lease: Lease,
    fingerprint: string,
    produce: Producer,
    ended?: (how: RunEnd) => void,
  ): InFlightRun {
    const { recordBytes, finishAfterDisconnect } = this.#rules();
    const run = new InFlightRun(lease, fingerprint, this.#rows, {
      recordBytes,
      finishAfterDisconnect: finishAfterDisconnect || ended !== undefined,
      holdBackMs: this.#rows.leaseTerms.lapseMs ?? 0,
      clock: this.#clock,
      pace: this.#pace,
      expiresAt: () => this.#clock.now() + this.#rules().retentionHours * hourMs,
      ended: (run, how) => {
        this.#ended(key, run, how);
        ended?.(how);
      },
    });
    this.#runs.set(key, run);
    run.start(produce);
    this.#tickLater();
    return run;
  }

  #ended(key: string, run: InFlightRun, how: RunEnd): void {
    if (how === "pending") {
      this.counts.storeFailures += 1;
      const fields = { service_request: run.id.run };
      this.#log?.error("an answer could not be stored; a retry may be billed again", fields);
      if (this.#pending.add(key, run)) return;
    }
    if (how === "released") this.counts.released += 1;
    if (how === "released" || how === "pending") void this.#release(run.id);
    this.#forget(key, run);
  }

  async #savePending(): Promise<void> {
    for await (const { key, run, isGivenUp } of this.#pending.save()) {
      if (isGivenUp) {
        const fields = { service_request: run.id.run };
        this.#log?.warn("an answer that can't be stored was given up; a retry calls anew", fields);
        await this.#release(run.id);
      }
      this.#forget(key, run);
    }
  }

  #forget(key: string, run: InFlightRun): void {
    if (this.#runs.get(key) === run) this.#runs.delete(key);
    if (this.#runs.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #release(lease: Lease): Promise<void> {
    return this.#tryStoring(() => this.#pending.release(lease).finally(() => this.#tickLater()));
  }

  /** Schedules the next tick while calls run: renews leases, flushes for readers in other processes, retries writes that failed. */
  #tickLater(): void {
    if ((this.#runs.size === 0 && !this.#pending.hasReleases) || this.#closed) return;
    this.#cancelTick ??= this.#clock.setTimer(tickMs, () => void this.#renewAndTick());
  }

  async #renewAndTick(): Promise<void> {
    await this.#tryStoring(() => this.#renew());
    await this.#tryStoring(() => this.#tick());
    this.#cancelTick = undefined;
    this.#tickLater();
  }

  /** Aborts the calls whose lease is lost, and renews the others. @throws StorageError */
  async #renew(): Promise<void> {
    for (const run of this.#runs.values()) if (!this.#rows.holds(run.id)) run.lose();
    const now = this.#clock.monotonic();
    if (now - this.#renewedAt < this.#rows.leaseTerms.renewMs) return;
    this.#renewedAt = now;
    const runs = [...this.#runs.values()];
    const lost = new Set((await this.#rows.renew(runs.map(({ id }) => id))).map(({ run }) => run));
    for (const run of runs) if (lost.has(run.id.run)) run.lose();
  }

  async #tick(): Promise<void> {
    await this.#findWatchers();
    for (const run of this.#runs.values()) run.flush();
    await this.#savePending();
    await this.#pending.releaseAll();
  }

  async #findWatchers(): Promise<void> {
    const watched = new Set(await this.#rows.watched());
    if (watched.size === 0) return;
    for (const run of this.#runs.values()) {
      if (!watched.has(run.id.call)) continue;
      run.watch();
      run.flush();
    }
  }

  /** Runs a background write, whose failure is logged and counted but harms no caller. */
  #tryStoring(work: () => Promise<void>): Promise<void> {
    const writing = work()
      .catch((error: unknown) => {
        if (!(error instanceof StorageError)) throw error;
        this.counts.storeFailures += 1;
        this.#log?.error("the store of service-request-ids failed", { error });
      })
      .finally(() => this.#writes.delete(writing));
    this.#writes.add(writing);
    return writing;
  }

  /** Reads a call of another process, or a finished one. @returns undefined when it ended without an answer, and recorded no error */
  async #read(call: IdempotencyRecord, from: number, signal: AbortSignal): Promise<Answer<RecordedEvents> | undefined> {
    const reader = new RecordReader({
      call,
      records: this.#records,
      clock: this.#clock,
      from,
      signal,
      patienceMs: call.state === "running" ? (this.#rows.leaseTerms.lapseMs ?? 0) : 0,
      onClosed: (one) => void this.#joined.delete(one),
    });
    if (call.state === "running") this.#joined.add(reader);
    return await reader.answer();
  }
}
