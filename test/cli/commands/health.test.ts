import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { ListenerConfig } from "../../../src/config/config.ts";
import { freePort } from "../../helpers/free-port.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

test("health asks the server of the configuration, wherever it listens, and says when there is none", async () => {
  using folder = new TempFolder();
  const tcp = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const tls = { cert: "test/fixtures/tls/cert.pem", key: "test/fixtures/tls/key.pem" };
  const socket = folder.file("troupe.sock");
  const surfaces: ListenerConfig["surfaces"] = ["orchestrator", "gateway"];
  const listen: ListenerConfig[] = [
    { address: tcp, surfaces },
    { address: tcp, surfaces, tls },
    { address: { kind: "unix", path: socket }, surfaces },
  ];
  const shell = new Console(folder.path);
  let addresses: string[];
  {
    await using troupe = await Troupe.start({ config: { listen } });
    addresses = troupe.server.urls;
    const ports = addresses.slice(0, 2).map((url) => new URL(url).port);
    const files = process.cwd();
    for (const yaml of [
      `listen: 127.0.0.1:${ports[0]}\n`,
      `listen: 0.0.0.0:${ports[0]}\n`,
      `listen: {address: "127.0.0.1:${ports[1]}", tls: {cert: ${files}/${tls.cert}, key: ${files}/${tls.key}}}\n`,
      `listen: unix:${socket}\n`,
    ]) {
      writeFileSync(folder.file("troupe.yaml"), yaml);
      expect(await shell.run("health")).toMatchObject({ code: 0, out: "ok\n" });
    }
  }
  const gone = await shell.run(`--host 127.0.0.1 --port ${new URL(addresses[0]!).port} health --config none.yaml`);
  expect(gone.code).not.toBe(0);
  expect(await shell.run("health")).toEqual({
    code: 1,
    out: "",
    err: `error: No server listens at unix:${socket}. Does it run, and with this configuration?\n`,
  });
});

test.each([
  [200, "ok", 0, ""],
  [200, "<html>", 1, "What answers at 127.0.0.1:PORT is no Troupe: status 200."],
  [404, "ok", 1, "What answers at 127.0.0.1:PORT is no Troupe: status 404."],
  [503, "draining", 1, "The server at 127.0.0.1:PORT takes no new requests: it is stopping."],
])("what answers %d %p is told apart", async (status, body, code, message) => {
  using folder = new TempFolder();
  const isWell = (path: string) => body === "ok" && status === 200 && path === "/health";
  const well = JSON.stringify({ status: "ok", checks: {} });
  using server = new UpstreamServer(({ path }) => new Response(isWell(path) ? well : body, { status }));
  const { port } = new URL(server.url);
  const ran = await new Console(folder.path).run(`health --port ${port}`);
  expect([ran.code, ran.out]).toEqual([code, code === 0 ? "ok\n" : ""]);
  expect(ran.err).toContain(message.replace("PORT", port));
});

test("what is degraded is told as /health tells it", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/a"), { recursive: true });
  writeFileSync(folder.file("personas/a/b.yaml"), "descripton: x\n");
  await using troupe = await Troupe.start({ personas: folder.file("personas") });
  await troupe.server.services.loading;
  const shell = new Console(folder.path);
  const { port } = new URL(troupe.url);
  expect(await shell.run(`health --port ${port}`)).toMatchObject({ code: 0, out: "degraded\npersonas: failing\n" });
  const asked = (await (await troupe.fetch("/health")).json()) as { uptime_seconds: number };
  const told = JSON.parse((await shell.run(`health --port ${port} --json`)).out);
  expect(told).toEqual({ ...asked, uptime_seconds: told.uptime_seconds });
});

test("a free port or a name that nobody has can't be asked", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  expect((await shell.run("health --port 0")).err).toContain("name the one it took with --port.");
  const closed = freePort();
  expect((await shell.run(`health --port ${closed}`)).err).toContain(`No server listens at 127.0.0.1:${closed}.`);
});
