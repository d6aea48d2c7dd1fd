/** Who is measured: the bare proxy, Troupe, nginx, and any other gateway that a file describes. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { SurfaceName } from "../../src/config/config.ts";
import { type FormatName, pathOf } from "../helpers/client-formats.ts";
import { freePort } from "../helpers/free-port.ts";
import { filler } from "./answer-shape.ts";
import { type CallSpec, fieldsOf, isPersona, mockModel, personaId } from "./calls.ts";
import type { FamilyName } from "./mock-families.ts";
import { processTree } from "./process-stats.ts";
import type { Launch, Processes } from "./processes.ts";

/** How a server wants a call addressed. */
export type Address = {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly model: string;
  readonly fields: Readonly<Record<string, unknown>>;
};

export type Running = {
  readonly pids: readonly number[];
  /** From exec to its first answer, whatever that is. */
  readonly firstAnswerMs: number;
  address(call: CallSpec): Address;
  stop(): Promise<void>;
};

/** Where a server is started: an empty folder of its own, and the mock it shall call. */
export type Surroundings = {
  readonly processes: Processes;
  readonly folder: string;
  readonly mockPort: number;
  /** The calls to come. */
  readonly calls: readonly CallSpec[];
};

export type Subject = {
  readonly name: string;
  answers(call: CallSpec): boolean;
  /** Resolves when it answers. @throws when it ends before, or takes more than a minute */
  start(surroundings: Surroundings): Promise<Running>;
};

const root = resolve(import.meta.dir, "../..");
const script = (name: string) => join(import.meta.dir, name);

type Child = ReturnType<Processes["start"]>;

/** The first line of its output. @throws with what it wrote on stderr when it ends before */
export async function firstLine(child: Child): Promise<string> {
  const reader = child.stdout.getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the process ended at once: ${await new Response(child.stderr).text()}`);
    text += new TextDecoder().decode(value);
  }
  reader.releaseLock();
  return text.slice(0, text.indexOf("\n"));
}

/** Starts a server and asks it again and again, a millisecond apart, until it answers anything at all. */
async function launch(processes: Processes, what: Omit<Launch, "role">, url: string) {
  const from = performance.now();
  const child = processes.start({ role: "server", ...what });
  while (performance.now() - from < 60_000) {
    const answer = await fetch(url, { keepalive: false }).catch(() => undefined);
    // Then an answer was somebody else's, who took the port before.
    if (child.exitCode !== null) throw new Error(`it ended at once: ${await new Response(child.stderr).text()}`);
    if (answer === undefined) await Bun.sleep(1);
    else {
      const firstAnswerMs = performance.now() - from;
      await answer.arrayBuffer();
      ignoreOutput(child);
      return { pids: processTree(child.pid), firstAnswerMs, stop: () => processes.stop(child) };
    }
  }
  throw new Error(`${url} did not answer within a minute`);
}

/** Reads on, so that a full pipe never blocks the server; keeps nothing. */
export function ignoreOutput(child: Child): void {
  for (const stream of [child.stdout, child.stderr]) void stream.pipeTo(new WritableStream()).catch(() => {});
}

/** The format in which the mock provider of each family is called here. */
export const nativeFormats: Record<FamilyName, FormatName> = {
  openai: "chat",
  anthropic: "messages",
  google: "generate-content",
  xai: "responses",
};

const keyHeaders: Record<FamilyName, Record<string, string>> = {
  openai: { authorization: "Bearer bench" },
  anthropic: { "x-api-key": "bench", "anthropic-version": "2023-06-01" },
  google: { "x-goog-api-key": "bench" },
  xai: { authorization: "Bearer bench" },
};

/** What a proxy can carry that translates nothing. */
const isUntranslated = ({ surface, identified, family, format }: CallSpec) =>
  surface === "gateway" && !identified && nativeFormats[family] === format;

/** The orchestrator's paths are those of the providers, too. */
function callPath(surface: SurfaceName, { format, streamed }: CallSpec, model: string): string {
  const path = pathOf(surface, format, model);
  return streamed ? path.replace(":generateContent", ":streamGenerateContent?alt=sse") : path;
}

const untranslated = (port: number, call: CallSpec): Address => ({
  port,
  path: callPath("orchestrator", call, mockModel(call)),
  headers: keyHeaders[call.family],
  model: mockModel(call),
  fields: {},
});

function ownProxy(name: string, ...options: string[]): Subject {
  return {
    name,
    answers: isUntranslated,
    async start({ processes, mockPort }) {
      const port = freePort();
      const upstream = `http://127.0.0.1:${mockPort}`;
      const command = [process.execPath, script("baseline.ts"), String(port), upstream, ...options];
      const running = await launch(processes, { command, own: true }, `http://127.0.0.1:${port}/`);
      return { ...running, address: (call) => untranslated(port, call) };
    },
  };
}

export const bareProxy = ownProxy("bare proxy");

/** No server at all: calls go straight to the mock. */
export const direct: Subject = {
  name: "direct",
  answers: isUntranslated,
  start: async ({ mockPort }) => ({
    pids: [],
    firstAnswerMs: 0,
    address: (call) => untranslated(mockPort, call),
    stop: async () => {},
  }),
};
/** The same, but for large bodies: it waits for all of one before it sends it on, as whoever parses it must. */
export const bufferingProxy = ownProxy("buffering proxy", "--buffer");

/** How Troupe is started when nothing else is said. */
export const sourceCommand: readonly string[] = [process.execPath, join(root, "src/main.ts")];

/** Has Bun write CPU profiles of a program into a folder when it ends. */
export function withProfiles([bun = "", ...program]: readonly string[], folder: string): string[] {
  return [bun, "--cpu-prof", "--cpu-prof-md", `--cpu-prof-dir=${resolve(folder)}`, ...program];
}

/** Writes a config and personas for the mock. @returns the arguments of `serve` */
function prepareTroupe(
  folder: string,
  port: number,
  mockPort: number,
  calls: readonly CallSpec[],
  more: readonly string[],
) {
  const origin = `http://127.0.0.1:${mockPort}`;
  const file = join(folder, "troupe.yaml");
  mkdirSync(join(folder, "personas/bench"), { recursive: true });
  for (const call of calls.filter(isPersona)) {
    const model = `${call.family}/${mockModel(call)}`;
    const knows = call.surface === "knowledge" ? "knowledge: [facts.md]\n" : "";
    const text = `description: Answers in a benchmark.\nmodel: ${model}\nsystem: You are a helpful assistant.\n${knows}`;
    writeFileSync(join(folder, `personas/${personaId(call)}.yaml`), text);
  }
  writeFileSync(join(folder, "personas/bench/facts.md"), facts);
  const provider = (name: string, path: string) => `  ${name}: { base_url: "${origin}${path}", api_key: bench }`;
  const lines = [
    `listen: "127.0.0.1:${port}"`,
    `data: ${join(folder, "data")}`,
    `personas: ${join(folder, "personas")}`,
    "providers:",
    ...[provider("openai", "/v1"), provider("anthropic", "/v1"), provider("google", "/v1beta"), provider("xai", "/v1")],
    // The limiter works as ever; it only never refuses: the most that can be set.
    "tiers: { pro: 1000000 }",
    "limits: { gateway_per_minute: 1000000 }",
    ...more,
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  return ["serve", "--config", file];
}

/** 300 sections of what personas know. A question's words (`promptText`) stand in every tenth, as few sections belong to one. */
const facts = Array.from({ length: 300 }, (_, at) => {
  const words = at % 10 === 0 ? `A plain prompt is told of in section ${at}.` : `Of other matters, number ${at}.`;
  return `# Part ${at}\n\n${words} ${filler(at, 200).replaceAll("\n", " ").replaceAll("plain", "simple")}\n`;
}).join("\n");

function addressOf(call: CallSpec) {
  if (call.surface === "raw") {
    const model = mockModel(call);
    const own = callPath("orchestrator", call, model);
    return { model, path: `/gateway/providers/${call.family}/${own.replace(/^\/(?:api\/)?/, "")}` };
  }
  const model = isPersona(call) ? personaId(call) : `${call.family}/${mockModel(call)}`;
  return { model, path: callPath(isPersona(call) ? "orchestrator" : "gateway", call, model) };
}

/** A key that may call providers' own APIs, which the first may not. @throws where it is not made */
async function rawKey(port: number, admin: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/admin/v1/keys`, {
    method: "POST",
    headers: { authorization: `Bearer ${admin}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "bench", tier: "pro", surfaces: ["gateway", "raw"] }),
  });
  const { key } = (await answer.json()) as { readonly key?: string };
  if (key === undefined) throw new Error(`no key was made: ${answer.status}`);
  return key;
}

/** Two budgets that apply to every call; without a price none could be reserved. */
const governance = [
  "budgets: { all: { month: 1000000000 }, keys: { day: 1000000000 } }",
  'prices: [{ match: "*", input: 1, output: 4 }]',
];

/** @param governed whether calls count against budgets too; key, exact limit, ledger, log and metrics are always on */
export function troupe(command: readonly string[], governed = false): Subject {
  return {
    name: governed ? "troupe, governed" : "troupe",
    answers: () => true,
    async start({ processes, folder, mockPort, calls }) {
      const port = freePort();
      const args = prepareTroupe(folder, port, mockPort, calls, governed ? governance : []);
      const what = { command: [...command, ...args], cwd: folder };
      const running = await launch(processes, what, `http://127.0.0.1:${port}/healthz`);
      const first = readFileSync(join(folder, "data/first-key"), "utf8").trim();
      const key = calls.some(({ surface }) => surface === "raw") ? await rawKey(port, first) : first;
      return {
        ...running,
        address: (call) => ({
          port,
          ...addressOf(call),
          headers: { authorization: `Bearer ${key}` },
          fields: fieldsOf(call),
        }),
      };
    },
  };
}

/** One worker, keep-alive to the upstream, nothing buffered that is a stream. https://nginx.org/en/docs/http/ngx_http_proxy_module.html */
const nginxConfig = (port: number, mockPort: number, folder: string) => `
daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log stderr crit;
events { worker_connections 30000; }
http {
  access_log off; client_max_body_size 0; keepalive_requests 1000000000;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`).join(" ")}
  upstream mock { server 127.0.0.1:${mockPort}; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off;
    }
  }
}
`;

const nginx: Subject = {
  name: "nginx",
  answers: isUntranslated,
  async start({ processes, folder, mockPort }) {
    const port = freePort();
    const file = join(folder, "nginx.conf");
    writeFileSync(file, nginxConfig(port, mockPort, folder));
    const command = ["nginx", "-p", folder, "-c", file, "-e", "stderr"];
    const running = await launch(processes, { command }, `http://127.0.0.1:${port}/`);
    return { ...running, address: (call) => untranslated(port, call) };
  },
};

/**
 * Another gateway. Filled in: `{port}`, `{mock}` (its port), `{folder}`, `{model}` of a call, and `{models}`, all those of the
 * calls to come, as an array in JSON (which YAML and TOML read too).
 */
type PeerDescription = {
  name: string;
  command: string[];
  env?: Record<string, string>;
  /** Files to write into its folder before it starts: name to content. */
  files?: Record<string, string>;
  /** Any path that answers once it is up. */
  ready?: string;
  path?: string;
  headers?: Record<string, string>;
  model?: string;
  /** What it can answer beside pass-through; default: openai alone. */
  families?: string[];
};

function peer(description: PeerDescription): Subject {
  const families = description.families ?? ["openai"];
  return {
    name: description.name,
    answers: (call) =>
      call.surface === "gateway" && !call.identified && call.format === "chat" && families.includes(call.family),
    async start({ processes, folder, mockPort, calls }) {
      const port = freePort();
      const models = JSON.stringify([...new Set(calls.map(mockModel))]);
      const fill = (text: string, model = "") =>
        text
          .replaceAll("{port}", String(port))
          .replaceAll("{mock}", String(mockPort))
          .replaceAll("{folder}", folder)
          .replaceAll("{models}", models)
          .replaceAll("{model}", model);
      const filled = (record: Record<string, string> = {}) =>
        Object.fromEntries(Object.entries(record).map(([key, value]) => [key, fill(value)]));
      for (const [name, text] of Object.entries(filled(description.files))) writeFileSync(join(folder, name), text);
      const command = description.command.map((part) => fill(part));
      const what = { command, env: filled(description.env), cwd: folder };
      const running = await launch(processes, what, `http://127.0.0.1:${port}${description.ready ?? "/"}`);
      return {
        ...running,
        address: (call) => ({
          port,
          path: description.path ?? "/v1/chat/completions",
          headers: { authorization: "Bearer bench", ...filled(description.headers) },
          model: fill(description.model ?? "{model}", mockModel(call)),
          fields: fieldsOf(call),
        }),
      };
    },
  };
}

export const installedNginx = (): Subject[] => (Bun.which("nginx") === null ? [] : [nginx]);

/** The gateways that a file describes, a JSON array of `PeerDescription`; `absent`: those that are not installed. */
export function readPeers(file: string): { subjects: Subject[]; absent: string[] } {
  const described: PeerDescription[] = JSON.parse(readFileSync(file, "utf8"));
  const installed = ({ command: [program = ""] }: PeerDescription) => Bun.which(program) !== null;
  return {
    subjects: described.filter(installed).map(peer),
    absent: described.filter((one) => !installed(one)).map(({ name }) => name),
  };
}
