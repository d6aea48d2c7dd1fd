import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import type { Listener } from "../../src/config/config.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { Console } from "./console.ts";

test("health asks the server of the configuration, wherever it listens, and says when there is none", async () => {
  using folder = new TempFolder();
  const tcp = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const tls = { cert: "test/fixtures/tls/cert.pem", key: "test/fixtures/tls/key.pem" };
  const socket = folder.file("troupe.sock");
  const surfaces: Listener["surfaces"] = ["orchestrator", "gateway"];
  const listen: Listener[] = [
    { address: tcp, surfaces },
    { address: tcp, surfaces, tls },
    { address: { kind: "unix", path: socket }, surfaces },
  ];
  const shell = new Console(folder.path);
  let addresses: string[];
  {
    await using troupe = await Troupe.start({ config: { listen } });
    addresses = troupe.server.addresses;
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
  expect((await shell.run("health")).code).toBe(1);
});
