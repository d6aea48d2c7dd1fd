/** Keys split into groups, as deploy/cluster/haproxy-groups.cfg does it: the shipped file, a real HAProxy, and real nodes. */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { shownLength } from "../../src/auth/key-secret.ts";
import { replaced } from "../helpers/balancers.ts";
import { freePort } from "../helpers/free-port.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";

const isMissing = Bun.which("haproxy") === null;

/** @param nodes of each group, as host:port */
function writeExample(folder: TempFolder, port: number, [a, b]: readonly [string, string], lines: string): string {
  const text = replaced(readFileSync("deploy/cluster/haproxy-groups.cfg", "utf8"), [
    ["a-1:8080", a],
    ["a-2:8080", "127.0.0.1:1"],
    ["b-1:8080", b],
    ["b-2:8080", "127.0.0.1:1"],
    ["bind :8080", `bind 127.0.0.1:${port}`],
    ["/etc/haproxy/groups.map", folder.file("groups.map")],
    ["/run/haproxy.sock", folder.file("haproxy.sock")],
    // So that a test need not wait.
    ["inter 1s", "inter 100ms"],
  ]);
  writeFileSync(folder.file("groups.map"), `${readFileSync("deploy/cluster/groups.map", "utf8")}${lines}`);
  writeFileSync(folder.file("haproxy.cfg"), text);
  return folder.file("haproxy.cfg");
}

test.skipIf(isMissing)(
  "a key reaches its group, wherever its client puts it, and a new one without a reload",
  async () => {
    await using stack = new AsyncDisposableStack();
    const start = async () => {
      const folder = stack.use(new TempFolder());
      return stack.use(await TroupeProcess.start(folder.path, "http://127.0.0.1:1"));
    };
    const [a, b] = await Promise.all([start(), start()]);
    const folder = stack.use(new TempFolder());
    const port = freePort();
    const lineOf = ({ key }: TroupeProcess, group: string) => `${key.slice(0, shownLength)} ${group}`;
    const hosts = [new URL(a.url).host, new URL(b.url).host] as const;
    const file = writeExample(folder, port, hosts, `${lineOf(b, "group-b")}\n`);
    const checked = Bun.spawnSync(["haproxy", "-c", "-f", file]);
    expect({ code: checked.exitCode, output: `${checked.stderr}`.match(/.*\[(ALERT|WARNING)\].*/g) }).toEqual({
      code: 0,
      output: null,
    });
    const haproxy = Bun.spawn(["haproxy", "-f", file, "-db"], { stdio: ["ignore", "ignore", "ignore"] });
    stack.defer(async () => {
      haproxy.kill();
      await haproxy.exited;
    });
    const ask = async (headers: Record<string, string>, query = "", path = "/gateway/v1/chat/completions") => {
      const response = await fetch(`http://127.0.0.1:${port}${path}${query}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({
          ...(path.endsWith("completions") && { model: "builtin/echo", messages: [{ role: "user", content: "x" }] }),
          ...(path.includes("generate") && { contents: [{ role: "user", parts: [{ text: "x" }] }] }),
        }),
      });
      await response.arrayBuffer();
      return response.status;
    };
    const bearer = ({ key }: TroupeProcess) => ({ authorization: `Bearer ${key}` });
    while ((await ask(bearer(a)).catch(() => 503)) === 503 || (await ask(bearer(b))) === 503) await Bun.sleep(20);
    expect(await ask(bearer(a))).toBe(200);
    expect(await ask(bearer(b))).toBe(200);
    expect(await ask({ authorization: `bearer  ${b.key}` })).toBe(200);
    for (const name of ["x-api-key", "x-goog-api-key", "api-key"]) expect(await ask({ [name]: b.key })).toBe(200);
    const gemini = "/gateway/v1beta/models/builtin%2Fecho:generateContent";
    expect(await ask({}, `?key=${b.key}`, gemini)).toBe(200);
    // The other group does not know it: what answered above was its own.
    expect((await fetch(`${a.url}/gateway/v1/models`, { headers: bearer(b) })).status).toBe(401);
    expect(await ask({})).toBe(401);
    expect(await ask({ authorization: "Bearer trp_nobodys" })).toBe(401);

    // The operator adds a key of group-b: here it stands for one of group-a's that moves.
    const added = `add map ${folder.file("groups.map")} ${lineOf(a, "group-b")}\n`;
    const said = Promise.withResolvers<void>();
    const socket = await Bun.connect({
      unix: folder.file("haproxy.sock"),
      socket: { data: () => {}, close: () => said.resolve(), open: (own) => void own.write(added) },
    });
    await said.promise;
    socket.end();
    expect(await ask(bearer(a))).toBe(401);
    expect(await ask(bearer(b))).toBe(200);
  },
);
