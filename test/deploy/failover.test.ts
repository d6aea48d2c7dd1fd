/** Two servers of the coordination behind deploy/cluster/haproxy-valkey.cfg, of which one takes over from the other. */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { systemClock } from "../../src/lib/time/clock.ts";
import { RedisConnection } from "../../src/store/redis/connection.ts";
import { replaced } from "../helpers/balancers.ts";
import { freePort } from "../helpers/free-port.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

test.skipIf(Bun.which("haproxy") === null || !hasRedis)(
  "who was connected to the old primary is with the new one, and nobody is let in while there are two",
  async () => {
    await using stack = new AsyncDisposableStack();
    const [one, two] = [stack.use(await RedisServer.start()), stack.use(await RedisServer.start())];
    const folder = stack.use(new TempFolder());
    const port = freePort();
    const text = replaced(readFileSync("deploy/cluster/haproxy-valkey.cfg", "utf8"), [
      ["valkey-1:6379", `127.0.0.1:${one.port}`],
      ["valkey-2:6379", `127.0.0.1:${two.port}`],
      ["valkey-3:6379", "127.0.0.1:1"],
      ["bind :6379", `bind 127.0.0.1:${port}`],
      // So that a test need not wait; and with patience for a machine that runs many.
      ["inter 500ms", "inter 50ms"],
      ["timeout check 2s", "timeout check 60s"],
    ]);
    writeFileSync(folder.file("haproxy.cfg"), text);
    const command = ["haproxy", "-f", folder.file("haproxy.cfg")];
    const checked = Bun.spawnSync([...command, "-c"]);
    expect({ code: checked.exitCode, output: `${checked.stderr}`.match(/.*\[(ALERT|WARNING)\].*/g) }).toEqual({
      code: 0,
      output: null,
    });
    await two.ask("REPLICAOF", "127.0.0.1", String(one.port));
    const haproxy = Bun.spawn([...command, "-db"], { stdio: ["ignore", "ignore", "ignore"] });
    stack.defer(async () => {
      haproxy.kill();
      await haproxy.exited;
    });
    const open = () =>
      stack.adopt(new RedisConnection(`redis://127.0.0.1:${port}/0`, 2_000, systemClock), (c) => c.close());
    const connection = open();
    /** By the same connection as long as it lasts. */
    const set = (value: string) => connection.run("SET", ["troupe:a", value]).catch(() => undefined);
    while ((await set("first")) !== "OK") await Bun.sleep(10);
    expect(await one.ask("GET", "troupe:a")).toBe("first");
    await two.ask("REPLICAOF", "NO", "ONE");
    await one.ask("REPLICAOF", "127.0.0.1", String(two.port));
    while ((await two.ask("GET", "troupe:a")) !== "second") await set("second");
    await one.ask("REPLICAOF", "NO", "ONE");
    const isLetIn = () =>
      open()
        .run("PING", [])
        .then(
          () => true,
          () => false,
        );
    while (await isLetIn());
    expect(await set("third")).toBe("OK");
    expect(await two.ask("GET", "troupe:a")).toBe("third");
  },
);
