/**
 * Publishes one call of this node as a live stream. Nobody waits for it: it takes what the call has when the server is ready for
 * more, so that a slow server slows nothing and what comes meanwhile goes together. What the server has lost is published again from
 * the first event that is not in the store.
 */
import { liveTimes } from "../store/live-streams.ts";
import { backOffMs, type LiveRuns } from "./live-runs.ts";
import type { RecordWriter } from "./record-writer.ts";
import { joinEvents } from "./recorded-events.ts";

/** The call that is published. */
export type PublishedRun = {
  readonly record: Pick<RecordWriter, "headers" | "heldFrom" | "held">;
  /** True if its lease may still hold. */
  isHeld(): boolean;
  /** Number of events that others may see. */
  count(): number;
  /** Number of stored events, once it has ended; "otherwise": it ended without a stored answer. */
  end(): number | "otherwise" | undefined;
};

/** Bytes of an entry with more than one event, and of one event; a longer one goes to the store alone. */
const entryBytes = 16 * 1024;
const maxEventBytes = 64 * 1024;
/** Bytes of a stream, beyond which it begins anew with what is not in the store. */
const maxStreamBytes = 256 * 1024;
/** A server that loses the stream again and again, within one try to publish. */
const maxBegins = 4;
/** Time without a question after which nobody reads: readers ask more often than that. */
const askedForMs = liveTimes.keptMs - 10_000;

export class LivePublisher {
  readonly #runs: LiveRuns;
  readonly #stream: string;
  readonly #run: PublishedRun;
  readonly #onStoreNeeded: () => void;
  readonly #now: () => number;
  #generation = 0;
  #hasBegun = false;
  /** True if the stream has the headers. */
  #isOpen = false;
  #published = 0;
  #bytes = 0;
  #isChecking = false;
  #askedAt: number;
  #triesAt = Number.NEGATIVE_INFINITY;
  #isWorking = false;
  #isOver = false;
  #isFailing = false;

  /**
   * @param onStoreNeeded called where others have to read the store: the server fails, or an event is too long
   * @param now a monotonic reading
   */
  constructor(runs: LiveRuns, stream: string, run: PublishedRun, onStoreNeeded: () => void, now: () => number) {
    this.#runs = runs;
    this.#stream = stream;
    this.#run = run;
    this.#onStoreNeeded = onStoreNeeded;
    this.#now = now;
    this.#askedAt = now();
  }

  /** True if somebody has asked for it lately. */
  get isAskedFor(): boolean {
    return this.#now() - this.#askedAt <= askedForMs;
  }

  /** True if publishing fails at the moment, and others need the store. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Somebody asked for it, maybe once more: what they have is made sure of. */
  asked(): void {
    this.#askedAt = this.#now();
    this.#isChecking = true;
    this.poke();
  }

  /** To be called whenever there may be more to publish; returns at once. */
  poke(): void {
    if (this.#isOver || this.#isWorking || !this.#runs.mayPublish || this.#now() < this.#triesAt) return;
    if (this.#run.end() === undefined && !this.isAskedFor) {
      this.#giveRoom();
      this.#hasBegun = false;
      return;
    }
    this.#isWorking = true;
    void this.#work();
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    let begins = 0;
    try {
      for (;;) {
        const end = this.#run.end();
        if (end === undefined && !this.#run.isHeld()) return;
        if (this.#mustBegin) {
          if (begins++ >= maxBegins) throw new Error("the stream is lost again and again");
          await this.#begin();
        } else if (this.#published < this.#run.count() && end !== "otherwise") {
          if (!(await this.#append())) return;
        } else if (end !== undefined) {
          await this.#runs.streams.end(this.#stream, end === "otherwise" ? undefined : end);
          this.#stop();
          return;
        } else if (this.#isChecking) {
          this.#isChecking = false;
          this.#goOnFrom(await this.#send(this.#published, []));
        } else {
          this.#isFailing = false;
          return;
        }
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      // In the turn in which nothing more was found, so that no poke is lost.
      this.#isWorking = false;
    }
  }

  get #mustBegin(): boolean {
    const isOpening = !this.#isOpen && this.#run.record.headers !== undefined;
    return !this.#hasBegun || isOpening || this.#bytes > maxStreamBytes;
  }

  async #begin(): Promise<void> {
    const headers = this.#run.record.headers;
    this.#generation += 1;
    await this.#runs.streams.begin(this.#stream, this.#generation, headers);
    this.#giveRoom();
    this.#hasBegun = true;
    this.#isOpen = headers !== undefined;
    this.#published = this.#run.record.heldFrom;
  }

  /** @returns false where nothing more can be published before the store has the next event */
  async #append(): Promise<boolean> {
    if (this.#published < this.#run.record.heldFrom) {
      this.#published = this.#run.record.heldFrom;
      // Readers learn that the store has what is left out, though nothing may come after it.
      this.#isChecking = true;
    }
    const events = firstOf(this.#run.record.held(this.#published, this.#run.count()) ?? []);
    if (events.length === 0) {
      this.#onStoreNeeded();
      return this.#published >= this.#run.count();
    }
    this.#goOnFrom(await this.#send(this.#published, events));
    return true;
  }

  async #send(firstId: number, events: readonly string[]): Promise<number | undefined> {
    const text = joinEvents(events);
    const bytes = Buffer.byteLength(text);
    if (!this.#runs.takeRoom(bytes)) throw new Error("too much is published");
    this.#bytes += bytes;
    const expected = await this.#runs.streams.append(
      this.#stream,
      { firstId, count: events.length, text },
      this.#run.record.heldFrom,
    );
    if (expected === firstId + events.length) this.#runs.counts.published += 1;
    return expected;
  }

  #goOnFrom(expected: number | undefined): void {
    if (expected === undefined) this.#hasBegun = false;
    else this.#published = expected;
  }

  #fail(error: unknown): void {
    // The entry that was sent may have come.
    this.#isChecking = true;
    this.#triesAt = this.#now() + backOffMs;
    this.#runs.publishFailed(error);
    if (this.#run.end() !== undefined) this.#stop();
    else {
      this.#isFailing = true;
      this.#onStoreNeeded();
    }
  }

  #stop(): void {
    this.#isOver = true;
    this.#giveRoom();
  }

  #giveRoom(): void {
    this.#runs.giveRoom(this.#bytes);
    this.#bytes = 0;
  }
}

/** The first events, as many as an entry holds; none where the first one is too long. */
function firstOf(events: readonly string[]): readonly string[] {
  let bytes = 0;
  for (const [at, event] of events.entries()) {
    bytes += Buffer.byteLength(event);
    if (at === 0 && bytes > maxEventBytes) return [];
    if (at > 0 && bytes > entryBytes) return events.slice(0, at);
  }
  return events;
}
