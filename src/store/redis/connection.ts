/**
 * A connection to a Valkey or Redis server. Bun's client has no time limit for a command, and stays deaf for ever once a try to
 * connect took too long. So each command has a deadline here, and whatever goes wrong ends in a new client.
 *
 * Every command is one that may be sent twice: one whose connection broke is, once, as nobody can say whether it was applied.
 */
import { RedisClient } from "bun";
import { type Clock, withTimeout } from "../../lib/clock.ts";
import { StorageError } from "../storage-error.ts";

/** @returns the address without user and password, for people */
export function placeOf(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname === "/" ? "" : pathname}`;
}

/** Of a command; where they depend on the server's identity, they are made for each connection. */
export type Arguments = string[] | ((server: string) => string[]);
type Connected = { readonly client: RedisClient; readonly server: string };

export class RedisConnection {
  readonly #url: string;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #identifies: boolean;
  readonly place: string;
  #client: Promise<Connected> | undefined;
  #isClosed = false;

  /**
   * @param identifies whether the server's identity is asked for at each connection: another one after a restart or a fail-over, so that
   * what was named by it is not found in an old copy of the data
   */
  constructor(url: string, deadlineMs: number, clock: Clock, identifies = false) {
    this.#url = url;
    this.#deadlineMs = deadlineMs;
    this.#clock = clock;
    this.#identifies = identifies;
    this.place = placeOf(url);
  }

  /** @throws StorageError: `away` when it may have been applied or not; the server's own errors */
  async run(command: string, args: Arguments): Promise<unknown> {
    if (this.#isClosed) throw new StorageError("unusable", this.place, `The connection to ${this.place} was closed.`);
    const working = this.#try(command, args);
    // What ends after the deadline has nobody left to be told.
    working.catch(() => {});
    const used = this.#client;
    const answered = await withTimeout(
      this.#clock,
      working.then((answer) => ({ answer })),
      this.#deadlineMs,
    );
    if (answered !== undefined) return answered.answer;
    this.#replace(used);
    throw away(this.place, `no answer within ${this.#deadlineMs} ms`);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#replace(this.#client);
  }

  async #try(command: string, args: Arguments): Promise<unknown> {
    for (let again = false; ; again = true) {
      const connecting = this.#connected();
      let isConnected = false;
      try {
        const { client, server } = await connecting;
        isConnected = true;
        return await client.send(command, typeof args === "function" ? args(server) : args);
      } catch (error) {
        if (isConnected && !isAway(error)) throw error;
        this.#replace(connecting);
        if (!again && !this.#isClosed) continue;
        throw error instanceof StorageError ? error : away(this.place, String((error as { code?: unknown }).code));
      }
    }
  }

  #connected(): Promise<Connected> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  async #connect(): Promise<Connected> {
    const client = new RedisClient(this.#url, {
      // What waits for a server counts when it is back, and then wrongly.
      enableOfflineQueue: false,
      autoReconnect: false,
      connectionTimeout: Math.max(1_000, this.#deadlineMs),
    });
    try {
      await client.connect();
      return { client, server: this.#identifies ? await this.#identityOf(client) : "" };
    } catch (error) {
      client.close();
      throw error;
    }
  }

  /** Source: https://valkey.io/commands/info/ */
  async #identityOf(client: RedisClient): Promise<string> {
    const info = await withTimeout(this.#clock, client.send("INFO", ["server"]), this.#deadlineMs);
    const [, id] = /^run_id:(\w+)/m.exec(String(info)) ?? [];
    if (id === undefined) throw away(this.place, "it does not tell its run_id");
    return id;
  }

  /** Commands that wait for an answer of it end too. */
  #replace(client: Promise<Connected> | undefined): void {
    if (client === undefined || this.#client !== client) return;
    this.#client = undefined;
    client.then(
      (one) => one.client.close(),
      () => {},
    );
  }
}

/** Whether the server could not be asked. Its own errors have another code. */
function isAway(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && /^ERR_REDIS_(CONNECTION|IDLE)/.test(code);
}

function away(place: string, why: string): StorageError {
  return new StorageError(
    "away",
    place,
    `The coordination ${place} can't be reached (${why}): check the server, the way to it, its user and password.`,
  );
}
