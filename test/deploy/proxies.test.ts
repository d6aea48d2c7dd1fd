/** The examples themselves, but for ports, names and certificates, run by the real programs where they are installed. */
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { freePort } from "../helpers/free-port.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

type Setting = { readonly folder: TempFolder; readonly port: number; readonly behind: string };

/** Nobody's address, for the one that may see the metrics: callers here are then strangers. */
const nobody = "192.0.2.1";

const certificate = resolve("test/fixtures/tls/cert.pem");
const key = resolve("test/fixtures/tls/key.pem");

const nginx = {
  name: "nginx",
  program: "nginx",
  command({ folder, port, behind }: Setting): string[] {
    const server = readFileSync("deploy/nginx.conf", "utf8")
      .replace("127.0.0.1:8080", behind)
      .replace("listen 443 ssl http2", `listen 127.0.0.1:${port} ssl http2`)
      .replace(/ssl_certificate \S+;/, `ssl_certificate ${certificate};`)
      .replace(/ssl_certificate_key \S+;/, `ssl_certificate_key ${key};`)
      .replace("allow 127.0.0.1;", `allow ${nobody};`);
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${folder.file(name)};`,
    );
    writeFileSync(
      folder.file("nginx.conf"),
      `daemon off; pid ${folder.file("pid")}; error_log stderr; events {} http { access_log off; ${paths.join(" ")} ${server} }`,
    );
    return ["nginx", "-e", "stderr", "-c", folder.file("nginx.conf")];
  },
};

const caddy = {
  name: "Caddy",
  program: "caddy",
  command({ folder, port, behind }: Setting): string[] {
    const site = readFileSync("deploy/Caddyfile", "utf8")
      .replace("127.0.0.1:8080", behind)
      .replace("not remote_ip 127.0.0.1 ::1", `not remote_ip ${nobody}`)
      .replace("troupe.example.com {", `https://localhost:${port} {\n\ttls ${certificate} ${key}`);
    writeFileSync(
      folder.file("Caddyfile"),
      `{\n\tadmin off\n\tauto_https off\n\tstorage file_system ${folder.file("storage")}\n}\n${site}`,
    );
    return ["caddy", "run", "--adapter", "caddyfile", "--config", folder.file("Caddyfile")];
  },
};

/** Ways to write the path of the metrics, for proxies and servers that take them for it. */
const spellings = [
  ...["/metrics/", "/metrics//", "//metrics", "/./metrics", "/metrics/.", "/metrics/..", "/metrics/../metrics"],
  ...[
    "/x/../metrics",
    "/docs/../metrics",
    "/v1/models/../../metrics",
    "/%2e/metrics",
    "/x/%2e%2e/metrics",
    "/x/.%2E/metrics",
  ],
  ...["/metrics?a", "/metrics#a", "/metrics;a", "/metrics;a=b/", "/METRICS", "/Metrics"],
  ...[
    "/%6detrics",
    "/metric%73",
    "/metrics%2f",
    "/%2fmetrics",
    "/metrics%00",
    "/metrics%20",
    "/metrics%3f",
    "/metrics%23",
  ],
  ...["/metrics\\", "/\\metrics", "/x\\..\\metrics", "/x%5c..%5cmetrics", "/v1/models/..\\..\\metrics"],
  ...["http://localhost/metrics", "http://localhost/x/../metrics", "https://localhost/metrics/"],
];

describe.each([nginx, caddy])("$name", ({ program, command }) => {
  const run = async (
    use: (url: string, troupe: Troupe, upstream: UpstreamServer, held: HeldStream) => Promise<void>,
  ) => {
    using folder = new TempFolder();
    const held = new HeldStream();
    using upstream = new UpstreamServer(() => held.response());
    await using troupe = await Troupe.start({
      providers: { openai: { baseUrl: upstream.url } },
      config: {
        trustedProxies: ["127.0.0.1/32"],
        listen: [
          { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
        ],
      },
    });
    const port = freePort();
    const proxy = Bun.spawn(command({ folder, port, behind: new URL(troupe.url).host }), {
      cwd: folder.path,
      env: { ...process.env, HOME: folder.path },
      stdio: ["ignore", "ignore", "ignore"],
    });
    const url = `https://localhost:${port}`;
    try {
      const ready = () =>
        fetch(`${url}/healthz`, { tls: { rejectUnauthorized: false } }).then(
          (answer) => answer.ok,
          () => false,
        );
      while (proxy.exitCode === null && !(await ready())) await Bun.sleep(20);
      await use(url, troupe, upstream, held);
    } finally {
      proxy.kill();
      await proxy.exited;
    }
  };

  test.skipIf(Bun.which(program) === null)(
    "passes each fragment on as it comes, and tells whose request it is",
    async () => {
      await run(async (url, troupe, upstream, held) => {
        const asking = fetch(`${url}/gateway/v1/chat/completions`, {
          method: "POST",
          tls: { rejectUnauthorized: false },
          headers: {
            authorization: `Bearer ${troupe.key}`,
            "content-type": "application/json",
            // What a client says of itself is not believed.
            "x-forwarded-for": "203.0.113.9",
          },
          body: JSON.stringify({ model: "openai/x", stream: true, messages: [{ role: "user", content: "hi" }] }),
        });
        await upstream.received(1);
        held.fragment("first");
        const answer = await asking;
        expect(answer.status).toBe(200);
        const reader = answer.body!.getReader();
        // The second is not sent before the first has come through: a proxy that buffers would hang here.
        const first = new TextDecoder().decode((await reader.read()).value);
        expect(first).toContain('"content":"first"');
        held.fragment("second");
        held.finish();
        let rest = "";
        for (let part = await reader.read(); !part.done; part = await reader.read())
          rest += new TextDecoder().decode(part.value);
        expect(rest).toContain('"content":"second"');
        expect(rest).toEndWith("data: [DONE]\n\n");
      });
    },
  );

  test.skipIf(Bun.which(program) === null)(
    "counts callers without a key by the address that the proxy saw, not by what they claim",
    async () => {
      await run(async (url) => {
        const remaining = async (claimed: string) => {
          const answer = await fetch(`${url}/v1/models`, {
            tls: { rejectUnauthorized: false },
            headers: { "x-forwarded-for": claimed },
          });
          await answer.text();
          return Number(answer.headers.get("x-ratelimit-remaining"));
        };
        const before = await remaining("203.0.113.1");
        expect(await remaining("203.0.113.2")).toBe(before - 1);
      });
    },
  );

  test.skipIf(Bun.which(program) === null)(
    "keeps the metrics from strangers, however they spell the address",
    async () => {
      await run(async (url) => {
        const shown = async (target: string) => {
          const answer = await sendRaw(url, `GET ${target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
          return { status: answer.status, hasMetrics: answer.body.includes("troupe_build_info") };
        };
        expect(await shown("/metrics")).toEqual({ status: 403, hasMetrics: false });
        expect((await shown("/version")).status).toBe(200);
        for (const target of spellings)
          expect([target, await shown(target)]).toEqual([target, { status: expect.any(Number), hasMetrics: false }]);
      });
    },
  );

  test.skipIf(Bun.which(program) === null)(
    "keeps the admin API from strangers, also with a key for it, however they spell the address",
    async () => {
      await run(async (url, troupe) => {
        const key = await troupe.createKey({ name: "a", tier: "pro", perMinute: 100_000, surfaces: ["admin"] });
        const shown = async (to: string, target: string) => {
          const head = `GET ${target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\nconnection: close\r\n\r\n`;
          const answer = await sendRaw(to, head);
          return { status: answer.status, hasKeys: answer.body.includes('"object":"key"') };
        };
        expect(await shown(troupe.url, "/admin/v1/keys")).toEqual({ status: 200, hasKeys: true });
        expect(await shown(url, "/admin/v1/keys")).toEqual({ status: 403, hasKeys: false });
        const tried = spellings.map((target) =>
          target.replaceAll(/metrics/gi, (word) => (word === "metrics" ? "admin/v1/keys" : "ADMIN/v1/keys")),
        );
        for (const target of [...tried, "/admin//v1/keys", "/%61dmin/v1/keys", "/admin%2fv1/keys", "/admin;/v1/keys"])
          expect([target, await shown(url, target)]).toEqual([target, { status: expect.any(Number), hasKeys: false }]);
      });
    },
  );
});
