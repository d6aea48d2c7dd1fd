/** `troupe doctor --client` through real proxies: what they do to a client is found, and the setting that mends it named. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import type { Check } from "../../src/operate/doctor/check.ts";
import { type ClientName, clientNames } from "../../src/operate/doctor/clients/contracts.ts";
import { Examination } from "../../src/operate/doctor/clients/examine.ts";
import { freePort } from "../helpers/free-port.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const given = { streams: { keepAliveSeconds: 1 }, trustedProxies: ["127.0.0.1/32"] };
const troupe = untilEnd(await Troupe.start({ surfaces: ["orchestrator", "gateway"], config: given }));

const examine = (client: ClientName, url = troupe.url, key = troupe.key, silenceMs = 2_500): Promise<Check[]> =>
  new Examination({ client, url: `${url}/gateway`, key, silenceMs }).run();

/** What is not well, by its name. */
const troubles = (checks: readonly Check[]) =>
  Object.fromEntries(checks.filter(({ state }) => state !== "ok").map((check) => [check.what, check]));

type Place = { readonly folder: TempFolder; readonly port: number };

async function through(
  program: string,
  configure: (place: Place, behind: string) => string[],
  use: (url: string) => Promise<void>,
) {
  using folder = new TempFolder();
  const port = freePort();
  const proxy = Bun.spawn([program, ...configure({ folder, port }, new URL(troupe.url).host)], {
    cwd: folder.path,
    env: { ...process.env, HOME: folder.path },
    stdio: ["ignore", "ignore", "ignore"],
  });
  const url = `http://127.0.0.1:${port}`;
  try {
    const isReady = () =>
      fetch(`${url}/healthz`).then(
        ({ ok }) => ok,
        () => false,
      );
    while (proxy.exitCode === null && !(await isReady())) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(proxy.exitCode).toBeNull();
    await use(url);
  } finally {
    proxy.kill();
    await proxy.exited;
  }
}

const nginx =
  (location: string) =>
  ({ folder, port }: Place, behind: string): string[] => {
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${folder.file(name)};`,
    );
    writeFileSync(
      folder.file("nginx.conf"),
      `daemon off; pid ${folder.file("pid")}; error_log stderr; events {} http { access_log off; ${paths.join(" ")}
       server { listen 127.0.0.1:${port}; location / { proxy_pass http://${behind}; proxy_http_version 1.1; client_body_buffer_size 16m; ${location} } } }`,
    );
    return ["-e", "stderr", "-c", folder.file("nginx.conf")];
  };

const haproxy =
  (backend: string) =>
  ({ folder, port }: Place, behind: string): string[] => {
    writeFileSync(
      folder.file("haproxy.cfg"),
      `defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\nfrontend in\n  bind 127.0.0.1:${port}\n  default_backend out\nbackend out\n  server one ${behind}\n${backend}\n`,
    );
    return ["-f", folder.file("haproxy.cfg"), "-db"];
  };

const caddy =
  (handler: string) =>
  ({ folder, port }: Place, behind: string): string[] => {
    writeFileSync(
      folder.file("Caddyfile"),
      `{\n\tadmin off\n\tauto_https off\n\tstorage file_system ${folder.file("storage")}\n}\nhttp://127.0.0.1:${port} {\n${handler.replace("BEHIND", behind)}\n}\n`,
    );
    return ["run", "--adapter", "caddyfile", "--config", folder.file("Caddyfile")];
  };

describe("nothing between", () => {
  test.each(clientNames)("%s finds all well", async (client) => {
    const checks = await examine(client);
    expect(troubles(checks)).toEqual({});
    expect(checks.length).toBeGreaterThanOrEqual(8);
  });

  test("a key that may not call the model, and an address that is none, are said so", async () => {
    const [refused, ...none] = await examine("openai", troupe.url, "sk-nobody");
    expect([refused, none]).toEqual([
      { what: "call", state: "error", found: expect.stringMatching(/^401 /), advice: expect.stringContaining("--key") },
      [],
    ]);
    const [away] = await examine("codex", `http://127.0.0.1:${freePort()}`);
    expect(away).toMatchObject({ what: "call", state: "error", advice: expect.stringContaining("--url") });
  });
});

test("a proxy that strips headers and collects is found without any program", async () => {
  const stripped = ["anthropic-beta", "session-id", "user-agent", "x-stainless-lang"];
  using proxy = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 30,
    async fetch(request) {
      const headers = new Headers(request.headers);
      for (const name of stripped) headers.delete(name);
      headers.set("user-agent", "proxy/1");
      const { pathname, search } = new URL(request.url);
      const body = request.method === "POST" ? await request.arrayBuffer() : undefined;
      const answer = await fetch(troupe.url + pathname + search, {
        method: request.method,
        headers,
        ...(body && { body }),
      });
      const more = new Headers(answer.headers);
      for (const name of ["content-encoding", "content-length", "x-request-id"]) more.delete(name);
      // All of it at its end.
      const whole = await answer.arrayBuffer();
      if (answer.status === 400) return new Response("<h1>Bad request</h1>", { status: 400 });
      return new Response(whole, { status: answer.status, headers: more });
    },
  });
  const found = troubles(await examine("claude-code", `http://127.0.0.1:${proxy.port}`));
  expect(found["headers"]!.found).toContain("stripped: x-stainless-lang, anthropic-beta;");
  expect(found["headers"]!.found).toContain("changed: user-agent");
  expect(found["headers"]!.found).toContain("anthropic-beta: what is in beta is refused or silently off");
  expect(found["stream"]).toMatchObject({
    state: "error",
    found: expect.stringMatching(/^collected/),
    advice: expect.stringContaining("proxy_buffering off"),
  });
  expect(found["errors"]).toMatchObject({
    state: "error",
    advice: expect.stringContaining("proxy_intercept_errors off"),
  });
  expect(found["answers' headers"]).toMatchObject({ state: "warning" });
  const codex = troubles(await examine("codex", `http://127.0.0.1:${proxy.port}`));
  expect(codex["headers"]!.found).toContain("stripped: session-id");
  expect(codex["WebSocket"]).toMatchObject({ advice: expect.stringContaining("$http_upgrade") });
});

describe.skipIf(Bun.which("nginx") === null)("nginx", () => {
  // Without compression this nginx passes fragments to a reader that is ready, whatever its buffers are.
  const buffering =
    "proxy_ignore_headers X-Accel-Buffering; proxy_buffering on; gzip on; gzip_types text/event-stream;";

  test("with buffers and compression: collects, has a bound of 1 MiB, drops names with _, upgrades nothing", async () => {
    await through("nginx", nginx(buffering), async (url) => {
      const codex = troubles(await examine("codex", url));
      expect(codex["stream"]).toMatchObject({ state: "error", found: expect.stringMatching(/^collected/) });
      expect(codex["large requests"]).toMatchObject({
        found: expect.stringMatching(/^1\.5 MiB are refused, of what stands between: 413 /),
        advice: expect.stringContaining("client_max_body_size"),
      });
      expect(codex["headers"]!.found).toContain("stripped: session_id;");
      expect(codex["headers"]!.advice).toContain("underscores_in_headers on");
      expect(codex["WebSocket"]).toMatchObject({ state: "warning", found: expect.stringMatching(/^426/) });
    });
  });

  test("with a read timeout below the silence it cuts, and its own page stands for our errors", async () => {
    const more =
      "proxy_buffering off; proxy_read_timeout 2s; proxy_intercept_errors on; error_page 400 504 /50x.html; client_max_body_size 20m;";
    await through("nginx", nginx(more), async (url) => {
      const found = troubles(await examine("gemini-cli", url, troupe.key, 6_000));
      expect(found["a plain answer after 6 s"]).toMatchObject({
        advice: expect.stringContaining("proxy_read_timeout"),
      });
      expect(found["errors"]).toMatchObject({ advice: expect.stringContaining("proxy_intercept_errors") });
      expect(found["stream"]).toBeUndefined();
    });
  });

  test.each(clientNames)("as docs/reverse-proxy.md has it: %s finds all well", async (client) => {
    const settings =
      "proxy_set_header Host $host; proxy_buffering off; gzip off; proxy_read_timeout 330s; client_max_body_size 20m; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;";
    await through("nginx", nginx(settings), async (url) => {
      const { headers, ...rest } = troubles(await examine(client, url));
      expect(rest).toEqual({});
      if (client === "codex") expect(headers!.found).toContain("session_id");
      else expect(headers).toBeUndefined();
    });
  });
});

describe.skipIf(Bun.which("haproxy") === null)("HAProxy", () => {
  test("passes all as it comes, and cuts by a short timeout", async () => {
    await through("haproxy", haproxy(""), async (url) =>
      expect(troubles(await examine("claude-code", url))).toEqual({}),
    );
    await through("haproxy", haproxy("  timeout server 2s\n  http-request del-header anthropic-beta"), async (url) => {
      const found = troubles(await examine("claude-code", url, troupe.key, 6_000));
      expect(found["a plain answer after 6 s"]).toMatchObject({
        found: expect.stringContaining("504"),
        advice: expect.stringContaining("timeout server"),
      });
      expect(found["headers"]!.advice).toContain("http-request del-header");
    });
  });
});

describe.skipIf(Bun.which("caddy") === null)("Caddy", () => {
  test("passes all as it comes, and not what its settings take", async () => {
    await through("caddy", caddy("\treverse_proxy BEHIND"), async (url) =>
      expect(troubles(await examine("codex", url))).toEqual({}),
    );
    const bad = "\trequest_body {\n\t\tmax_size 1MB\n\t}\n\treverse_proxy BEHIND {\n\t\theader_up -Anthropic-Beta\n\t}";
    await through("caddy", caddy(bad), async (url) => {
      const found = troubles(await examine("claude-code", url));
      expect(found["large requests"]).toMatchObject({ advice: expect.stringContaining("max_size 20MB") });
      expect(found["headers"]!.found).toContain("stripped: anthropic-beta");
    });
  });
});
