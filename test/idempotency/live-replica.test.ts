/** Live streams by a server that is made a replica: it can be read, and nothing reaches it. */
import { expect, test } from "bun:test";
import { LiveRuns } from "../../src/idempotency/live-runs.ts";
import { systemClock } from "../../src/lib/clock.ts";
import type { Logger } from "../../src/lib/log.ts";
import { openRedisStreams } from "../../src/store/redis/live-streams.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";

const found = "streams of other nodes are followed live";

/** A log that can be waited for. */
class HeardLog {
  readonly lines: string[] = [];
  #waiting: (() => void)[] = [];
  readonly #add = (words: string, fields?: { readonly error?: unknown }) => {
    this.lines.push(`${words}: ${fields?.error instanceof Error ? fields.error.message : ""}`);
    for (const tell of this.#waiting.splice(0)) tell();
  };
  readonly logger = { info: this.#add, warn: this.#add, error: this.#add } as unknown as Logger;
  count(part: string): number {
    return this.lines.filter((line) => line.includes(part)).length;
  }
  async has(part: string, count: number): Promise<void> {
    while (this.count(part) < count) await new Promise<void>((told) => this.#waiting.push(told));
  }
}

test.skipIf(!hasRedis)(
  "are not heard while it is one, which the log says once, and are again once it is none",
  async () => {
    await using server = await RedisServer.start();
    const log = new HeardLog();
    const streams = openRedisStreams(server.url(), systemClock);
    const runs = new LiveRuns({ streams, clock: systemClock, log: log.logger, onAsked: () => {} });
    runs.start();
    await log.has(found, 1);
    expect(runs.isConnected).toBe(true);
    await server.ask("REPLICAOF", "127.0.0.1", "1");
    await log.has("(READONLY): it is a replica, which takes no writes", 1);
    expect(runs.isConnected).toBe(false);
    // Reads go on meanwhile, and say nothing.
    const before = [log.count(found), log.count("READONLY")];
    const reads = async () => Number(/cmdstat_xread:calls=(\d+)/.exec(String(await server.ask("INFO", "all")))?.[1]);
    const read = await reads();
    while ((await reads()) < read + 2);
    expect(runs.isConnected).toBe(false);
    expect([log.count(found), log.count("READONLY")]).toEqual(before);
    await server.ask("REPLICAOF", "NO", "ONE");
    await log.has(found, before[0]! + 1);
    expect(runs.isConnected).toBe(true);
    await runs.close();
  },
  30_000,
);
