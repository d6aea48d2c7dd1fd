/** A node with a store, an upstream and callers, watched from outside: what they cost is read from the kernel and from PostgreSQL. */
import { readFileSync, writeFileSync } from "node:fs";
import type { Socket } from "bun";
import { cpuSeconds, processTree } from "../bench/process-stats.ts";
import type { PostgresServer } from "../helpers/postgres.ts";
import { Random } from "../helpers/random.ts";
import { SwitchedProxy } from "../helpers/switched-proxy.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

/** A call: how much text it is answered with, and how. */
export type Asked = {
  readonly kb?: number;
  readonly stream?: boolean;
  /** Between two fragments, in milliseconds; the stream is held after its first one where it is infinite. */
  readonly pauseMs?: number;
  readonly id?: string;
  readonly store?: boolean;
};

/** Words as people write them, so that what is packed gets smaller as it would. */
const words =
  "the of and to in is that it for as with was on be by this are or an from at which have not can will one all if when there been more has use each how their other some time into only its also then them these may such between after many most where through because made over must being within those same still under while should both against number however system result value order point change part state place group case work form large high small long".split(
    " ",
  );

export function textOf(bytes: number, seed: number): string {
  const random = new Random(seed);
  let text = "";
  while (text.length < bytes) text += `${words[random.below(words.length)]}${random.below(12) === 0 ? "." : ""} `;
  return text.slice(0, bytes);
}

const usage = { prompt_tokens: 20, completion_tokens: 200, total_tokens: 220 };

/** An upstream that tells when it was called. */
export class Upstream implements Disposable {
  /** Called before each answer. */
  onCall = () => {};
  #calls = 0;
  readonly #server = new UpstreamServer(({ json, signal }) => {
    this.onCall();
    this.#server.requests.length = 0;
    this.#calls += 1;
    const { messages, stream } = json as { messages: { content: string }[]; stream?: boolean };
    const [kb, pauseMs] = messages.at(-1)!.content.split(" ").map(Number) as [number, number];
    const text = textOf(kb * 1024, this.#calls);
    if (stream === true) return new Response(fragments(text, pauseMs, signal), eventStream);
    const message = { role: "assistant", content: text };
    return jsonResponse({
      ...{ id: "up", object: "chat.completion", created: 1, model: "m" },
      ...{ choices: [{ index: 0, message, finish_reason: "stop" }], usage },
    });
  });

  get url(): string {
    return `${this.#server.url}/v1`;
  }

  [Symbol.dispose](): void {
    this.#server[Symbol.dispose]();
  }
}

const eventStream = { headers: { "content-type": "text/event-stream" } };

/** Five letters each, which is a token. */
async function* fragments(text: string, pauseMs: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const event = (data: unknown) => new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`);
  const base = { id: "up", object: "chat.completion.chunk", created: 1, model: "m" };
  for (let at = 0; at < text.length; at += 5) {
    yield event({ ...base, choices: [{ index: 0, delta: { content: text.slice(at, at + 5) }, finish_reason: null }] });
    if (!Number.isFinite(pauseMs)) {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      return;
    }
    if (pauseMs > 0) await Bun.sleep(pauseMs);
  }
  yield event({ ...base, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  yield event({ ...base, choices: [], usage });
  yield new TextEncoder().encode("data: [DONE]\n\n");
}

const configuration = (upstream: string, store: boolean) => `
${store ? 'store: { url: "${DB}" }' : ""}
providers: { up: { dialect: vllm, base_url: "${upstream}", api_key: k, options: { messages_base_url: false, responses_base_url: false } } }
prices: [{ match: "up/*", input: 1000, output: 2000 }]
limits: { gateway_per_minute: 1000000 }
log: { sample: 0.001 }
`;

/** One node, with a proxy before its database that sees how often it asks. */
export class Node implements AsyncDisposable {
  readonly folder: TempFolder;
  readonly #isOwnFolder: boolean;
  process!: TroupeProcess;
  proxy: SwitchedProxy | undefined;

  private constructor(folder?: TempFolder) {
    this.folder = folder ?? new TempFolder();
    this.#isOwnFolder = folder === undefined;
  }

  /**
   * @param database of that server; absent: SQLite
   * @param key of the first node
   * @param folder of another node that serves from it too
   */
  static async start(
    upstream: Upstream,
    server?: PostgresServer,
    database?: string,
    key?: string,
    env: Readonly<Record<string, string>> = {},
    folder?: TempFolder,
  ): Promise<Node> {
    const node = new Node(folder);
    if (server !== undefined) node.proxy = new SwitchedProxy(server.port);
    writeFileSync(node.folder.file("troupe.yaml"), configuration(upstream.url, server !== undefined));
    const url = server?.url(new URL(database!).pathname.slice(1), node.proxy!.port);
    node.process = await TroupeProcess.start(node.folder.path, "http://127.0.0.1:1", {
      env: { ...env, ...(url !== undefined && { DB: url }) },
      ...(key !== undefined && { key }),
    });
    return node;
  }

  cpuMicros(): number {
    return cpuSeconds(processTree(this.process.pid)) * 1e6;
  }

  /** Given to the disk since its start. */
  writtenBytes(): number {
    return Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${this.process.pid}/io`, "utf8"))![1]);
  }

  async call({ kb = 1, stream = false, pauseMs = 0, id, store }: Asked, key = this.process.key): Promise<Response> {
    const response = await fetch(`${this.process.url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        ...(id !== undefined && { "service-request-id": id }),
      },
      body: JSON.stringify({
        model: "up/m",
        messages: [{ role: "user", content: `${kb} ${pauseMs}` }],
        max_tokens: 1000,
        ...(stream && { stream }),
        ...(store && { store }),
      }),
    });
    if (response.status !== 200) throw new Error(`status ${response.status}: ${await response.text()}`);
    return response;
  }

  /** Opens a stream over a connection of its own, and resolves with its first fragment; it is then held. */
  async openStream(): Promise<Socket> {
    const { hostname, port } = new URL(this.process.url);
    const opened = Promise.withResolvers<void>();
    const body = JSON.stringify({ model: "up/m", messages: [{ role: "user", content: "1 Infinity" }], stream: true });
    const head = [
      "POST /gateway/v1/chat/completions HTTP/1.1",
      `host: ${hostname}`,
      `authorization: Bearer ${this.process.key}`,
      "content-type: application/json",
      `content-length: ${body.length}`,
    ];
    let told = "";
    const socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        open: (own) => void own.write(`${head.join("\r\n")}\r\n\r\n${body}`),
        data: (_, bytes) => {
          told += bytes.toString();
          if (told.includes("content")) opened.resolve();
        },
        close: () => opened.reject(new Error(told)),
      },
    });
    await opened.promise;
    return socket;
  }

  async admin<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.process.url}/admin/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.process.key}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process.kill();
    this.proxy?.[Symbol.dispose]();
    if (this.#isOwnFolder) this.folder[Symbol.dispose]();
  }
}

/** Runs `work` for each number up to `count`, so many at a time. */
export async function atOnce(count: number, width: number, work: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: width }, worker));
}

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
