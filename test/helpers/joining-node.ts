/** Nodes that keep calls in PostgreSQL: all but HTTP, in this process, each with a way of its own to the database. */
import { Idempotency, type IdempotentAnswer } from "../../src/idempotency/idempotency.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { openPostgresStore, type PostgresStore } from "../../src/store/postgres/store.ts";
import type { Producer, StreamEnd } from "../../src/upstream/answer.ts";
import type { PostgresServer } from "./postgres.ts";
import { ScriptedUpstream } from "./scripted-upstream.ts";
import { SwitchedProxy } from "./switched-proxy.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 16_000_000 };

export class JoiningNode implements AsyncDisposable {
  readonly store: PostgresStore;
  readonly idempotency: Idempotency;
  /** To the database. */
  readonly database: SwitchedProxy;
  readonly upstream = new ScriptedUpstream();

  private constructor(store: PostgresStore, database: SwitchedProxy) {
    this.store = store;
    this.database = database;
    this.idempotency = new Idempotency(store, systemClock, () => rules);
  }

  /** @param terms `statementSeconds`: longer than a statement takes on a machine that has other work */
  static async open(
    postgres: PostgresServer,
    url: string,
    { statementSeconds = 8, leaseSeconds = 3 } = {},
  ): Promise<JoiningNode> {
    const proxy = new SwitchedProxy(postgres.port);
    const store = await openPostgresStore({
      url: postgres.url(new URL(url).pathname.slice(1), proxy.port),
      pool: 4,
      statementSeconds,
      leaseSeconds,
      keysWithoutDatabaseSeconds: 60,
    });
    return new JoiningNode(store, proxy);
  }

  ask(id: string, options: { lastEventId?: string; signal?: AbortSignal; produce?: Producer } = {}): JoiningReader {
    const { signal, produce = this.upstream.produce, ...rest } = options;
    const claim = { scope: "s", requestId: id, fingerprint: "f" };
    return new JoiningReader((leaving) =>
      this.idempotency.run(claim, signal ? AbortSignal.any([signal, leaving]) : leaving, produce, rest),
    );
  }

  get statements(): number {
    return this.store.database!().statements;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.idempotency.close();
    await this.store.close();
    this.database[Symbol.dispose]();
  }
}

/** A caller that reads all it gets. */
export class JoiningReader {
  readonly events: string[] = [];
  /** When each came. */
  readonly times: number[] = [];
  answer: IdempotentAnswer | undefined;
  error: unknown;
  end: StreamEnd | undefined;
  readonly ended: Promise<void>;
  readonly #leaving = new AbortController();
  readonly #wakes = new Set<() => void>();

  constructor(ask: (signal: AbortSignal) => Promise<IdempotentAnswer>) {
    this.ended = this.#read(ask).catch((error) => {
      this.error = error;
      this.#wake();
    });
  }

  async #read(ask: (signal: AbortSignal) => Promise<IdempotentAnswer>): Promise<void> {
    this.answer = await ask(this.#leaving.signal);
    this.#wake();
    const { answer } = this.answer;
    if (answer.kind === "whole") return;
    for (;;) {
      const { value, done } = await answer.events.next();
      if (done === true) {
        this.end = value;
        this.#wake();
        return;
      }
      for (const event of value) {
        this.events.push(event);
        this.times.push(performance.now());
      }
      this.#wake();
    }
  }

  #wake(): void {
    for (const wake of this.#wakes) wake();
    this.#wakes.clear();
  }

  /** Resolves once that is so, or it ended in an error. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo() && this.error === undefined) await new Promise<void>((wake) => this.#wakes.add(wake));
  }

  /** Resolves once it has that many events. */
  has(count: number): Promise<void> {
    return this.until(() => this.events.length >= count);
  }

  leave(): void {
    this.#leaving.abort();
  }

  /** The id of an event, as a client sends it to go on after it. */
  idOf(number: number): string {
    return /^id: (.*)$/m.exec(this.events[number]!)![1]!;
  }
}
