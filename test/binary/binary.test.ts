/** The real executable, built once and driven from outside, as a user's machine would. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import OpenAI from "openai";
import { executableBuild, testExecutable } from "../helpers/executable.ts";

const folder = mkdtempSync(join(tmpdir(), "troupe-binary-"));
const binary = join(folder, "troupe");
/** Nothing of this environment may help. */
const env = { PATH: process.env["PATH"] ?? "", HOME: folder };

type Served = {
  url: string;
  key: string;
  process: Bun.Subprocess<"ignore", "pipe", "pipe">;
  data: string;
  log(): string;
};

/** Starts it and waits until it listens. */
async function serve(name: string, args: readonly string[] = [], more: Record<string, string> = {}): Promise<Served> {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  const child = Bun.spawn([binary, "serve", "--port", "0", ...args], {
    cwd,
    env: { ...env, ...more },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  let log = "";
  const listening = Promise.withResolvers<string>();
  void (async () => {
    for await (const part of child.stderr) {
      log += new TextDecoder().decode(part);
      const url = /"addresses":"(http:[^" ]+)/.exec(log)?.[1];
      if (url !== undefined) listening.resolve(url);
    }
    listening.reject(new Error(`it did not start: ${log}`));
  })();
  const url = await listening.promise;
  const data = join(cwd, "data");
  return { url, data, process: child, key: readFileSync(join(data, "first-key"), "utf8").trim(), log: () => log };
}

async function stop({ process }: Served): Promise<number> {
  process.kill("SIGTERM");
  return process.exited;
}

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = Bun.spawn([binary, ...args], { cwd: folder, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}

beforeAll(async () => {
  copyFileSync(await testExecutable(), binary);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the executable", () => {
  test("answers in an empty folder with nothing set up, and stops when told", async () => {
    const served = await serve("first-run");
    const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.key, maxRetries: 0 });
    const models = (await client.models.list()).data.map(({ id }) => id);
    expect(models).toContain("troupe/guide");
    expect((await client.models.retrieve("troupe/guide")).id).toBe("troupe/guide");
    let text = "";
    const stream = await client.chat.completions.create({
      model: "troupe/guide",
      messages: [{ role: "user", content: "I feel lost." }],
      stream: true,
    });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("I am sorry to hear that you are lost.");
    const version = (await (await fetch(`${served.url}/version`)).json()) as Record<string, string>;
    expect(version).toMatchObject({ commit: executableBuild.commit, built_at: executableBuild.builtAt });
    const page = await (await fetch(`${served.url}/docs`)).text();
    expect(page).toContain('src="docs/swagger-ui-bundle.js?v=');
    expect((await (await fetch(`${served.url}/docs/swagger-ui-bundle.js`)).bytes()).length).toBeGreaterThan(1_000_000);
    const html = await (await fetch(`${served.url}/console`)).text();
    let sent = 0;
    for (const name of ["console.js", "console.css"]) {
      const file = async (coding: string) => {
        const headers = { "accept-encoding": coding };
        const path = new RegExp(`console/${name}\\?v=\\w+`).exec(html)![0];
        return (await fetch(`${served.url}/${path}`, { decompress: false, headers })).bytes();
      };
      const [br, gzip, plain] = await Promise.all(["br", "gzip", "identity"].map(file));
      expect(brotliDecompressSync(br!).equals(plain!)).toBe(true);
      expect(gunzipSync(gzip!).equals(plain!)).toBe(true);
      sent += br!.length;
    }
    expect(sent).toBeLessThanOrEqual(120_000);
    expect(await stop(served)).toBe(0);
    expect(served.log()).not.toContain(served.key);
  });

  test("a key revoked by a second process is refused at once", async () => {
    const served = await serve("revoke");
    const made = await run("keys", "create", "short-lived", "--tier", "pro", "--data", served.data, "--json");
    expect(made.code).toBe(0);
    const { secret, key, id } = JSON.parse(made.out) as { secret?: string; key?: string | { id: string }; id?: string };
    const token = secret ?? (key as string);
    const keyId = id ?? (key as { id: string }).id;
    const status = async () =>
      (await fetch(`${served.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;
    expect(await status()).toBe(200);
    expect((await run("keys", "revoke", keyId, "--data", served.data)).code).toBe(0);
    expect(await status()).toBe(401);
    expect(await stop(served)).toBe(0);
  });

  test("counts tokens in a thread of its own, which the executable holds", async () => {
    const served = await serve("tokens");
    const count = () =>
      fetch(`${served.url}/gateway/v1/messages/count_tokens`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-api-key": served.key },
        body: JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "Hello, world!" }] }),
      });
    // Where the thread can't start, the text's length is gone by. So it is while a busy machine loads the tables, for 5 s a call.
    let response = await count();
    for (let calls = 1; calls < 5 && response.headers.get("x-troupe-estimated") === "length"; calls += 1)
      response = await count();
    expect(response.headers.get("x-troupe-estimated")).toBe("true");
    expect(await response.json()).toEqual({ input_tokens: 8 });
    expect(await stop(served)).toBe(0);
  });

  test("a second one on the same port says so and ends with 1", async () => {
    const served = await serve("port");
    const second = await run("serve", "--port", new URL(served.url).port, "--data", join(folder, "other"));
    expect(second.code).toBe(1);
    expect(second.err).toMatch(/in use|EADDRINUSE/);
    expect(await stop(served)).toBe(0);
  });

  test("a faulty configuration is told with its place, and wrong usage ends with 2", async () => {
    const file = join(folder, "faulty.yaml");
    writeFileSync(file, "listen: 127.0.0.1:99999\nprovidrs: {}\n");
    const faulty = await run("check", "--config", file);
    expect(faulty.code).toBe(1);
    expect(faulty.out + faulty.err).toContain("faulty.yaml:1:");
    expect(faulty.out + faulty.err).toContain("faulty.yaml:2:1");
    expect((await run("keyz")).code).toBe(2);
    expect((await run("--help")).out).toContain("personas");
  });

  test("what lies in the current folder does not run inside it", async () => {
    const cwd = join(folder, "hostile");
    mkdirSync(cwd, { recursive: true });
    writeFileSync(join(cwd, "bunfig.toml"), 'preload = ["./evil.ts"]\n');
    writeFileSync(join(cwd, "evil.ts"), 'console.error("EVIL RAN"); process.exit(9);\n');
    writeFileSync(join(cwd, ".env"), "OPENAI_API_KEY=sk-from-a-stranger\n");
    const served = await serve("hostile");
    expect(served.log()).not.toContain("EVIL");
    expect(served.log()).toContain('"providers":"none');
    expect(await stop(served)).toBe(0);
  });
});

describe("a thousand slow streams", () => {
  const streams = 1000;

  test("are held by one process, and end upstream when their clients leave", async () => {
    using upstream = new SlowUpstream();
    const config = join(folder, "slow.yaml");
    writeFileSync(config, `providers:\n  openai: { base_url: "${upstream.url}/v1", api_key: k }\n`);
    const served = await serve("slow", ["--config", config]);
    const clients = await Promise.all(Array.from({ length: streams }, () => openStream(served)));
    expect(upstream.open).toBe(streams);
    const rss = () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${served.process.pid}/status`, "utf8"))![1]) * 1024;
    const round = async (word: string) => {
      upstream.say(word);
      await Promise.all(clients.map((client) => client.sees(word)));
    };
    for (let at = 0; at < 10; at += 1) await round(`word-${at}-`);
    // How much of it is waiting for the collector varies; what each stream really keeps is measured in streams.test.ts.
    expect(rss()).toBeLessThan(320 * 1024 * 1024);
    const gone = upstream.allGone();
    for (const client of clients) client.leave();
    await gone;
    expect(upstream.open).toBe(0);
    expect(await stop(served)).toBe(0);
  });
});

/** Streams that say what they are told to, all at once. It knows which callers are still there. */
class SlowUpstream implements Disposable {
  readonly #controllers = new Set<ReadableStreamDefaultController<Uint8Array>>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: () => {
      let mine: ReadableStreamDefaultController<Uint8Array>;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          mine = controller;
          this.#controllers.add(controller);
          controller.enqueue(fragment("hello"));
        },
        cancel: () => {
          this.#controllers.delete(mine);
          if (this.open === 0) this.#gone.resolve();
        },
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }
  get open(): number {
    return this.#controllers.size;
  }
  say(word: string): void {
    for (const controller of this.#controllers) controller.enqueue(fragment(word));
  }
  allGone(): Promise<void> {
    return this.#gone.promise;
  }
  [Symbol.dispose](): void {
    this.#server.stop(true);
  }
}

const fragment = (content: string) =>
  new TextEncoder().encode(
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`,
  );

type Client = { sees(word: string): Promise<void>; leave(): void };

/** A plain socket: a thousand of the runtime's own clients would be the heavier part. */
function openStream({ url, key }: Served): Promise<Client> {
  const body = JSON.stringify({ model: "openai/x", messages: [{ role: "user", content: "hi" }], stream: true });
  return new Promise((resolve, reject) => {
    let seen = "";
    let waiting: { word: string; resolve: () => void } | undefined;
    const socket: Socket = connect(Number(new URL(url).port), "127.0.0.1", () => {
      socket.write(
        `POST /gateway/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
    const client: Client = {
      sees: (word) =>
        new Promise((found) => {
          waiting = { word, resolve: found };
          look();
        }),
      leave: () => socket.destroy(),
    };
    const look = () => {
      if (waiting === undefined || !seen.includes(waiting.word)) return;
      const { resolve: found } = waiting;
      waiting = undefined;
      seen = "";
      found();
    };
    socket.on("data", (bytes) => {
      seen += bytes.toString("latin1");
      if (seen.includes('"content":"hello"')) resolve(client);
      look();
    });
    socket.on("error", reject);
  });
}
