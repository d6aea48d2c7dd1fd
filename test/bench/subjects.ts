/** Who is measured: the bare proxy, Troupe, nginx, and any other gateway that a file describes. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type CallSpec, fieldsOf, mockModel, personaId } from "./calls.ts";
import { processTree } from "./process-stats.ts";
import type { Processes } from "./processes.ts";

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
  start(surroundings: Surroundings): Promise<Running>;
};

const root = resolve(import.meta.dir, "../..");
const script = (name: string) => join(import.meta.dir, name);

/** A free port. Somebody else may take it before it is used; then the start fails and says so. */
export function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  server.stop(true);
  return server.port;
}

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

/** Resolves when the server answers anything at all. @throws when its process ends before, or after a minute */
export async function untilAnswering(child: Child, url: string): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (performance.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`it ended at once: ${await new Response(child.stderr).text()}`);
    const answer = await fetch(url).catch(() => undefined);
    if (answer !== undefined) {
      await answer.arrayBuffer();
      return;
    }
    await Bun.sleep(20);
  }
  throw new Error(`${url} did not answer within a minute`);
}

/** Reads on, so that a full pipe never blocks the server; keeps nothing. */
export function ignoreOutput(child: Child): void {
  for (const stream of [child.stdout, child.stderr]) void stream.pipeTo(new WritableStream()).catch(() => {});
}

const openAiAddress = (port: number, call: CallSpec): Address => ({
  port,
  path: "/v1/chat/completions",
  headers: { authorization: "Bearer bench" },
  model: mockModel(call),
  fields: {},
});

const plainGateway = (call: CallSpec) => call.surface === "gateway" && call.family === "openai" && !call.identified;

function ownProxy(name: string, ...options: string[]): Subject {
  return {
    name,
    answers: plainGateway,
    async start({ processes, mockPort }) {
      const command = [process.execPath, script("baseline.ts"), `http://127.0.0.1:${mockPort}`, ...options];
      const child = processes.start({ role: "server", command, own: true });
      const port = Number(await firstLine(child));
      ignoreOutput(child);
      return { pids: [child.pid], address: (call) => openAiAddress(port, call), stop: () => processes.stop(child) };
    },
  };
}

export const bareProxy = ownProxy("bare proxy");
/** The same, but for large bodies: it waits for all of one before it sends it on, as whoever parses it must. */
export const bufferingProxy = ownProxy("buffering proxy", "--buffer");

/** How Troupe is started when nothing else is said. */
export const sourceCommand: readonly string[] = [process.execPath, join(root, "src/main.ts")];

/** Has Bun write CPU profiles of a program into a folder when it ends. */
export function withProfiles([bun = "", ...program]: readonly string[], folder: string): string[] {
  return [bun, "--cpu-prof", "--cpu-prof-md", `--cpu-prof-dir=${resolve(folder)}`, ...program];
}

/** Writes a config and personas for the mock. @returns the arguments of `serve` */
export function prepareTroupe(folder: string, port: number, mockPort: number, personas: Record<string, string>) {
  const origin = `http://127.0.0.1:${mockPort}`;
  const file = join(folder, "troupe.yaml");
  mkdirSync(join(folder, "personas/bench"), { recursive: true });
  for (const [id, model] of Object.entries(personas)) {
    const text = `description: Answers in a benchmark.\nmodel: ${model}\nsystem: You are a helpful assistant.\n`;
    writeFileSync(join(folder, `personas/${id}.yaml`), text);
  }
  const provider = (name: string, path: string) => `  ${name}: { base_url: "${origin}${path}", api_key: bench }`;
  const lines = [
    `listen: "127.0.0.1:${port}"`,
    `data: ${join(folder, "data")}`,
    `personas: ${join(folder, "personas")}`,
    "providers:",
    ...[provider("openai", "/v1"), provider("anthropic", "/v1"), provider("google", "/v1beta"), provider("xai", "/v1")],
    // The limiter works as ever; it only never refuses: the most that can be set.
    "tiers: { pro: 1000000 }",
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  return ["serve", "--config", file];
}

export function troupe(command: readonly string[]): Subject {
  return {
    name: "troupe",
    answers: () => true,
    async start({ processes, folder, mockPort, calls }) {
      const port = freePort();
      const asked = calls.filter((call) => call.surface === "persona");
      const personas = Object.fromEntries(asked.map((call) => [personaId(call), `${call.family}/${mockModel(call)}`]));
      const args = prepareTroupe(folder, port, mockPort, personas);
      const child = processes.start({
        role: "server",
        command: [...command, ...args],
        cwd: folder,
      });
      await untilAnswering(child, `http://127.0.0.1:${port}/healthz`);
      ignoreOutput(child);
      const key = readFileSync(join(folder, "data/first-key"), "utf8").trim();
      return {
        pids: [child.pid],
        address: (call) => ({
          port,
          path: call.surface === "persona" ? "/v1/chat/completions" : "/gateway/v1/chat/completions",
          headers: { authorization: `Bearer ${key}` },
          model: call.surface === "persona" ? personaId(call) : `${call.family}/${mockModel(call)}`,
          fields: fieldsOf(call),
        }),
        stop: () => processes.stop(child),
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
  answers: plainGateway,
  async start({ processes, folder, mockPort }) {
    const port = freePort();
    const file = join(folder, "nginx.conf");
    writeFileSync(file, nginxConfig(port, mockPort, folder));
    const child = processes.start({ role: "server", command: ["nginx", "-p", folder, "-c", file, "-e", "stderr"] });
    await untilAnswering(child, `http://127.0.0.1:${port}/`);
    ignoreOutput(child);
    return {
      pids: processTree(child.pid),
      address: (call) => openAiAddress(port, call),
      stop: () => processes.stop(child),
    };
  },
};

/** Another gateway; `{port}`, `{mock}` (its port), `{folder}` and `{model}` are filled in. */
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
    answers: (call) => call.surface === "gateway" && !call.identified && families.includes(call.family),
    async start({ processes, folder, mockPort }) {
      const port = freePort();
      const fill = (text: string, model = "") =>
        text
          .replaceAll("{port}", String(port))
          .replaceAll("{mock}", String(mockPort))
          .replaceAll("{folder}", folder)
          .replaceAll("{model}", model);
      const filled = (record: Record<string, string> = {}) =>
        Object.fromEntries(Object.entries(record).map(([key, value]) => [key, fill(value)]));
      for (const [name, text] of Object.entries(filled(description.files))) writeFileSync(join(folder, name), text);
      const command = description.command.map((part) => fill(part));
      const child = processes.start({ role: "server", command, env: filled(description.env), cwd: folder });
      await untilAnswering(child, `http://127.0.0.1:${port}${description.ready ?? "/"}`);
      ignoreOutput(child);
      return {
        pids: processTree(child.pid),
        address: (call) => ({
          port,
          path: description.path ?? "/v1/chat/completions",
          headers: { authorization: "Bearer bench", ...filled(description.headers) },
          model: fill(description.model ?? "{model}", mockModel(call)),
          fields: fieldsOf(call),
        }),
        stop: () => processes.stop(child),
      };
    },
  };
}

/** nginx where it is installed, and the gateways that the file describes (a JSON array of `PeerDescription`). */
export function peers(file: string | undefined): Subject[] {
  const described: PeerDescription[] = file === undefined ? [] : JSON.parse(readFileSync(file, "utf8"));
  return [...(Bun.which("nginx") === null ? [] : [nginx]), ...described.map(peer)];
}
