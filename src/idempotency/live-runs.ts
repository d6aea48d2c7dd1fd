/**
 * Publishes the calls of this node for readers on others, and follows theirs, by streams on a server that all reach
 * (`src/store/live-streams.ts`). One read waits for all: the node's inbox, and every stream that is followed here. A hint of what
 * the store will say in the end: who follows a stream can always do without it.
 */
import { type Clock, repeat } from "../lib/clock.ts";
import type { Logger } from "../lib/log.ts";
import { OnceAMinute } from "../lib/once-a-minute.ts";
import type { LivePlace, LiveStreams } from "../store/live-streams.ts";
import { StorageError } from "../store/storage-error.ts";
import type { Lease } from "../store/store.ts";
import { FollowedStream } from "./followed-stream.ts";
import { splitText } from "./recorded-events.ts";

/** A holder that was asked for a stream is waited for so long. */
const answerMs = 300;
/** Interval at which it is asked again: while it answers, and while it does not. */
const askAgainMs = 5_000;
const askUnansweredMs = 1_000;
/** A node that has just claimed its first call is found a moment later. */
const askSoonMs = 100;
/** Interval at which the node says that it listens, and what has to be asked is asked. */
const heartbeatMs = 1_000;
const heartbeatsBetweenListens = 2;
/** Messages to itself that a node may miss before it reads its inbox from the beginning. */
const maxMissed = 2;
/** After a failure it is not tried again for so long. */
export const backOffMs = 500;
/** One read waits for no more streams than this; who comes later reads the store. */
const maxFollowed = 1_000;
/** Bytes of all streams that this node publishes. */
const maxPublishedBytes = 32 * 1024 * 1024;

/** The name of a run's stream: of nothing but numbers and ids of our own. */
export const streamOf = ({ owner, call, run }: Lease): string => `${owner}-${call}-${run}`;

export type LiveRunsOptions = {
  readonly streams: LiveStreams;
  readonly clock: Clock;
  readonly log?: Logger | undefined;
  /** A reader on another node asks for that stream. */
  readonly onAsked: (stream: string) => void;
};

export class LiveRuns {
  readonly streams: LiveStreams;
  readonly #clock: Clock;
  readonly #log: Logger | undefined;
  readonly #onAsked: (stream: string) => void;
  readonly #node: string;
  readonly #followed = new Map<string, FollowedStream>();
  #owner: string | undefined;
  #inbox = "";
  #missed = 0;
  #heartbeats = 0;
  /** Undefined until the server has answered, or has failed to. */
  #isConnected: boolean | undefined;
  /** False while the server can be read and not written, as a replica can. */
  #isWritable = true;
  #isRunning = false;
  #isClosed = false;
  #backOffUntil = Number.NEGATIVE_INFINITY;
  readonly #warnings: OnceAMinute;
  #publishedBytes = 0;
  #stopHeartbeat = () => {};
  #cancelPause = () => {};

  /**
   * Since the start: entries published, and received; failures to publish; how often the server was lost; how often a reader went on from
   * the store.
   */
  readonly counts = { published: 0, received: 0, unpublished: 0, lost: 0, fellBack: 0 };

  constructor({ streams, clock, log, onAsked }: LiveRunsOptions) {
    this.streams = streams;
    this.#clock = clock;
    this.#log = log;
    this.#onAsked = onAsked;
    this.#warnings = new OnceAMinute(clock);
    this.#node = clock.newId();
  }

  /** True if the server answers. */
  get isConnected(): boolean {
    return this.#isConnected === true;
  }

  /** Begins to listen: called at start, so that the connection is there when it is needed. */
  start(): void {
    if (this.#isRunning || this.#isClosed) return;
    this.#isRunning = true;
    void this.#readNews();
    void this.#listen();
    this.#stopHeartbeat = repeat(this.#clock, heartbeatMs, () => this.#heartbeat());
  }

  /** Lets others find this node under the name by which it holds its calls. */
  holdsAs(owner: string | undefined): void {
    if (this.#owner === owner || owner === undefined) return;
    this.#owner = owner;
    this.start();
    void this.#listen();
  }

  /** @param from the first event that is wanted. @returns undefined where no more streams can be followed */
  follow(lease: Lease, from: number, onChange: () => void): FollowedStream | undefined {
    const { owner } = lease;
    if (owner === undefined || this.#isClosed) return undefined;
    this.start();
    const stream = streamOf(lease);
    let followed = this.#followed.get(stream);
    if (followed === undefined) {
      if (this.#followed.size >= maxFollowed) return undefined;
      followed = new FollowedStream(stream, owner, from, this.#clock.monotonic());
      this.#followed.set(stream, followed);
    }
    const isNew = followed.listeners.size === 0;
    followed.listeners.add(onChange);
    if (isNew) void this.#ask(followed, true);
    return followed;
  }

  /** @param onChange as it was given to `follow` */
  leave(followed: FollowedStream, onChange: () => void): void {
    followed.listeners.delete(onChange);
    if (followed.listeners.size === 0 && this.#followed.get(followed.stream) === followed) {
      this.#followed.delete(followed.stream);
    }
  }

  /** Reads events that have gone by. @returns undefined where the stream does not have them */
  async read({ stream }: FollowedStream, number: number): Promise<string[] | undefined> {
    try {
      const found: string[] = [];
      for (const entry of await this.streams.read(stream, [number, 0])) {
        const next = number + found.length;
        if (entry.kind !== "events") continue;
        if (entry.firstId > next) break;
        found.push(...splitText(entry.text).slice(next - entry.firstId));
      }
      return found.length > 0 ? found : undefined;
    } catch {
      return undefined;
    }
  }

  /** True if a stream may be published now: not right after a failure. */
  get mayPublish(): boolean {
    return !this.#isClosed && this.#clock.monotonic() >= this.#backOffUntil;
  }

  /** Counts bytes that are published. @returns false where there is no room for them */
  takeRoom(bytes: number): boolean {
    if (this.#publishedBytes + bytes > maxPublishedBytes) return false;
    this.#publishedBytes += bytes;
    return true;
  }

  giveRoom(bytes: number): void {
    this.#publishedBytes -= bytes;
  }

  /** @param error where the server can't be reached, nothing else is published for a moment either */
  publishFailed(error: unknown): void {
    if (error instanceof StorageError) this.#backOffUntil = this.#clock.monotonic() + backOffMs;
    this.counts.unpublished += 1;
    if (this.#warnings.takes())
      this.#log?.warn("a stream can't be published live; other nodes read it from the database", { error });
  }

  /** True if what comes next can be relied on to come live, or an answer of the holder is waited for. */
  isFollowing(followed: FollowedStream): boolean {
    return !followed.isOver && (followed.hasCome ? this.isConnected : this.waitMs(followed) > 0);
  }

  /** For how many milliseconds more an answer of the holder is waited for; 0: it has answered, or does not. */
  waitMs(followed: FollowedStream): number {
    if (followed.hasCome || followed.isUnanswered) return 0;
    return Math.max(0, followed.askedFirstAt + answerMs - this.#clock.monotonic());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopHeartbeat();
    this.#cancelPause();
    this.#isConnected = false;
    for (const followed of this.#followed.values()) followed.notify();
    this.#followed.clear();
    await this.streams.close();
  }

  /** Reads until it is closed. Never rejects. */
  async #readNews(): Promise<void> {
    while (!this.#isClosed) {
      try {
        const places = new Map<string, LivePlace>();
        for (const [stream, { place, isOver }] of this.#followed) if (!isOver) places.set(stream, place);
        const news = await this.streams.wait(this.#node, this.#inbox, places);
        if (this.#isClosed) return;
        this.#isWell();
        if (news.messages > 0) this.#missed = 0;
        this.#inbox = news.inbox;
        for (const [stream, entries] of news.entries) {
          this.counts.received += entries.length;
          this.#followed.get(stream)?.take(entries);
        }
        for (const stream of news.asked) this.#onAsked(stream);
      } catch (error) {
        if (this.#isClosed) return;
        this.#isLost(error);
        await new Promise<void>((resolve) => {
          const cancel = this.#clock.setTimer(backOffMs, resolve);
          this.#cancelPause = () => {
            cancel();
            resolve();
          };
        });
      }
    }
  }

  #isWell(): void {
    if (this.#isConnected || !this.#isWritable) return;
    this.#isConnected = true;
    this.#log?.info("streams of other nodes are followed live", { coordination: this.streams.place });
    for (const followed of this.#followed.values()) followed.notify();
  }

  /** @param isNews whether the cause is another than was logged */
  #isLost(error: unknown, isNews = false): void {
    // The inbox of a server that was emptied, or that another took over from, begins anew.
    this.#inbox = "";
    if (this.#isConnected === false && !isNews) return;
    if (this.#isConnected) this.counts.lost += 1;
    this.#isConnected = false;
    this.#log?.warn("streams of other nodes are read from the database until the coordination is back", { error });
    for (const followed of this.#followed.values()) followed.notify();
  }

  #heartbeat(): void {
    this.#heartbeats += 1;
    if (this.#heartbeats % heartbeatsBetweenListens === 0) void this.#listen();
    const now = this.#clock.monotonic();
    for (const followed of this.#followed.values()) {
      if (followed.isOver) continue;
      const isWell = followed.hasCome && !followed.isUnanswered;
      if (now - followed.askedAt >= (isWell ? askAgainMs : askUnansweredMs)) void this.#ask(followed, false);
    }
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    try {
      await this.streams.listen(this.#node, this.#owner);
      this.#isWritable = true;
    } catch (error) {
      // The reader notices a server that is away.
      if (!(error instanceof StorageError) || error.kind === "away" || error.kind === "busy") return;
      const isNews = this.#isWritable;
      this.#isWritable = false;
      this.#isLost(error, isNews);
      return;
    }
    // Its own message should have come: else the server counts from a place that was passed long ago.
    this.#missed += 1;
    if (this.#missed > maxMissed) this.#inbox = "";
  }

  /** Never rejects. */
  async #ask(followed: FollowedStream, isNew: boolean): Promise<void> {
    if (this.#isClosed || followed.listeners.size === 0) return;
    followed.askedAt = this.#clock.monotonic();
    try {
      const found = await this.streams.ask(followed.stream, followed.owner, isNew ? this.#node : undefined);
      if (found === undefined) {
        followed.unanswered();
        if (isNew) this.#clock.setTimer(askSoonMs, () => void this.#ask(followed, false));
      } else if (found.head !== undefined) followed.take([found.head]);
      else followed.isUnanswered = false;
    } catch {
      followed.unanswered();
    }
  }
}
