import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { connect } from "node:tls";
import type { ListenerConfig } from "../../src/config/config.ts";
import { readCertificate } from "../../src/lib/http/certificate.ts";
import { canShare } from "../../src/lib/linux/reuse-port.ts";
import { connectionDrainSeconds } from "../../src/server/listener.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const fixture = (name: string) => `test/fixtures/tls/${name}.pem`;
const both = [readFileSync(fixture("cert"), "utf8"), readFileSync(fixture("next-cert"), "utf8")];
const fingerprints = both.map((pem) => new X509Certificate(pem).fingerprint256);

/** A certificate and its key as files that a test replaces. */
class Files {
  readonly #folder: TempFolder;
  #inUse = 0;
  constructor(folder: TempFolder) {
    this.#folder = folder;
    this.#put("");
  }
  get listener(): ListenerConfig {
    const { cert, key } = this;
    return {
      address: { kind: "tcp", host: "127.0.0.1", port: 0 },
      surfaces: ["orchestrator", "gateway"],
      tls: { cert, key },
    };
  }
  get cert(): string {
    return this.#folder.file("cert.pem");
  }
  get key(): string {
    return this.#folder.file("key.pem");
  }
  /** The fingerprint of what is there now. */
  get fingerprint(): string {
    return fingerprints[this.#inUse]!;
  }
  swap(): void {
    this.#inUse = 1 - this.#inUse;
    this.#put(this.#inUse === 0 ? "" : "next-");
  }
  #put(prefix: string): void {
    copyFileSync(fixture(`${prefix}cert`), this.cert);
    copyFileSync(fixture(`${prefix}key`), this.key);
  }
}

/** What a new connection is shown. */
function presented(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port: Number(new URL(url).port), servername: "localhost", ca: both });
    socket.on("error", reject);
    socket.on("secureConnect", () => {
      resolve(socket.getPeerX509Certificate()!.fingerprint256);
      socket.destroy();
    });
  });
}

/** Sends a request with a body, by the agent's connections. @returns the answer's text */
function post(troupe: Troupe, agent: Agent): Promise<string> {
  const body = JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "hi" }] });
  const headers = {
    authorization: `Bearer ${troupe.key}`,
    "content-type": "application/json",
    "content-length": body.length,
  };
  return new Promise((resolve, reject) => {
    const sending = request(
      `${troupe.url}/gateway/v1/chat/completions`,
      { method: "POST", agent, headers },
      (answer) => {
        let text = "";
        answer.on("data", (part) => {
          text += part;
        });
        answer.on("end", () => resolve(text));
        answer.on("error", reject);
      },
    );
    sending.on("error", reject);
    sending.end(body);
  });
}

describe("a certificate that changes", () => {
  test.skipIf(!canShare()).each([true, false])(
    "costs no request under load, neither on kept connections nor on new ones (kept: %p)",
    async (keepAlive) => {
      using folder = new TempFolder();
      const files = new Files(folder);
      await using troupe = await Troupe.start({ config: { listen: [files.listener] } });
      const agent = new Agent({ keepAlive, maxSockets: 16, ca: both });
      const outcomes = { answered: 0, faults: [] as unknown[] };
      let over = false;
      const client = async () => {
        while (!over) {
          try {
            expect(await post(troupe, agent)).toContain('"content":"hi"');
            outcomes.answered += 1;
          } catch (error) {
            outcomes.faults.push(error);
          }
        }
      };
      const answered = async (more: number) => {
        const goal = outcomes.answered + more;
        while (outcomes.answered < goal && outcomes.faults.length === 0)
          await new Promise((resolve) => setImmediate(resolve));
      };
      const clients = Array.from({ length: 16 }, client);
      for (let time = 0; time < 4; time += 1) {
        await answered(100);
        files.swap();
        expect(troupe.server.reload(troupe.server.services.live.config)).toEqual([
          `the certificate of ${troupe.server.urls[0]}`,
        ]);
        expect(await presented(troupe.url)).toBe(files.fingerprint);
      }
      await answered(100);
      over = true;
      await Promise.all(clients);
      agent.destroy();
      expect(outcomes.faults).toEqual([]);
      expect(outcomes.answered).toBeGreaterThan(500);
    },
  );

  test("leaves a stream that runs alone, even past the old server's end", async () => {
    using folder = new TempFolder();
    const files = new Files(folder);
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    const clock = new ManualClock();
    await using troupe = await Troupe.start({
      clock,
      providers: {
        openai: {
          baseUrl: upstream.url,
          timeouts: { connectSeconds: 300, firstByteSeconds: 300, idleSeconds: 300 },
        },
      },
      config: { listen: [files.listener] },
    });
    const body = { model: "openai/x", messages: [{ role: "user", content: "hi" }], stream: true };
    const streaming = fetch(`${troupe.url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${troupe.key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      tls: { ca: both },
    });
    await upstream.received(1);
    held.fragment("one");
    const stream = await streaming;
    files.swap();
    troupe.server.reload(troupe.server.services.live.config);
    clock.advance(connectionDrainSeconds(troupe.server.services.live.config) * 1000);
    expect(troupe.server.pending).toBe(1);
    held.fragment("two");
    held.finish();
    const text = await stream.text();
    expect(text).toContain('"content":"two"');
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(await presented(troupe.url)).toBe(files.fingerprint);
  });

  test("that is changed again before the old servers ended is the one that new connections see, and stays it", async () => {
    using folder = new TempFolder();
    const files = new Files(folder);
    const clock = new ManualClock();
    await using troupe = await Troupe.start({ clock, config: { listen: [files.listener] } });
    for (let time = 0; time < 3; time += 1) {
      files.swap();
      troupe.server.reload(troupe.server.services.live.config);
      clock.advance(1000);
    }
    for (let passed = 0; passed < connectionDrainSeconds(troupe.server.services.live.config) + 3; passed += 1) {
      expect(await presented(troupe.url)).toBe(files.fingerprint);
      clock.advance(1000);
    }
  });

  test("that is at fault changes nothing, neither itself nor the settings", async () => {
    using folder = new TempFolder();
    const files = new Files(folder);
    await using troupe = await Troupe.start({ config: { listen: [files.listener] } });
    const before = troupe.server.services.live;
    copyFileSync(fixture("next-key"), files.key);
    const next = { ...before.config, shutdown: { delaySeconds: 0, drainSeconds: 1 } };
    expect(() => troupe.server.reload(next)).toThrow(`${files.key} is not the key of the certificate ${files.cert}`);
    writeFileSync(files.cert, "nonsense");
    expect(() => troupe.server.reload(next)).toThrow(`${files.cert} is no certificate in PEM form`);
    expect(troupe.server.services.live).toBe(before);
    expect(await presented(troupe.url)).toBe(fingerprints[0]!);
  });

  test("that has not changed is left alone", async () => {
    using folder = new TempFolder();
    const files = new Files(folder);
    await using troupe = await Troupe.start({ config: { listen: [files.listener] } });
    expect(troupe.server.reload(troupe.server.services.live.config)).toEqual([]);
  });
});

describe("reading a certificate", () => {
  test("tells when it ends", () => {
    expect(readCertificate({ cert: fixture("cert"), key: fixture("key") }).expiresAt.getUTCFullYear()).toBe(2126);
  });

  test("names the file that is not there", () => {
    expect(() => readCertificate({ cert: "/nowhere/cert.pem", key: fixture("key") })).toThrow(
      "/nowhere/cert.pem can't be read (ENOENT)",
    );
    expect(() => readCertificate({ cert: fixture("cert"), key: fixture("cert") })).toThrow(
      `${fixture("cert")} is no private key in PEM form`,
    );
  });
});

test("a server that can't use its certificate does not start, and leaves nothing open", async () => {
  using folder = new TempFolder();
  const files = new Files(folder);
  writeFileSync(files.key, "nonsense");
  const starting = Troupe.start({ data: folder.file("data"), config: { listen: [files.listener] } });
  await expect(starting).rejects.toThrow("is no private key");
});
