/** An upstream in a process of its own that ends its connections at every moment: none of its calls is ever made twice. */
import { expect, test } from "bun:test";
import { HttpClient } from "../../../src/lib/http/client.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { Random } from "../../helpers/random.ts";

/**
 * Ends a connection as the call says: `idle-…` so many microseconds after its answer, `taken-…` so many after it has read
 * the call, `part-…` after it has read some of it. With `reset` the connection is reset, with `end` it ends in order, with
 * `half` only its sending side does. The path `/taken` tells how often each call was read, wholly or in part.
 */
const upstream = `
  const taken = {};
  const spin = (us) => { for (const end = performance.now() + us / 1000; performance.now() < end; ); };
  const close = (socket, how) => how === "reset" ? socket.terminate() : how === "half" ? socket.shutdown() : socket.end();
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    allowHalfOpen: true,
    socket: {
      open(socket) { socket.data = ""; },
      data(socket, bytes) {
        const isFirst = socket.data === "";
        socket.data += bytes.toString("latin1");
        const { data } = socket;
        const [, path] = /^POST \\/(\\S+) /.exec(data) ?? [];
        if (path === undefined) return;
        const [id, when, how, us] = path.split("-");
        if (isFirst) taken[id] = (taken[id] ?? 0) + 1;
        if (when === "part") { spin(us); close(socket, how); return; }
        const length = Number(/content-length: (\\d+)/.exec(data)[1]);
        if (data.length < data.indexOf("\\r\\n\\r\\n") + 4 + length) return;
        socket.data = "";
        if (when === "taken") { spin(us); close(socket, how); return; }
        const body = path === "taken" ? JSON.stringify(taken) : "ok";
        socket.write("HTTP/1.1 200 OK\\r\\ncontent-length: " + body.length + "\\r\\n\\r\\n" + body);
        if (when === "idle") { spin(us); close(socket, how); }
      },
      end(socket) { socket.end(); },
      error() {},
    },
  });
  console.log(server.port);
`;

const calls = 6000;

test("a call that was read is made once, whenever and however its connection ends", async () => {
  const random = Random.fromEnvironment("ONCE_SEED");
  await using child = Bun.spawn([process.execPath, "-e", upstream], { stdout: "pipe", stderr: "inherit" });
  const { value } = await child.stdout.getReader().read();
  const url = `http://127.0.0.1:${new TextDecoder().decode(value).trim()}`;
  let client = new HttpClient(systemClock);
  const call = (path: string, size = 2) =>
    new Promise<string | Error>((resolve) => {
      let text = "";
      client.send(
        { method: "POST", url: `${url}/${path}`, headers: {}, body: "x".repeat(size) },
        {
          connected() {},
          head() {},
          push: (bytes) => {
            text += bytes.toString("latin1");
          },
          end: () => resolve(text),
          fail: resolve,
        },
        5000,
      );
    });
  const outcomes = new Map<number, string | Error>();
  let next = 0;
  const worker = async () => {
    while (next < calls) {
      const id = next;
      next += 1;
      const when = random.pick(["keep", "keep", "keep", "idle", "idle", "taken", "part"]);
      const how = random.pick(["end", "half", "reset"]);
      const us = random.pick([0, random.below(30), random.below(300)]);
      const size = random.pick([2, 2, 2, random.below(100_000), random.below(3_000_000)]);
      outcomes.set(id, await call(`${id}-${when}-${how}-${us}`, size));
      // The end of an idle connection is met at every moment: unread, read, and crossing with the next call.
      const until = performance.now() + random.pick([0, 0, random.below(300)]) / 1000;
      while (performance.now() < until);
      if (random.chance(20)) await new Promise(setImmediate);
    }
  };
  await Promise.all(Array.from({ length: 4 }, worker));
  // Over a connection of its own: the kept ones are ending.
  client.close();
  client = new HttpClient(systemClock);
  const taken = JSON.parse((await call("taken")) as string) as Record<number, number>;
  client.close();
  const twice = Object.entries(taken).filter(([, times]) => times > 1);
  expect({ seed: random.seed, twice }).toEqual({ seed: random.seed, twice: [] });
  const lost = [...outcomes].filter(([id, outcome]) => outcome === "ok" && taken[id] === undefined);
  expect(lost).toEqual([]);
  const answered = outcomes
    .values()
    .filter((outcome) => outcome === "ok")
    .toArray().length;
  expect(answered).toBeGreaterThan(calls / 2);
});
