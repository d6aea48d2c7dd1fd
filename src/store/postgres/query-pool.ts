/**
 * Asks a PostgreSQL server. Bun's client has no time limit for a query, and gives up neither a connection that went silent nor the
 * place it has in its pool. So each query has a deadline here, and one that passes on a query that was sent ends in a new pool.
 *
 * Every statement is one that may be sent twice: one whose connection broke is, once, as nobody can say whether it was applied.
 */
import type { SQL } from "bun";
import { type Clock, setDeadline } from "../../lib/time/clock.ts";
import { located, StorageError, type StorageErrorKind } from "../contract/storage-error.ts";
import { type ServerUse, serverSeconds } from "../metrics.ts";
import { faultPlace } from "../sql/fault-place.ts";
import type { Parameter, Parameters, Rows, Sql } from "../sql/sql.ts";
import { asPostgresError, away, isAway, isReadOnly, isUndone } from "./errors.ts";

type Ask = <R>(text: string, parameters?: readonly Parameter[]) => Promise<Rows<R>>;

type QueryPoolOptions = {
  /** Purpose of the connections, for metrics. */
  readonly name?: string;
  /** Opens the client's pool, of as many connections. */
  readonly connect: () => SQL;
  readonly connections: number;
  /** From the call of a method to its end, in milliseconds, the wait for a connection included. */
  readonly deadlineMs: number;
  /** The server's address, for messages. */
  readonly place: string;
  readonly clock: Clock;
  /** True if the server is known to be away, so that asking would only wait. */
  readonly isAway?: () => boolean;
  /** Called with each error of the client or the server. */
  readonly onError?: (error: unknown) => void;
};

/** One pool of the client, from its first query to its last. */
type Generation = { readonly sql: SQL; busy: number; isRetired: boolean };
/** A connection's place in a pool, until what it is held for ends or is late. */
type Place = { readonly generation: Generation; isFree: boolean };
/** One caller's question. */
type Question = { readonly expiry: AbortController; held: Place | undefined };

/** Kinds of errors with which a server that is there refuses for the state that it is in. */
const refusals = new Set<StorageErrorKind>(["full", "readonly", "busy"]);
/** A refusal that is older says nothing of now, as nobody has asked the same since. */
const refusalMs = 30_000;

/** Beyond it nobody waits for a connection. */
const maxWaiting = 10_000;

export class QueryPool implements Sql {
  readonly options: QueryPoolOptions;
  #current: Generation;
  readonly #waiting = new Set<(generation: Generation) => void>();
  #isClosed = false;
  #refused: { readonly text: string; readonly error: StorageError; readonly at: number } | undefined;

  /** Counters since the start: statements, those that failed, deadlines that passed, and pools that were thrown away for it. */
  readonly counts = { statements: 0, failed: 0, late: 0, replaced: 0 };
  readonly #seconds = serverSeconds();

  constructor(options: QueryPoolOptions) {
    this.options = options;
    this.#current = this.#open();
  }

  /** Present use of the pool. */
  get use(): ServerUse {
    const { name = "", connections } = this.options;
    return { name, connections, busy: this.#current.busy, waiting: this.#waiting.size, seconds: this.#seconds };
  }

  /**
   * Runs one statement that may be sent twice.
   * @throws StorageError: `away` when it may have been applied or not
   */
  async run<R>(text: string, parameters: Parameters = []): Promise<Rows<R>> {
    try {
      const rows = await this.#run<R>(text, parameters);
      if (this.#refused?.text === text) this.#refused = undefined;
      return rows;
    } catch (error) {
      if (error instanceof StorageError && refusals.has(error.kind))
        this.#refused = { text, error, at: this.options.clock.monotonic() };
      throw located(error, faultPlace(text, typeof parameters === "function" ? [] : parameters));
    }
  }

  async runBoth(change: string, next: string, parameters: readonly Parameter[]): Promise<boolean> {
    const text = `with changed as (${change} returning 1), next as (${next}) select count(*)::int as count from changed`;
    return (await this.run<{ count: number }>(text, parameters))[0]!.count > 0;
  }

  /** The latest statement that the server refused lately, though it is there, until the same works again. */
  get refusal(): StorageError | undefined {
    const refused = this.#refused;
    if (refused === undefined || this.options.clock.monotonic() - refused.at > refusalMs) return undefined;
    return refused.error;
  }

  #run<R>(text: string, parameters: Parameters): Promise<Rows<R>> {
    const given = (again: boolean) => [...(typeof parameters === "function" ? parameters(again) : parameters)];
    return this.#withinDeadline(async (question) => {
      for (let again = false; ; again = true) {
        try {
          return plain(await this.#on(question, ({ sql }) => sql.unsafe(text, given(again)) as Promise<Rows<R>>));
        } catch (error) {
          const mayWork = isAway(error) || isUndone(error);
          if (again || !mayWork || question.expiry.signal.aborted) throw error;
        }
      }
    });
  }

  /**
   * Runs statements as one, on one connection. What was committed may still be rejected.
   * @param work may throw, which undoes all of it
   * @throws what `work` throws, StorageError
   */
  transaction<T>(work: (ask: Ask) => Promise<T>): Promise<T> {
    return this.#withinDeadline(
      (question) =>
        this.#on(question, ({ sql }) =>
          sql.begin((own) =>
            work(<R>(text: string, parameters: readonly Parameter[] = []) => {
              return own.unsafe(text, [...parameters]) as Promise<Rows<R>>;
            }),
          ),
        ) as Promise<T>,
    );
  }

  /** Throws the connections away, those with a query in flight too. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#current.sql.close({ timeout: 0 });
  }

  async #withinDeadline<T>(work: (question: Question) => Promise<T>): Promise<T> {
    const { place, clock, deadlineMs } = this.options;
    if (this.#isClosed) throw new StorageError("unusable", place, `The database ${place} was closed.`);
    if (this.options.isAway?.() === true) throw away(place, "it did not answer before");
    this.counts.statements += 1;
    const askedAt = clock.monotonic();
    const question: Question = { expiry: new AbortController(), held: undefined };
    const working = work(question);
    // Nobody waits for what ends after the deadline.
    working.catch(() => {});
    const late = Promise.withResolvers<never>();
    const cancelTimer = setDeadline(clock, deadlineMs, () => {
      const { held } = question;
      late.reject(away(place, held === undefined ? "every connection is busy" : `no answer within ${deadlineMs} ms`));
      this.#expire(question);
    });
    try {
      return await Promise.race([working, late.promise]);
    } catch (error) {
      this.counts.failed += 1;
      this.options.onError?.(error);
      throw asPostgresError(error, place);
    } finally {
      cancelTimer();
      this.#seconds.observe((clock.monotonic() - askedAt) / 1000);
    }
  }

  /** Gives up a question. Nothing less than a new pool gives back the place of a connection that has gone silent. */
  #expire({ expiry, held }: Question): void {
    this.counts.late += 1;
    expiry.abort();
    if (held === undefined) return;
    this.#retire(held.generation);
    this.#free(held);
  }

  #retire(generation: Generation): void {
    if (generation.isRetired || this.#isClosed) return;
    this.counts.replaced += 1;
    generation.isRetired = true;
    this.#current = this.#open();
    this.#grant();
  }

  async #on<T>(question: Question, use: (generation: Generation) => Promise<T>): Promise<T> {
    const generation = await this.#take(question.expiry.signal);
    const held: Place = { generation, isFree: false };
    question.held = held;
    try {
      return await use(generation);
    } catch (error) {
      // A standby that was the primary before: new connections may lead to the one that is it now.
      if (isReadOnly(error)) this.#retire(generation);
      throw error;
    } finally {
      question.held = undefined;
      this.#free(held);
    }
  }

  /** One query has a connection at a time: none waits behind another's, to be cut off or held up with it. */
  async #take(expired: AbortSignal): Promise<Generation> {
    if (this.#current.busy < this.options.connections) {
      this.#current.busy += 1;
      return this.#current;
    }
    const { promise, resolve, reject } = Promise.withResolvers<Generation>();
    if (this.#waiting.size >= maxWaiting) throw away(this.options.place, "too many wait for a connection");
    this.#waiting.add(resolve);
    expired.addEventListener("abort", () => {
      this.#waiting.delete(resolve);
      reject(expired.reason);
    });
    return promise;
  }

  #free(held: Place): void {
    if (held.isFree) return;
    held.isFree = true;
    const { generation } = held;
    generation.busy -= 1;
    if (!generation.isRetired) this.#grant();
    else if (generation.busy === 0) void generation.sql.close({ timeout: 0 }).catch(() => {});
  }

  #grant(): void {
    for (const resolve of this.#waiting) {
      if (this.#current.busy >= this.options.connections) return;
      this.#waiting.delete(resolve);
      this.#current.busy += 1;
      resolve(this.#current);
    }
  }

  #open(): Generation {
    return { sql: this.options.connect(), busy: 0, isRetired: false };
  }
}

/** For what calls may wait for, and for what none waits for. */
export type QueryPools = { readonly path: QueryPool; readonly background: QueryPool };

/** The client gives rows with methods of their own, and Buffers in them. */
function plain<R>(rows: Rows<R>): Rows<R> {
  const found = rows.map((row) => {
    const own = { ...row } as Record<string, unknown>;
    for (const name in own) if (own[name] instanceof Uint8Array) own[name] = plainBytes(own[name]);
    return own as R;
  });
  return Object.assign(found, { count: rows.count });
}

const plainBytes = ({ buffer, byteOffset, byteLength }: Uint8Array) => new Uint8Array(buffer, byteOffset, byteLength);
