/** Live streams by a server that is made a replica: it can be read, and nothing reaches it. */
import { expect, test } from "bun:test";
import { LiveRuns } from "../../src/idempotency/live-runs.ts";
import { systemClock } from "../../src/lib/clock.ts";
import type { Logger } from "../../src/lib/log.ts";
import { openRedisStreams } from "../../src/store/redis/live-streams.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";

/** A log that can be waited for. */
class HeardLog {
  readonly lines: string[] = [];
  #waiting: (() => void)[] = [];
  readonly #add = (words: string, fields?: { readonly error?: unknown }) => {
    this.lines.push(`${words}: ${fields?.error instanceof Error ? fields.error.message : ""}`);
    for (const tell of this.#waiting.splice(0)) tell();
  };
  readonly logger = { info: this.#add, warn: this.#add, error: this.#add } as unknown as Logger;
  async has(count: number): Promise<void> {
    while (this.lines.length < count) await new Promise<void>((told) => this.#waiting.push(told));
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
    await log.has(1);
    expect(runs.isHearing).toBe(true);
    await server.ask("REPLICAOF", "127.0.0.1", "1");
    await log.has(2);
    expect(runs.isHearing).toBe(false);
    expect(log.lines[1]).toContain("(READONLY): it is a replica, which takes no writes");
    // Reads go on meanwhile, and say nothing.
    const reads = async () => Number(/cmdstat_xread:calls=(\d+)/.exec(String(await server.ask("INFO", "all")))?.[1]);
    const before = await reads();
    while ((await reads()) < before + 2);
    expect([runs.isHearing, log.lines.length]).toEqual([false, 2]);
    await server.ask("REPLICAOF", "NO", "ONE");
    await log.has(3);
    expect([runs.isHearing, runs.counts.lost]).toEqual([true, 1]);
    await runs.close();
  },
  30_000,
);
