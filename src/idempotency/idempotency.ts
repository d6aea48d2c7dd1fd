/**
 * Idempotency by `service-request-id`: makes one upstream call for each id, however many callers race in this process and in
 * others on the same data folder. Callers join a running call; callers of a finished one get its stored bytes.
 */
import type { Config } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { ApiError } from "../protocols/errors.ts";
import type { LiveStreams } from "../store/live-streams.ts";
import { damaged, unpackAside } from "../store/packing.ts";
import { asUnavailable, needsStorage } from "../store/require-storage.ts";
import { StorageError } from "../store/storage-error.ts";
import type { CallId, IdempotencyRecord, Lease, NewCall, RunRepository } from "../store/store.ts";
import type { Answer, Producer, RecordedEvents } from "../upstream/answer.ts";
import { InFlightRun, lost, type RunEnd, unsaved } from "./in-flight-run.ts";
import { type JoinedRecords, JoinedRun } from "./joined-run.ts";
import { LiveRuns, streamOf } from "./live-runs.ts";
import { idPrefixOf, splitEvents, storedEvents, withIds } from "./recorded-events.ts";
import { endOf, takeTold } from "./told-failure.ts";
import { UnreadPace } from "./unread-pace.ts";

export type CallName = {
  /** The owner of the id: the API key's id and the surface. */
  readonly scope: string;
  readonly requestId: string;
};

export type Claim = CallName & { readonly fingerprint: string };

export type IdempotentAnswer = {
  readonly answer: Answer<RecordedEvents>;
  /** Whether the answer comes from the stored record of a finished call. */
  readonly replayed: boolean;
  /** Whether this caller joined a call that was still running. */
  readonly joined: boolean;
};

/** An answer longer than `recordBytes` is not stored: it goes to its current readers only, and its id is released. */
export type IdempotencyRules = Config["idempotency"];

/** Interval for finding readers in other processes and flushing events to the store for them. */
const tickMs = 200;
/** Interval for finding them where the store tells of them. */
const toldMs = 1_000;
/** Interval at which a reader polls the store for events of another process. */
const pollMs = 50;
/** How long finished answers are held in memory for a retry after a failed write, and their maximum size in characters. */
const pendingWriteMs = 60_000;
/** The same where no reader was given the answer. */
const ungivenWriteMs = 10 * 60_000;
const maxPendingWrites = 64 * 1024 * 1024;
const maxRunning = 10_000;

export class Idempotency {
  readonly #rows: RunRepository;
  readonly #clock: Clock;
  readonly #rules: () => IdempotencyRules;
  readonly #log: Logger | undefined;
  /** By scope and request id. */
  readonly #runs = new Map<string, InFlightRun>();
  readonly #pace: UnreadPace;
  /** Absent where no server carries live streams. */
  readonly #live: LiveRuns | undefined;
  /** The running calls again, by the names of their streams. */
  readonly #byStream = new Map<string, InFlightRun>();
  /** Calls of other processes that are read here. */
  readonly #joined = new Set<JoinedRun>();
  /** Whether the store tells of calls that others begin to watch. */
  readonly #isTold: (() => boolean) | undefined;
  /** When it was last asked for them; a monotonic reading. */
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Claims that are being written, by the same key. */
  readonly #claiming = new Map<string, Promise<void>>();
  /** Finished runs whose write failed. `until` is a monotonic reading. */
  readonly #pendingWrites = new Map<string, { readonly run: InFlightRun; readonly until: number }>();
  /** Leases whose release failed, where the store does not go on with it. */
  readonly #unreleased = new Set<Lease>();
  /** Background writes, awaited by `close`. */
  readonly #writes = new Set<Promise<void>>();
  /** When the leases were last renewed, or it was tried; a monotonic reading. */
  #renewedAt = 0;
  #cancelTick: (() => void) | undefined;
  #closed = false;
  #idle: (() => void)[] = [];

  /** Counters since the start: ids released by errors and cancellation, interrupted calls found, failed writes. */
  readonly counts = { released: 0, interrupted: 0, storeFailures: 0 };

  /**
   * @param rules read for each call, as a reload may change them
   * @param streams closed with this
   */
  constructor(
    store: { readonly runs: RunRepository },
    clock: Clock,
    rules: () => IdempotencyRules,
    log?: Logger,
    streams?: LiveStreams,
  ) {
    this.#rows = store.runs;
    this.#clock = clock;
    this.#rules = rules;
    this.#log = log;
    this.#pace = new UnreadPace(clock);
    this.#isTold = store.runs.onWatched?.(() => void this.#tryStoring(() => this.#findWatchers()));
    if (streams === undefined) return;
    const onAsked = (stream: string) => this.#byStream.get(stream)?.publish(this.#live!);
    this.#live = new LiveRuns({ streams, clock, log, onAsked });
    this.#live.start();
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

  /** What is known of live streams; undefined where no server carries them. */
  get live(): Pick<LiveRuns, "isHearing" | "counts"> | undefined {
    return this.#live;
  }

  /** Calls of other processes that are read here: as they come, and from the store. */
  get joined(): { readonly live: number; readonly stored: number } {
    let live = 0;
    for (const { isLive } of this.#joined) live += Number(isLive);
    return { live, stored: this.#joined.size - live };
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
    options: { readonly lastEventId?: string | undefined } = {},
  ): Promise<IdempotentAnswer> {
    for (;;) {
      clientSignal.throwIfAborted();
      const key = keyOf(claim);
      const running = this.#runs.get(key);
      if (running !== undefined) {
        if (running.fingerprint !== claim.fingerprint) throw ApiError.idempotencyKeyReused();
        if (running.isOver && this.#canLapse) {
          await this.#savePending();
          if (this.#runs.get(key) === running) throw unsaved();
          continue;
        }
        const replayed = running.isOver;
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
        const run = await this.#claim(key, claim, found, clientSignal, produce);
        if (run === undefined) continue; // Another process claimed the id.
        return { answer: await run.join(clientSignal, 0), replayed: false, joined: false };
      }
      if (found.fingerprint !== claim.fingerprint) throw ApiError.idempotencyKeyReused();
      const from = firstWanted(found, options.lastEventId);
      if (found.state === "finished") {
        return { answer: await this.#stored(found, from, clientSignal), replayed: true, joined: false };
      }
      const answer = await this.#joinOtherProcess(found, from, clientSignal);
      if (answer !== undefined) return { answer, replayed: false, joined: true };
      // The other process' call ended without an answer: try to claim the id.
    }
  }

  /**
   * Starts a call that nobody waits for: it runs on without readers, and `join` reads it. Anything but a finished 2xx releases
   * the id.
   * @param claim its id must be new
   * @param ended told once how the call ended, also when this closes
   * @throws ApiError storage_unavailable, overloaded, draining
   */
  async begin(claim: Claim, produce: Producer, ended: (how: RunEnd) => void): Promise<void> {
    const nobody = new AbortController().signal;
    const run = await this.#claim(keyOf(claim), claim, undefined, nobody, produce, ended);
    if (run === undefined) throw ApiError.internal("a new call's id was taken");
  }

  /**
   * Reads a running or finished call, and never calls.
   * @returns undefined where there is none, or it ended without an answer
   * @throws the signal's reason; ApiError storage_unavailable, overloaded
   */
  async join(id: CallName, signal: AbortSignal): Promise<Answer<RecordedEvents> | undefined> {
    const running = this.#runs.get(keyOf(id));
    if (running !== undefined) return running.join(signal, 0);
    const found = await needsStorage(() => this.#rows.find(id.scope, id.requestId));
    if (found === undefined || this.#isFree(found)) return undefined;
    return found.state === "finished" ? this.#stored(found, 0, signal) : this.#joinOtherProcess(found, 0, signal);
  }

  /** Whether a call runs, in any process. @throws ApiError storage_unavailable */
  async runs(id: CallName): Promise<boolean> {
    if (this.#runs.has(keyOf(id))) return true;
    const found = await needsStorage(() => this.#rows.find(id.scope, id.requestId));
    return found?.state === "running" && found.holder === "other";
  }

  /** Cancels a call of this process and releases its id. */
  cancel(id: CallName): void {
    this.#runs.get(keyOf(id))?.cancel();
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
    this.#byStream.clear();
    this.#pendingWrites.clear();
    this.#unreleased.clear();
    this.#pace.close();
    this.#cancelTick?.();
    await Promise.all(this.#writes);
    await this.#live?.close();
  }

  /** Whether another process may take over a call of this one while it lives. */
  get #canLapse(): boolean {
    return this.#rows.leaseTerms.lapseMs !== undefined;
  }

  /** Finds the record that holds the id, and whether the id may be claimed anew. @throws StorageError */
  async #look({ scope, requestId }: Claim): Promise<{ found: IdempotencyRecord | undefined; isFree: boolean }> {
    const found = await this.#rows.find(scope, requestId);
    if (found?.holder === "gone") await this.interruptAbandoned();
    if (found?.holder === "gone") return { found: { ...found, state: "interrupted" }, isFree: true };
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
      this.#live?.holdsAs(lease.owner);
      const isHeld = this.#rows.holds(lease);
      if (this.#closed || clientSignal.aborted || !isHeld) {
        await this.#release(lease);
        // As after a pause of this process: another one may have claimed the id, and call.
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

  #isFree({ state, holder, expiresAt }: IdempotencyRecord): boolean {
    switch (state) {
      case "interrupted":
        return true;
      case "finished":
        return expiresAt! <= this.#clock.now();
      case "running":
        // A record of this process without a run is one whose end could not be written.
        return holder === "self";
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
      expiresAt: () => this.#clock.now() + this.#rules().retentionHours * 3_600_000,
      ended: (run, how) => {
        this.#ended(key, run, how);
        ended?.(how);
      },
    });
    this.#runs.set(key, run);
    if (this.#live !== undefined) this.#byStream.set(streamOf(lease), run);
    run.start(produce);
    this.#tickLater();
    return run;
  }

  #ended(key: string, run: InFlightRun, how: RunEnd): void {
    if (how === "pending") {
      this.#addPendingWrite(key, run);
      return;
    }
    if (how === "released") {
      this.counts.released += 1;
      void this.#release(run.id);
    }
    this.#forget(key, run);
  }

  /** Holds a finished answer in memory until the store recovers or `pendingWriteMs` pass; retries are answered from it. */
  #addPendingWrite(key: string, run: InFlightRun): void {
    this.counts.storeFailures += 1;
    this.#log?.error("an answer could not be stored; a retry may be billed again", { service_request: run.id.run });
    let held = run.heldSize;
    for (const { run: other } of this.#pendingWrites.values()) held += other.heldSize;
    if (held > maxPendingWrites) {
      void this.#release(run.id);
      this.#forget(key, run);
    } else {
      const forMs = this.#canLapse ? ungivenWriteMs : pendingWriteMs;
      this.#pendingWrites.set(key, { run, until: this.#clock.monotonic() + forMs });
    }
  }

  async #savePending(): Promise<void> {
    for (const [key, pending] of this.#pendingWrites) {
      const { run, until } = pending;
      if ((await run.save()) === "pending") {
        if (until > this.#clock.monotonic()) continue;
        this.#log?.warn("an answer that can't be stored was given up; a retry calls anew", {
          service_request: run.id.run,
        });
        await this.#release(run.id);
      }
      // Others who saved meanwhile may have been first, and another call may have begun.
      if (this.#pendingWrites.get(key) === pending) this.#pendingWrites.delete(key);
      this.#forget(key, run);
    }
  }

  #forget(key: string, run: InFlightRun): void {
    if (this.#live !== undefined) this.#byStream.delete(streamOf(run.id));
    if (this.#runs.get(key) === run) this.#runs.delete(key);
    if (this.#runs.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Releases an id; where that fails, again and again, as other processes wait for it. Where leases lapse, the store does so. */
  #release(lease: Lease): Promise<void> {
    return this.#tryStoring(async () => {
      try {
        await this.#rows.release(lease);
      } catch (error) {
        if (!this.#canLapse && !this.#closed && this.#unreleased.size < maxRunning) this.#unreleased.add(lease);
        this.#tickLater();
        throw error;
      }
    });
  }

  async #releaseAgain(): Promise<void> {
    for (const lease of this.#unreleased) {
      await this.#rows.release(lease);
      this.#unreleased.delete(lease);
    }
  }

  /** Schedules the next tick while calls run: renews leases, flushes for readers in other processes, retries writes that failed. */
  #tickLater(): void {
    if (this.#runs.size + this.#unreleased.size === 0 || this.#closed) return;
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
    const isDue = this.#clock.monotonic() - this.#askedAt >= toldMs;
    if (isDue || this.#isTold?.() !== true) await this.#findWatchers();
    for (const run of this.#runs.values()) run.flush();
    await this.#savePending();
    await this.#releaseAgain();
  }

  async #findWatchers(): Promise<void> {
    this.#askedAt = this.#clock.monotonic();
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
    const writing = this.#caught(work).finally(() => this.#writes.delete(writing));
    this.#writes.add(writing);
    return writing;
  }

  async #caught(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      this.counts.storeFailures += 1;
      this.#log?.error("the store of service-request-ids failed", { error });
    }
  }

  /** Reads a call of another process. @returns undefined when that call ended, and neither stored an answer nor told its error */
  async #joinOtherProcess(
    call: IdempotencyRecord,
    from: number,
    signal: AbortSignal,
  ): Promise<Answer<RecordedEvents> | undefined> {
    const records: JoinedRecords = {
      find: () => needsStorage(() => this.#findLive(call)),
      eventsOf: (found, number) => this.#eventsOf(found, number),
      watch: () => needsStorage(() => this.#rows.watch(call)),
      pause: () => this.#pause(call, signal),
    };
    const patienceMs = this.#rows.leaseTerms.lapseMs ?? 0;
    const onClosed = (run: JoinedRun) => void this.#joined.delete(run);
    const options = { call, records, live: this.#live, clock: this.#clock, from, signal, patienceMs, onClosed };
    const joined = new JoinedRun(options);
    this.#joined.add(joined);
    try {
      const opened = await joined.opened();
      if (opened !== undefined && !("state" in opened)) {
        const headers = await this.#readRecord(call, () => headersOf(opened));
        takeTold(headers);
        return { kind: "stream", headers, events: joined.events() };
      }
      joined.close();
      return opened && (await this.#stored(opened, from, signal));
    } catch (error) {
      joined.close();
      throw error;
    }
  }

  /** Gets the record unless its call was interrupted or released. @throws StorageError */
  async #findLive(id: CallId): Promise<IdempotencyRecord | undefined> {
    const call = await this.#rows.get(id);
    if (call?.holder === "gone") await this.interruptAbandoned();
    return call?.holder === "gone" || call?.state === "interrupted" ? undefined : call;
  }

  /** Answers from the record of a finished call. @throws ApiError storage_unavailable when the beginning of the record is damaged */
  async #stored(call: IdempotencyRecord, from: number, signal: AbortSignal): Promise<Answer<RecordedEvents>> {
    const headers = await this.#readRecord(call, () => headersOf(call));
    const told = takeTold(headers);
    if (call.events === null) {
      if (told?.thrown !== undefined) throw ApiError.again(told.thrown);
      const body = await this.#readRecord(call, () => this.#wholeBody(call));
      const status = await this.#readRecord(call, () => statusOf(call, told !== undefined));
      return { kind: "whole", status, headers, body, ...told?.answered };
    }
    const start = from > call.events ? 0 : from;
    const first = start < call.events ? await this.#eventsOf(call, start) : [];
    return { kind: "stream", headers, events: this.#readStored(call, start, first, signal) };
  }

  /**
   * Reads a part of an idempotency record. Damage in a finished call's record discards it, which releases the id.
   * @throws ApiError storage_unavailable when the store fails or the record is damaged
   */
  async #readRecord<T>(call: IdempotencyRecord, read: () => T | Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof StorageError && error.kind === "corrupt") || call.state !== "finished") {
        throw asUnavailable(error);
      }
      this.#log?.error("a stored answer is damaged; its id is released for a new call", {
        service_request: call.run,
        error,
      });
      await this.#tryStoring(() => this.#rows.discard(call));
      const message =
        "The stored answer under this service-request-id was damaged and has been removed. Retry to call again.";
      throw ApiError.unavailable("storage_unavailable", message, { cause: error });
    }
  }

  /** Streams the events of a finished call. @param first the first events, where already read */
  async *#readStored(id: CallId, from: number, first: readonly string[], signal: AbortSignal): RecordedEvents {
    let next = from;
    if (first.length > 0) {
      yield withIds(first, id, next);
      next += first.length;
    }
    for (;;) {
      if (signal.aborted) return "cancelled";
      const call = await needsStorage(() => this.#findLive(id));
      if (call === undefined) throw lost();
      if (next >= call.events!) return endOf(call);
      const events = await this.#eventsOf(call, next);
      yield withIds(events, id, next);
      next += events.length;
    }
  }

  /** The stored events from that number on; of a finished call at least one. @throws ApiError as `#readRecord` */
  #eventsOf(call: IdempotencyRecord, number: number): Promise<string[]> {
    return this.#readRecord(call, async () => {
      if (call.state === "finished" && number >= call.bodyFrom!) {
        return (await this.#lastEvents(call)).slice(number - call.bodyFrom!);
      }
      const events = await storedEvents(this.#rows, call, number);
      if (events.length === 0 && call.state === "finished") throw damaged();
      return events;
    });
  }

  /** The last events of a finished call, which are in its own row. @throws StorageError */
  async #lastEvents(call: IdempotencyRecord): Promise<string[]> {
    const events = await splitEvents(await this.#bodyOf(call));
    if (call.bodyFrom! + events.length !== call.events) throw damaged();
    return events;
  }

  /** The body of a whole answer, joined from its pieces. @throws StorageError */
  async #wholeBody(call: IdempotencyRecord): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    while (pieces.length < (call.bodyFrom ?? 0)) {
      const piece = await this.#rows.eventsAt(call, pieces.length);
      if (piece?.firstId !== pieces.length) throw damaged();
      pieces.push(piece.data);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const body = await this.#bodyOf(call);
    return unpackAside(pieces.length === 0 ? body : Buffer.concat([...pieces, body]));
  }

  /** @throws StorageError */
  async #bodyOf(call: IdempotencyRecord): Promise<Uint8Array> {
    const body = await this.#rows.body(call);
    if (body === undefined) throw damaged();
    return body;
  }

  #pause(id: CallId, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const changed = this.#rows.changed?.(id, signal);
    if (changed !== undefined) return changed;
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.#clock.setTimer(pollMs, end);
      signal.addEventListener("abort", end);
    });
  }
}

const keyOf = ({ scope, requestId }: CallName) => `${scope}\n${requestId}`;

/** @throws StorageError when they are not valid headers */
function headersOf({ headers }: Pick<IdempotencyRecord, "headers">): Record<string, string> {
  try {
    const found = JSON.parse(headers!) as Record<string, string>;
    new Headers(found);
    return found;
  } catch (error) {
    throw damaged(error);
  }
}

/** @throws StorageError when it is not 2xx, as only such answers are stored, beside failures */
function statusOf({ status }: IdempotencyRecord, isFailure: boolean): number {
  if (status === null || status < 200 || status > (isFailure ? 599 : 299)) throw damaged();
  return status;
}

/** The event number after `Last-Event-ID`; 0 when the header is absent or names another call. */
function firstWanted(id: CallId, lastEventId: string | undefined): number {
  const prefix = idPrefixOf(id);
  if (lastEventId?.startsWith(prefix) !== true) return 0;
  const number = lastEventId.slice(prefix.length);
  return /^\d{1,9}$/.test(number) ? Number(number) + 1 : 0;
}
