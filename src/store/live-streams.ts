/**
 * Streams of calls under way, for readers on other nodes: the holder of a call publishes its events on a server that all nodes reach,
 * in one stream for each run, and whoever reads it is woken by the next entry. Beside them each node has an inbox, in which others
 * ask for a run.
 *
 * A stream's name holds the run's fencing token: another run of the same id has another stream, so bytes never mix. An entry's place
 * is the number of events up to its end, so that a reader goes on from what it has, whatever became of the server meanwhile. Nothing
 * here is the truth: an entry may be lost or evicted, and a stream may go at any moment; then the store has the events, or the
 * holder publishes them anew. Each method may be sent twice, and may come late.
 */

/** Place of an entry: the number of events before its end, and a number among entries of the same place. */
export type LivePlace = readonly [events: number, part: number];

export type LiveEntry = { readonly place: LivePlace } & (
  | {
      /** The first of each stream: the holder was asked, and publishes. A later one: events before its place are in the store. */
      readonly kind: "head";
      /** JSON object; undefined until the upstream has answered with a stream. */
      readonly headers: string | undefined;
    }
  | { readonly kind: "events"; readonly firstId: number; readonly text: string }
  /** The answer is stored, and has as many events as its place says. */
  | { readonly kind: "finished" }
  /** The call has ended in another way: the store has how. */
  | { readonly kind: "look" }
);

export type LiveHead = Extract<LiveEntry, { kind: "head" }>;

/** Messages and entries that came. */
export type LiveNews = {
  /** Up to where the inbox was read, for the next time. */
  readonly inbox: string;
  /** Number of messages in it, and the streams that others ask for. */
  readonly messages: number;
  readonly asked: readonly string[];
  /** By stream. */
  readonly entries: ReadonlyMap<string, readonly LiveEntry[]>;
};

export interface LiveStreams {
  /** The server's address without user and password. */
  readonly place: string;
  /**
   * Says that the node reads its inbox, and notifies it.
   * @param owner under whose name it holds calls; undefined: it holds none
   */
  listen(node: string, owner: string | undefined): Promise<void>;
  /**
   * Asks the node that holds calls as `owner` to publish that stream, and keeps the stream alive.
   * @param wakes the node that reads, whose `wait` then ends
   * @returns undefined where nobody listens under that name; else the stream's head, where it has begun
   */
  ask(stream: string, owner: string, wakes?: string): Promise<{ readonly head?: LiveHead } | undefined>;
  /**
   * Begins a stream, or begins it anew without what it held.
   * @param generation from 1 on: what has begun with this one or a later one stays as it is
   * @throws also where the server has little room left
   */
  begin(stream: string, generation: number, headers: string | undefined): Promise<void>;
  /**
   * Appends events where they are the next ones.
   * @param count how many there are; none: asks, and notifies readers of what only the store has
   * @param floor events before that number are in the store: the stream may leave them out
   * @returns the number of the event that comes next; undefined where the stream has not begun, or is gone
   */
  append(
    stream: string,
    events: { readonly firstId: number; readonly count: number; readonly text: string },
    floor: number,
  ): Promise<number | undefined>;
  /** Ends a stream, if it is there. @param events how many the stored answer has; undefined: the store has how it ended */
  end(stream: string, events: number | undefined): Promise<void>;
  /** The entries after that place that are there now, the first ones of them. */
  read(stream: string, after: LivePlace): Promise<readonly LiveEntry[]>;
  /**
   * Waits until there is news, for `waitMs` at most.
   * @param inbox up to where it was read; "": from its beginning
   * @param streams the places after which entries are wanted
   */
  wait(node: string, inbox: string, streams: ReadonlyMap<string, LivePlace>): Promise<LiveNews>;
  close(): Promise<void>;
}

export const liveTimes = {
  /** The longest time without an answer to `wait`. */
  waitMs: 1_000,
  /** For how long a node counts as listening. */
  listensMs: 10_000,
  /** For how long a stream lives that nobody asks for or appends to; and one that has ended. */
  keptMs: 30_000,
  endedMs: 10_000,
};

/** The part of a place at which a stream ends. */
export const endPart = 1_000_000;
