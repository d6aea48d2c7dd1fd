/** One connection to a real server, and what its deadline makes of a process that stood still. */
import { describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/lib/clock.ts";
import { RedisConnection } from "../../../src/store/redis/connection.ts";
import { hasRedis, RedisServer } from "../../helpers/redis.ts";

describe.skipIf(!hasRedis)("a connection to Redis", () => {
  test("takes the answer that came while the process stood still, and gives up a server that does", async () => {
    await using server = await RedisServer.start();
    const connection = new RedisConnection(server.url(), 200, systemClock);
    let pong = await connection.run("PING", []).catch(() => undefined);
    while (pong !== "PONG") pong = await connection.run("PING", []).catch(() => undefined);
    for (let at = 0; at < 5; at += 1) {
      const asked = connection.run("PING", []);
      Bun.sleepSync(300);
      expect(await asked).toBe("PONG");
    }
    server.signal("SIGSTOP");
    await expect(connection.run("PING", [])).rejects.toMatchObject({ kind: "away" });
    server.signal("SIGCONT");
    await connection.close();
  }, 30_000);
});
