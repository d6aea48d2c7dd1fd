/** Calls that cross the end of their connection on a long way: what was on its way before the call is no reaction to it. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const roundTripMs = 60;

/** Whether this machine lets a test have a network of its own. */
const canBeDistant =
  existsSync("/dev/net/tun") &&
  ["python3", "unshare", "ip"].every((program) => Bun.which(program) !== null) &&
  Bun.spawnSync(["unshare", "--net", "ip", "link", "set", "lo", "up"], { stderr: "ignore" }).exitCode === 0;

/** Ends each connection as the path says: so many milliseconds after its answer, or after it has read the call. */
const script = `
  import { HttpClient } from ${JSON.stringify(resolve("src/lib/http/client.ts"))};
  import { systemClock } from ${JSON.stringify(resolve("src/lib/time/clock.ts"))};
  const taken = {};
  const server = Bun.listen({
    hostname: "10.9.0.1",
    port: 0,
    socket: {
      data(socket, bytes) {
        const path = /^POST \\/(\\S+) /.exec(bytes.toString())[1];
        taken[path] = (taken[path] ?? 0) + 1;
        const [how, ms] = path.split("-");
        if (how !== "taken") socket.write("HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok");
        if (how !== "keep") setTimeout(() => socket.end(), Number(ms));
      },
    },
  });
  const client = new HttpClient(systemClock);
  const call = (path) => new Promise((resolve) => {
    let text = "";
    client.send({ method: "POST", url: "http://10.9.0.2:" + server.port + "/" + path, headers: {}, body: "{}" }, {
      connected() {}, head() {}, push(bytes) { text += bytes; }, end: () => resolve(text), fail: (error) => resolve(error.message),
    }, 5000);
  });
  const outcomes = { crossing: [], taken: [] };
  for (let at = 0, round = 0; at < 10; round += 1) {
    // The connection ends 5 ms after its answer left, which is one way ago when that arrives.
    await call("idle-5");
    await Bun.sleep(at);
    const begun = performance.now();
    const outcome = await call("keep-crossing" + round);
    // An end that a busy machine brings no sooner than a round trip after the call might be a reaction to it: such a round proves nothing.
    if (outcome !== "ok" && performance.now() - begun >= ${roundTripMs}) continue;
    outcomes.crossing.push(outcome);
    outcomes.taken.push(await call("taken-" + round));
    at += 1;
  }
  console.log(JSON.stringify({ outcomes, taken }));
  process.exit();
`;

test.skipIf(!canBeDistant)(
  "an end that left before the call came costs nothing, one that left after it does",
  async () => {
    const network = resolve("test/helpers/distant-network.py");
    const command = [
      "unshare",
      "--net",
      "python3",
      network,
      String(roundTripMs / 1000),
      process.execPath,
      "-e",
      script,
    ];
    const child = Bun.spawn(command, { stderr: "inherit" });
    const { outcomes, taken } = JSON.parse(await child.stdout.text()) as {
      outcomes: Record<"crossing" | "taken", string[]>;
      taken: Record<string, number>;
    };
    expect(outcomes.crossing).toEqual(new Array(10).fill("ok"));
    expect(outcomes.taken).toEqual(new Array(10).fill("the connection was closed"));
    const { "idle-5": _, ...once } = taken;
    const rounds = Object.keys(once).length;
    expect(rounds).toBeGreaterThanOrEqual(20);
    expect(Object.values(once)).toEqual(new Array(rounds).fill(1));
  },
);
