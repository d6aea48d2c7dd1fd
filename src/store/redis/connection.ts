/**
 * A connection to a Valkey or Redis server. Bun's client has no time limit for a command, and stays deaf for ever once a try to
 * connect took too long. So each command has a deadline here, and whatever goes wrong ends in a new client.
 *
 * Every command is one that may be sent twice: one whose connection broke is, once, as nobody can say whether it was applied.
 */
import { RedisClient } from "bun";
import { type Clock, withTimeout } from "../../lib/time/clock.ts";
import { StorageError } from "../contract/storage-error.ts";
import { type CoordinationState, serverSeconds } from "../metrics.ts";
import { asRedisError, away, isAway, isDemoted } from "./errors.ts";
import { isSecure, wasEnded, whyRefused } from "./refusal.ts";

/** @returns the address without user and password, for people */
export function placeOf(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname === "/" ? "" : pathname}`;
}

/** Arguments of a command; where they depend on the server's identity, they are made for each connection. */
export type Arguments = string[] | ((server: string) => string[]);
type Connected = { readonly client: RedisClient; readonly server: string };

/** Why a server can't be connected to is not found out again for so long. */
const explainedMs = 10_000;
/** In place of an identity. */
const none = "refused";

type RedisConnectionOptions = {
  /**
   * True if the server's identity is asked for at each connection: another one after a restart or a fail-over, so that what was named by it
   * is not found in an old copy of the data. One that does not let this user ask has none, "".
   */
  readonly identifies?: boolean;
};

export class RedisConnection {
  readonly #url: string;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #options: RedisConnectionOptions;
  readonly place: string;
  #client: Promise<Connected> | undefined;
  #isClosed = false;
  #isConnected = false;
  #wasConnected = false;
  #waiting = 0;
  #failed = 0;
  readonly #seconds = serverSeconds();
  #why: { readonly words: string | undefined; readonly until: number } | undefined;

  constructor(url: string, deadlineMs: number, clock: Clock, options: RedisConnectionOptions = {}) {
    this.#url = url;
    this.#deadlineMs = deadlineMs;
    this.#clock = clock;
    this.#options = options;
    this.place = placeOf(url);
  }

  /** State as it is now. @param name what it is used for */
  state(name: string): CoordinationState {
    const isConnected = this.#isConnected;
    const [waiting, failed, seconds] = [this.#waiting, this.#failed, this.#seconds];
    return { name, connections: 1, busy: Number(waiting > 0), isConnected, waiting, failed, seconds };
  }

  /** @throws StorageError: `away` when it may have been applied or not; the server's own errors */
  async run(command: string, args: Arguments): Promise<unknown> {
    if (this.#isClosed) throw new StorageError("unusable", this.place, `The connection to ${this.place} was closed.`);
    const askedAt = this.#clock.monotonic();
    this.#waiting += 1;
    try {
      return await this.#run(command, args);
    } catch (error) {
      // A script that it does not know is sent next.
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) this.#failed += 1;
      throw error;
    } finally {
      this.#waiting -= 1;
      this.#seconds.observe((this.#clock.monotonic() - askedAt) / 1000);
    }
  }

  async #run(command: string, args: Arguments): Promise<unknown> {
    const working = this.#try(command, args);
    // Nobody waits for what ends after the deadline.
    working.catch(() => {});
    const used = this.#client;
    const answered = await withTimeout(
      this.#clock,
      working.then((answer) => ({ answer })),
      this.#deadlineMs,
    );
    if (answered !== undefined) return answered.answer;
    this.#replace(used);
    throw away(this.place, `no answer within ${this.#deadlineMs} ms${this.#isSecure ? this.#tlsHint : ""}`);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#replace(this.#client);
  }

  async #try(command: string, args: Arguments): Promise<unknown> {
    for (let again = false; ; ) {
      const connecting = this.#connected();
      let isConnected = false;
      try {
        const { client, server } = await connecting;
        isConnected = true;
        return await client.send(command, typeof args === "function" ? args(server) : args);
      } catch (error) {
        const isOver = !isConnected || isAway(error) || isDemoted(error);
        if (isOver) this.#replace(connecting);
        if (isOver && !again && !this.#isClosed) {
          again = true;
          continue;
        }
        const meaning = asRedisError(error, this.place);
        throw meaning instanceof StorageError || !isOver ? meaning : await this.#away(error);
      }
    }
  }

  /** Says why no connection lasts, as far as that is found out in half the time that a command has. */
  async #away(error: unknown): Promise<StorageError> {
    const code = String((error as { code?: unknown }).code);
    if (this.#isClosed) return away(this.place, code);
    const now = this.#clock.monotonic();
    if (this.#why === undefined || now >= this.#why.until) {
      this.#why = { words: await whyRefused(this.#url, this.#clock, this.#deadlineMs / 2), until: now + explainedMs };
    }
    const { words } = this.#why;
    return away(this.place, `${words ?? code}${words === wasEnded && !this.#isSecure ? this.#tlsHint : ""}`);
  }

  get #isSecure(): boolean {
    return isSecure(this.#url);
  }

  /** Hint for a server that did not greet: each port speaks either TLS or none. */
  get #tlsHint(): string {
    if (this.#wasConnected) return "";
    return this.#isSecure ? "; redis:// if it has no TLS" : "; rediss:// if it wants TLS";
  }

  #connected(): Promise<Connected> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  async #connect(): Promise<Connected> {
    const client = new RedisClient(this.#url, {
      // A command that waits for a server counts when the server is back, and then wrongly.
      enableOfflineQueue: false,
      autoReconnect: false,
      connectionTimeout: Math.max(1_000, this.#deadlineMs),
      // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      ...(this.#isSecure && { tls: { rejectUnauthorized: true } }),
    });
    try {
      await client.connect();
      this.#why = undefined;
      this.#wasConnected = true;
      this.#isConnected = true;
      return { client, server: await this.#identityOf(client) };
    } catch (error) {
      client.close();
      throw error;
    }
  }

  /** Source: https://valkey.io/commands/info/ */
  async #identityOf(client: RedisClient): Promise<string> {
    if (this.#options.identifies !== true) return "";
    const asking: Promise<unknown> = client.send("INFO", ["server"]);
    const answered = asking.catch((error) => (isAway(error) ? Promise.reject(error) : none));
    const info = await withTimeout(this.#clock, answered, this.#deadlineMs);
    if (info === none) return "";
    const [, id] = /^run_id:(\w+)/m.exec(String(info)) ?? [];
    if (id === undefined) throw away(this.place, "it does not tell its run_id");
    return id;
  }

  /** Commands that wait for an answer of it end too. */
  #replace(client: Promise<Connected> | undefined): void {
    if (client === undefined || this.#client !== client) return;
    this.#client = undefined;
    this.#isConnected = false;
    client.then(
      (one) => one.client.close(),
      () => {},
    );
  }
}
