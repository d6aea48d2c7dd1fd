import { describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { isLoopback } from "../../src/config/listeners.ts";
import { isAllowedHost } from "../../src/http/origins.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

describe("a listener on a loopback address", () => {
  test.each([
    [{ kind: "tcp", host: "127.0.0.1", port: 1 }, true],
    [{ kind: "tcp", host: "127.8.0.1", port: 1 }, true],
    [{ kind: "tcp", host: "::1", port: 1 }, true],
    [{ kind: "tcp", host: "localhost", port: 1 }, true],
    [{ kind: "tcp", host: "0.0.0.0", port: 1 }, false],
    [{ kind: "tcp", host: "::", port: 1 }, false],
    [{ kind: "tcp", host: "192.0.2.1", port: 1 }, false],
    [{ kind: "unix", path: "/x" }, false],
  ] as const)("%j: %p", (address, expected) => expect(isLoopback({ address })).toBe(expected));

  const none: string[] = [];
  const some = ["troupe.lan", "*.Example.com"];
  test.each<[string | null, string[], boolean]>([
    [null, none, true],
    ["", none, true],
    ["localhost", none, true],
    ["LocalHost:8080", none, true],
    ["localhost.", none, true],
    ["app.localhost:1", none, true],
    ["127.0.0.1", none, true],
    ["127.0.0.1:8080", none, true],
    ["127.1.2.3:8080", none, true],
    ["[::1]", none, true],
    ["[::1]:8080", none, true],
    ["host.docker.internal:8080", none, true],
    ["evil.example", none, false],
    ["evil.example:8080", none, false],
    ["localhost.evil.example", none, false],
    ["127.0.0.1.evil.example", none, false],
    ["evil-localhost", none, false],
    ["internal", none, false],
    ["127.0.0.1@evil.example", none, false],
    ["localhost, evil.example", none, false],
    ["localhost:80:80", none, false],
    ["[::1].evil.example", none, false],
    ["192.168.0.1", none, false],
    ["troupe.lan", none, false],
    ["troupe.lan:8080", some, true],
    ["TROUPE.lan", some, true],
    ["a.example.com", some, true],
    ["example.com", some, false],
    ["evil.example", ["*"], true],
  ])("%p with %j: %p", (host, allowed, expected) => expect(isAllowedHost(host, allowed)).toBe(expected));
});

const start = (config: Partial<Config> = {}) => Troupe.start({ config });
const ask = (url: string, path: string, host: string, more = "") =>
  sendRaw(url, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}\r\n`);

test("other names are refused on every route, with the rate headers and the way out", async () => {
  await using troupe = await start();
  for (const path of ["/", "/v1/models", "/gateway/v1/models", "/metrics", "/health", "/docs", "/docs/json", "/none"]) {
    const answer = await ask(troupe.url, path, "evil.example");
    expect(answer.status).toBe(403);
    expect(answer.headers.get("x-ratelimit-limit")).not.toBeNull();
    expect(JSON.parse(answer.body)).toEqual({
      error: {
        message:
          "This server is not called 'evil.example' here. Call it as localhost or 127.0.0.1, or add the name to allowed_hosts in its configuration.",
        type: "permission_error",
        param: "host",
        code: "host_not_allowed",
      },
    });
  }
  expect((await ask(troupe.url, "/healthz", "localhost:1")).status).toBe(200);
});

test("the operator's names are allowed, from a reload on", async () => {
  await using troupe = await start();
  expect((await ask(troupe.url, "/healthz", "troupe.lan")).status).toBe(403);
  const changed = { ...troupe.server.services.live.config, allowedHosts: ["troupe.lan"] };
  expect(troupe.server.reload(changed)).toEqual(["allowed_hosts"]);
  expect((await ask(troupe.url, "/healthz", "troupe.lan:8080")).status).toBe(200);
  expect((await ask(troupe.url, "/healthz", "evil.example")).status).toBe(403);
});

test("a trusted proxy may pass on any name, and what it says of the caller does not make a caller one", async () => {
  await using troupe = await start({ trustedProxies: ["127.0.0.1/32"] });
  expect((await ask(troupe.url, "/healthz", "troupe.example.com")).status).toBe(200);
  await using other = await start({ trustedProxies: ["192.0.2.1/32"] });
  const claim = "X-Forwarded-For: 192.0.2.1\r\n";
  expect((await ask(other.url, "/healthz", "troupe.example.com", claim)).status).toBe(403);
});

test("other listeners are called by any name", async () => {
  using folder = new TempFolder();
  const surfaces = ["orchestrator"] as const;
  const unix = { address: { kind: "unix", path: folder.file("s") } as const, surfaces };
  const everywhere = { address: { kind: "tcp", host: "0.0.0.0", port: 0 } as const, surfaces };
  await using troupe = await start({ listen: [everywhere, unix] });
  const url = troupe.url.replace("0.0.0.0", "127.0.0.1");
  expect((await ask(url, "/healthz", "any.example")).status).toBe(200);
  const answer = await fetch("http://any.example/healthz", { unix: folder.file("s") });
  expect(answer.status).toBe(200);
});
