/** Three nodes, each with a way of its own to one database, and an upstream that remembers each call. */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { freePort } from "../helpers/free-port.ts";
import type { Random } from "../helpers/random.ts";
import { ClockShift } from "../helpers/shifted-clock.ts";
import type { SwitchedProxy } from "../helpers/switched-proxy.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import type { Coordination } from "./coordination.ts";
import type { Database } from "./database.ts";
import { fragmentOf, type UpstreamCall } from "./history.ts";

export const now = (): number => performance.now();
export const leaseMs = 3_000;
/** The nodes' clocks are minutes apart. */
const clockShiftsMs = [0, 7 * 60_000, -5 * 60_000];

const shiftedClock = resolve(import.meta.dir, "../helpers/shifted-clock.ts");

/** A call's message: `<id> <fragments> <milliseconds between them>`. */
export class CountingUpstream implements Disposable {
  readonly calls: UpstreamCall[] = [];
  readonly #counts = new Map<string, number>();
  readonly #server = new UpstreamServer(({ method, path, json, signal }) => {
    // Nodes ask for the list of models in the background.
    if (method === "GET") return Response.json({ error: { message: "There is no list." } }, { status: 404 });
    const node = Number(/^\/n(\d)\//.exec(path)![1]);
    const { messages, stream } = json as { messages: { content: string }[]; stream?: boolean };
    const [id, fragments, pauseMs] = messages.at(-1)!.content.split(" ");
    const number = (this.#counts.get(id!) ?? 0) + 1;
    this.#counts.set(id!, number);
    const call: UpstreamCall = {
      ...{ id: id!, number, node, fragments: Number(fragments) },
      ...{ startedAt: now(), endedAt: Number.POSITIVE_INFINITY, isWhole: false },
    };
    this.calls.push(call);
    const end = (isWhole = false) => {
      if (call.endedAt < Number.POSITIVE_INFINITY) return;
      call.endedAt = now();
      call.isWhole = isWhole;
    };
    signal.addEventListener("abort", () => end());
    const texts = Array.from({ length: Number(fragments) }, (_, at) => fragmentOf(id!, number, at));
    return stream === true ? streamed(texts, Number(pauseMs), end) : whole(texts, Number(pauseMs), end);
  });

  url(node: number): string {
    return `${this.#server.url}/n${node}/v1`;
  }

  count(id: string): number {
    return this.#counts.get(id) ?? 0;
  }

  [Symbol.dispose](): void {
    this.#server[Symbol.dispose]();
  }
}

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

type End = (isWhole?: boolean) => void;

async function whole(texts: readonly string[], pauseMs: number, end: End): Promise<Response> {
  await Bun.sleep(texts.length * pauseMs);
  end(true);
  const message = { role: "assistant", content: texts.join("") };
  return jsonResponse({ id: "up", choices: [{ index: 0, message, finish_reason: "stop" }], usage });
}

function streamed(texts: readonly string[], pauseMs: number, end: End): Response {
  const encoder = new TextEncoder();
  const event = (data: unknown) => encoder.encode(`data: ${JSON.stringify(data)}\n\n`);
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const content = texts[at++];
      if (content !== undefined) {
        await Bun.sleep(pauseMs);
        controller.enqueue(event({ id: "up", choices: [{ index: 0, delta: { content }, finish_reason: null }] }));
        return;
      }
      end(true);
      controller.enqueue(event({ id: "up", choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }));
      controller.enqueue(encoder.encode("data: [DONE]\n\n"));
      controller.close();
    },
    cancel: () => end(),
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

export class Cluster implements AsyncDisposable {
  readonly upstream = new CountingUpstream();
  /** Each node's way to the database. */
  readonly proxies: SwitchedProxy[];
  readonly nodes: TroupeProcess[] = [];
  readonly clocks: ClockShift[];
  /** Each node's way to the coordination, where there is one. */
  readonly coordinationProxies: SwitchedProxy[];
  /** Each node's port, which it keeps. */
  readonly ports: number[];
  /** Of the nodes' first key. */
  key = "";
  /** A folder for what each node logs. */
  #logs: string | undefined;
  /** A node that goes without the coordination of the others. */
  #without: number | undefined;
  /** A balancer's address, where callers do not choose a node. */
  front: string | undefined;
  readonly #folders: TempFolder[];
  readonly #database: Database;
  readonly #coordination: Coordination | undefined;

  private constructor(database: Database, size: number, coordination: Coordination | undefined) {
    this.#database = database;
    this.#coordination = coordination;
    this.coordinationProxies = coordination === undefined ? [] : Array.from({ length: size }, () => coordination.way());
    this.ports = Array.from({ length: size }, freePort);
    this.proxies = Array.from({ length: size }, () => database.way());
    this.#folders = Array.from({ length: size }, () => new TempFolder());
    this.clocks = this.#folders.map((folder) => new ClockShift(folder.file("clock")));
  }

  /** @param database an empty one. @param logs a folder for what each node logs. @param without a node that goes without coordination */
  static async start(
    database: Database,
    size = 3,
    coordination?: Coordination,
    version?: string,
    more: Readonly<Record<string, string>> = {},
    logs?: string,
    without?: number,
  ): Promise<Cluster> {
    const cluster = new Cluster(database, size, coordination);
    cluster.#logs = logs;
    cluster.#without = without;
    for (const [at, folder] of cluster.#folders.entries()) {
      cluster.clocks[at]!.ms = clockShiftsMs[at % clockShiftsMs.length]!;
      writeFileSync(folder.file("troupe.yaml"), configuration(cluster.upstream.url(at)));
      await cluster.startNode(at, version, more);
      if (at === 0) cluster.key = readFileSync(join(folder.path, "first-key"), "utf8").trim();
    }
    return cluster;
  }

  /** The address under which callers reach a node, or whichever the balancer chooses. */
  urlOf(node: number): string {
    return this.front ?? this.nodes[node]!.url;
  }

  /** @param version an executable; or a module (`….ts`) that makes the program another version */
  async startNode(at: number, version?: string, more: Readonly<Record<string, string>> = {}): Promise<void> {
    const env = {
      DB: this.#database.url(this.proxies[at]!),
      STATEMENT_SECONDS: "1",
      CLOCK_SHIFT: this.clocks[at]!.path,
      ...(this.#coordination &&
        at !== this.#without && { TROUPE_COORDINATION: this.#coordination.url(this.coordinationProxies[at]!) }),
      ...more,
    };
    this.nodes[at] = await TroupeProcess.start(this.#folders[at]!.path, "http://127.0.0.1:1", {
      env,
      port: this.ports[at]!,
      ...(version === undefined || version.endsWith(".ts")
        ? { preload: [shiftedClock, ...(version === undefined ? [] : [version])] }
        : { executable: version }),
      ...(this.key !== "" && { key: this.key }),
      ...(this.#logs !== undefined && { logFile: join(this.#logs, `node${at}.log`) }),
    });
  }

  /** As an operator would. */
  async stopNode(at: number): Promise<void> {
    this.nodes[at]!.signal("SIGTERM");
    await this.nodes[at]!.ended;
  }

  /** The place of a node. */
  pick(random: Random): number {
    return random.below(this.nodes.length);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.kill()));
    for (const folder of this.#folders) folder[Symbol.dispose]();
    this.upstream[Symbol.dispose]();
  }
}

const configuration = (upstream: string) => `
store: { url: "\${DB}", lease_seconds: ${leaseMs / 1000}, statement_seconds: "\${STATEMENT_SECONDS}" }
providers: { up: { dialect: vllm, base_url: "${upstream}", api_key: k, options: { messages_base_url: false, responses_base_url: false } } }
prices: [{ match: "up/paid", input: 0, output: 1000000 }, { match: "up/m", input: 0, output: 0 }]
limits: { gateway_per_minute: 1000000 }
`;
