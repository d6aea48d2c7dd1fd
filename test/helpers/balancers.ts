/** The shipped examples for several nodes, but for addresses, names and certificates, run by the real programs. */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { freePort } from "./free-port.ts";
import { TempFolder } from "./temp-folder.ts";

type Place = { readonly folder: TempFolder; readonly port: number; readonly nodes: readonly string[] };

export type BalancerKind = {
  readonly name: "HAProxy" | "nginx" | "Caddy";
  readonly program: string;
  readonly scheme: "http" | "https";
  /** Writes the configuration. @returns how it is checked, and how it is run */
  commands(place: Place): { readonly check: string[]; readonly run: string[] };
};

const certificate = resolve("test/fixtures/tls/cert.pem");
const key = resolve("test/fixtures/tls/key.pem");

/** @throws Error where the example does not hold what is to be replaced */
export function replaced(text: string, pairs: readonly (readonly [what: string | RegExp, by: string])[]): string {
  return pairs.reduce((now, [what, by]) => {
    const next = now.replaceAll(what, by);
    if (next === now) throw new Error(`the example has no ${what}`);
    return next;
  }, text);
}

const nodePairs = (nodes: readonly string[]) => nodes.map((node, at) => [`troupe-${at + 1}:8080`, node] as const);

const haproxy: BalancerKind = {
  name: "HAProxy",
  program: "haproxy",
  scheme: "http",
  commands({ folder, port, nodes }) {
    const text = replaced(readFileSync("deploy/cluster/haproxy.cfg", "utf8"), [
      ...nodePairs(nodes),
      ["bind :8080", `bind 127.0.0.1:${port}`],
      // Sooner than in earnest, so that a test need not wait; and with more patience for a machine that runs many tests.
      ["inter 1s", "inter 100ms"],
      ["timeout check 5s", "timeout check 60s"],
    ]);
    writeFileSync(folder.file("haproxy.cfg"), text);
    const command = ["haproxy", "-f", folder.file("haproxy.cfg")];
    return { check: [...command, "-c"], run: [...command, "-db"] };
  },
};

const nginx: BalancerKind = {
  name: "nginx",
  program: "nginx",
  scheme: "https",
  commands({ folder, port, nodes }) {
    const server = replaced(readFileSync("deploy/cluster/nginx.conf", "utf8"), [
      ...nodePairs(nodes),
      ["listen 443 ssl", `listen 127.0.0.1:${port} ssl`],
      [/ssl_certificate \S+;/g, `ssl_certificate ${certificate};`],
      [/ssl_certificate_key \S+;/g, `ssl_certificate_key ${key};`],
      ["keepalive_timeout 3s", "keepalive_timeout 500ms"],
      ["fail_timeout=5s", "fail_timeout=1s"],
    ]);
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${folder.file(name)};`,
    );
    writeFileSync(
      folder.file("nginx.conf"),
      `daemon off; pid ${folder.file("pid")}; error_log stderr; events {} http { access_log off; ${paths.join(" ")} ${server} }`,
    );
    const run = ["nginx", "-e", "stderr", "-c", folder.file("nginx.conf")];
    return { check: [...run, "-t"], run };
  },
};

const caddy: BalancerKind = {
  name: "Caddy",
  program: "caddy",
  scheme: "https",
  commands({ folder, port, nodes }) {
    const site = replaced(readFileSync("deploy/cluster/Caddyfile", "utf8"), [
      ...nodePairs(nodes),
      ["troupe.example.com {", `https://localhost:${port} {\n\ttls ${certificate} ${key}`],
      ["health_interval 1s", "health_interval 100ms"],
      ["health_timeout 5s", "health_timeout 60s"],
      ["keepalive 3s", "keepalive 500ms"],
    ]);
    writeFileSync(
      folder.file("Caddyfile"),
      `{\n\tadmin off\n\tauto_https off\n\tstorage file_system ${folder.file("storage")}\n}\n${site}`,
    );
    const given = ["--adapter", "caddyfile", "--config", folder.file("Caddyfile")];
    return { check: ["caddy", "validate", ...given], run: ["caddy", "run", ...given] };
  },
};

export const balancers: readonly BalancerKind[] = [haproxy, nginx, caddy];

const environment = (folder: TempFolder) => ({ ...process.env, HOME: folder.path });

/** What the program itself says of the example. */
export function checkExample(kind: BalancerKind): { readonly code: number; readonly output: string } {
  using folder = new TempFolder();
  const nodes = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
  const { check } = kind.commands({ folder, port: freePort(), nodes });
  const { exitCode, stdout, stderr } = Bun.spawnSync(check, { cwd: folder.path, env: environment(folder) });
  return { code: exitCode, output: `${stdout}${stderr}` };
}

export class Balancer implements AsyncDisposable {
  readonly url: string;
  readonly #folder: TempFolder;
  readonly #process: Bun.Subprocess;

  private constructor(url: string, folder: TempFolder, process: Bun.Subprocess) {
    this.url = url;
    this.#folder = folder;
    this.#process = process;
  }

  /** Resolves once it reaches a node. @param nodes as host:port */
  static async start(kind: BalancerKind, nodes: readonly string[]): Promise<Balancer> {
    const folder = new TempFolder();
    const port = freePort();
    const process = Bun.spawn(kind.commands({ folder, port, nodes }).run, {
      cwd: folder.path,
      env: environment(folder),
      stdio: ["ignore", "ignore", "ignore"],
    });
    const balancer = new Balancer(`${kind.scheme}://localhost:${port}`, folder, process);
    const isReady = () =>
      fetch(`${balancer.url}/healthz`, { tls: { rejectUnauthorized: false } }).then(
        (answer) => answer.ok,
        () => false,
      );
    while (process.exitCode === null && !(await isReady())) await Bun.sleep(20);
    if (process.exitCode !== null) throw new Error(`${kind.name} ended with ${process.exitCode}`);
    return balancer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill();
    await this.#process.exited;
    this.#folder[Symbol.dispose]();
  }
}
