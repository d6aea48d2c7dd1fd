import { describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { sendRaw } from "../helpers/raw-http.ts";
import { served } from "../helpers/served.ts";
import { Silence } from "../helpers/silence.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const hello = [{ role: "user" as const, content: "hi" }];
const small = 4096;
const silence = new Silence();
/** What the upstream answers next. */
let answer: () => Response | Promise<Response> = () => jsonResponse({});

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({
    clock: silence.clock,
    providers: {
      openai: { baseUrl: `${url}/v1`, timeouts: silence.timeouts },
      dead: { dialect: "openai", baseUrl: "http://127.0.0.1:1/v1" },
    },
    config: {
      limits: {
        bodyBytes: small,
        jsonDepth: 16,
        jsonValues: 10_000,
        jsonKeys: 10_000,
        jsonStringBytes: 1_000_000,
        bodySeconds: 60,
        idleConnectionSeconds: 75,
        concurrentRequests: 100,
        backgroundResponses: 100,
        anonymousPerMinute: 600,
      },
    },
  }),
);

type Body = { error: { message: string; type: string; param: string; code: string } };

async function errorOf(response: Response): Promise<Body["error"]> {
  expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
  expect(response.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
  const body = (await response.json()) as Body;
  expect(Object.keys(body)).toEqual(["error"]);
  expect(Object.keys(body.error).sort()).toEqual(["code", "message", "param", "type"]);
  for (const value of Object.values(body.error)) expect(value).toBeString();
  return body.error;
}

describe("the table of errors", () => {
  const surfaces = ["/v1", "/gateway/v1"];
  const completions = (base: string) => `${base}/chat/completions`;

  test.each(surfaces)("%s: 400 invalid_json, with line and column", async (base) => {
    const response = await troupe.post(completions(base), '{"model": "a/b",\n oops}');
    expect(response.status).toBe(400);
    const error = await errorOf(response);
    expect(error).toMatchObject({ type: "invalid_request_error", code: "invalid_json", param: "" });
    expect(error.message).toContain("line 2, column 2");
  });

  test.each(surfaces)("%s: 400 invalid_value and missing_field name the path", async (base) => {
    const bad = await troupe.post(completions(base), { model: "builtin/echo", messages: hello, temperature: "3" });
    expect(bad.status).toBe(400);
    expect(await errorOf(bad)).toMatchObject({ code: "invalid_value", param: "temperature" });
    const missing = await troupe.post(completions(base), { model: "builtin/echo" });
    expect(missing.status).toBe(400);
    expect(await errorOf(missing)).toMatchObject({ code: "missing_field", param: "messages" });
  });

  test.each(surfaces)("%s: 400 for bytes that are not UTF-8", async (base) => {
    const response = await troupe.fetch(completions(base), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d),
    });
    expect(response.status).toBe(400);
    expect((await errorOf(response)).code).toBe("invalid_json");
  });

  test("400 unknown_provider names the field and what is set up", async () => {
    for (const model of ["nowhere/x", "gpt-4"]) {
      const response = await troupe.post("/gateway/v1/chat/completions", { model, messages: hello });
      expect(response.status).toBe(400);
      const error = await errorOf(response);
      expect(error).toMatchObject({ type: "invalid_request_error", code: "unknown_provider", param: "model" });
      expect(error.message).toContain("openai");
    }
  });

  test("400 unknown_provider names no provider that the key may not use", async () => {
    const told = async (models: string[]) => {
      const key = await troupe.createKey({ name: "narrow", tier: "pro", models });
      const response = await troupe.post("/gateway/v1/chat/completions", { model: "x/y", messages: hello }, { key });
      return (await errorOf(response)).message;
    };
    expect(await told(["openai/*"])).toBe(
      "No provider is set up for 'x/y'. Name it as <provider>/<model>; providers set up here: openai.",
    );
    expect(await told(["*/gpt-5"])).toContain("builtin");
    expect(await told(["elsewhere/*"])).toBe("No provider is set up for 'x/y'. Name it as <provider>/<model>.");
  });

  test.each(surfaces)("%s: 401 with one message for every kind of wrong key", async (base) => {
    const revoked = await troupe.createKey({ name: "gone", tier: "free" });
    await troupe.server.services.keys.revoke(revoked.slice(0, 12));
    const wrong = [null, "", "sk-foreign", `${troupe.key}x`, `trp_${"a".repeat(46)}`, revoked];
    const messages = new Set<string>();
    for (const key of wrong) {
      const response = await troupe.post(completions(base), { model: "builtin/echo", messages: hello }, { key });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      const error = await errorOf(response);
      expect(error).toMatchObject({ type: "authentication_error", code: "invalid_api_key", param: "" });
      messages.add(error.message);
    }
    expect(messages.size).toBe(1);
  });

  test("403 model_not_allowed on the gateway, 404 on the orchestrator: what you may not use does not exist", async () => {
    const key = await troupe.createKey({ name: "narrow", tier: "pro", models: ["openai/*"] });
    const gateway = await troupe.post(
      "/gateway/v1/chat/completions",
      { model: "builtin/echo", messages: hello },
      { key },
    );
    expect(gateway.status).toBe(403);
    expect(await errorOf(gateway)).toMatchObject({
      type: "permission_error",
      code: "model_not_allowed",
      param: "model",
    });
    const persona = await troupe.post("/v1/chat/completions", { model: "troupe/tutor", messages: hello }, { key });
    expect(persona.status).toBe(404);
    expect(await errorOf(persona)).toMatchObject({ code: "model_not_found", param: "model" });
  });

  test("403 surface_not_allowed for a key that does not open the surface", async () => {
    const key = await troupe.createKey({ name: "one door", tier: "pro", surfaces: ["gateway"] });
    const response = await troupe.fetch("/v1/models", { key });
    expect(response.status).toBe(403);
    expect(await errorOf(response)).toMatchObject({ type: "permission_error", code: "surface_not_allowed" });
    expect((await troupe.fetch("/gateway/v1/models", { key })).status).toBe(200);
  });

  test("404 model_not_found for an unknown persona, and for one above the key's tier", async () => {
    const free = await troupe.createKey({ name: "free", tier: "free" });
    const listed = (await (await troupe.fetch("/v1/models")).json()) as { data: { id: string; tier: string }[] };
    const above = listed.data.find(({ tier }) => tier === "enterprise")!.id;
    for (const model of ["troupe/nobody", above]) {
      const response = await troupe.post("/v1/chat/completions", { model, messages: hello }, { key: free });
      expect(response.status).toBe(404);
      expect(await errorOf(response)).toMatchObject({
        type: "invalid_request_error",
        code: "model_not_found",
        param: "model",
      });
    }
  });

  test.each(["/v1/nothing", "/nothing", "/gateway/v1/nothing", "/gateway", "/v1/chat"])(
    "404 not_found: %s",
    async (path) => {
      const response = await troupe.fetch(path);
      expect(response.status).toBe(404);
      expect(await errorOf(response)).toMatchObject({ type: "invalid_request_error", code: "not_found" });
    },
  );

  test.each([
    ["PUT", "/v1/models", "GET, HEAD"],
    ["DELETE", "/v1/models/troupe/tutor", "GET, HEAD"],
    ["PATCH", "/gateway/v1/chat/completions", "POST"],
    ["POST", "/health", "GET, HEAD"],
  ])("405 for %s %s, with Allow", async (method, path, allow) => {
    const response = await troupe.fetch(path, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toContain(allow);
    expect(await errorOf(response)).toMatchObject({ type: "invalid_request_error", code: "method_not_allowed" });
  });

  test.each(surfaces)("%s: 413 for a declared and for an undeclared length", async (base) => {
    const big = JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "x".repeat(small) }] });
    const declared = await troupe.post(completions(base), big);
    const streamed = await troupe.fetch(completions(base), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new Blob([big]).stream(),
    });
    for (const response of [declared, streamed]) {
      expect(response.status).toBe(413);
      expect(await errorOf(response)).toMatchObject({ type: "invalid_request_error", code: "request_too_large" });
    }
  });

  test.each(["text/plain", "application/x-www-form-urlencoded"])("415 for a body of %s", async (type) => {
    const response = await troupe.post("/v1/chat/completions", "{}", { headers: { "content-type": type } });
    expect(response.status).toBe(415);
    expect((await errorOf(response)).code).toBe("unsupported_media_type");
  });

  test("429 with Retry-After", async () => {
    const key = await troupe.createKey({ name: "tiny", tier: "enterprise", perMinute: 1 });
    expect((await troupe.fetch("/v1/models", { key })).status).toBe(200);
    const response = await troupe.fetch("/v1/models", { key });
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeWithin(1, 61);
    expect(await errorOf(response)).toMatchObject({ type: "rate_limit_error", code: "rate_limit_exceeded" });
  });

  test("500 says nothing of what happened", async () => {
    const { modelPages } = troupe.server.services;
    const find = modelPages.page;
    modelPages.page = () => {
      throw new Error("/secret/path exploded");
    };
    try {
      const response = await troupe.fetch("/v1/models");
      expect(response.status).toBe(500);
      const error = await errorOf(response);
      expect(error).toEqual({
        message: "Internal server error.",
        type: "server_error",
        param: "",
        code: "internal_error",
      });
    } finally {
      modelPages.page = find;
    }
  });

  test("503 upstream_unreachable with Retry-After", async () => {
    const response = await troupe.post("/gateway/v1/chat/completions", { model: "dead/x", messages: hello });
    expect(response.status).toBe(503);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(response.headers.get("x-should-retry")).toBe("true");
    expect(response.headers.get("x-troupe-error-source")).toBeNull();
    expect(await errorOf(response)).toMatchObject({ type: "server_error", code: "upstream_unreachable" });
  });

  test.each([
    ["no JSON", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
    ["a redirect", () => new Response(null, { status: 302, headers: { location: "https://elsewhere.example/" } })],
    ["a stream that ends before it began", () => sseResponse([": nothing\n\n"])],
  ])("503 upstream_invalid_response for %s", async (_name, next) => {
    answer = next;
    const body = { model: "openai/x", messages: hello, stream: true };
    const response = await troupe.post("/gateway/v1/chat/completions", body);
    expect(response.status).toBe(503);
    expect(response.headers.get("location")).toBeNull();
    expect(await errorOf(response)).toMatchObject({ type: "server_error", code: "upstream_invalid_response" });
  });

  test("503 draining", async () => {
    const { services } = troupe.server;
    services.draining = true;
    try {
      const response = await troupe.fetch("/v1/models");
      expect(response.status).toBe(503);
      expect(response.headers.get("retry-after")).toBe("5");
      expect(await errorOf(response)).toMatchObject({ type: "server_error", code: "draining" });
      expect((await troupe.fetch("/healthz", { key: null })).status).toBe(503);
    } finally {
      services.draining = false;
    }
  });

  test("504 upstream_timeout when the first byte does not come", async () => {
    const gone = Promise.withResolvers<void>();
    answer = () => {
      upstream.last.signal.addEventListener("abort", () => gone.resolve());
      return silence.answer();
    };
    const response = await troupe.post("/gateway/v1/chat/completions", { model: "openai/x", messages: hello });
    expect(response.status).toBe(504);
    expect(await errorOf(response)).toMatchObject({ type: "timeout_error", code: "upstream_timeout" });
    await gone.promise;
  });
});

describe("upstream errors on the gateway", () => {
  test.each([
    [400, "application/json", '{"error" : {"message":"bad","type":null,"param":null,"code":7}}\n'],
    [418, "text/html", "<h1>teapot</h1>"],
    [429, "application/json", '{"detail":"slow down"}'],
    [500, "text/plain", ""],
    [529, "application/json", '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'],
  ])("%d %s comes back byte for byte", async (status, type, body) => {
    answer = () =>
      new Response(body, {
        status,
        headers: {
          "content-type": type,
          "retry-after": "17",
          "retry-after-ms": "17000",
          "x-should-retry": "false",
          "x-request-id": "theirs-1",
          "set-cookie": "a=b",
          server: "secret",
        },
      });
    for (const stream of [false, true]) {
      const response = await troupe.post("/gateway/v1/chat/completions", {
        model: "openai/x",
        messages: hello,
        stream,
      });
      expect(response.status).toBe(status);
      expect(await response.text()).toBe(body);
      expect(response.headers.get("content-type")).toBe(type);
      expect(response.headers.get("retry-after")).toBe("17");
      expect(response.headers.get("retry-after-ms")).toBe("17000");
      expect(response.headers.get("x-should-retry")).toBe("false");
      expect(response.headers.get("x-upstream-request-id")).toBe("theirs-1");
      expect(response.headers.get("x-request-id")).toMatch(/^req_/);
      expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
      expect(response.headers.get("set-cookie")).toBeNull();
      expect(response.headers.get("server")).toBeNull();
    }
  });

  test("a compressed error is given back readable", async () => {
    const body = '{"error":{"message":"zipped"}}';
    answer = () =>
      new Response(Bun.gzipSync(body), {
        status: 400,
        headers: { "content-type": "application/json", "content-encoding": "gzip" },
      });
    const response = await troupe.post("/gateway/v1/chat/completions", { model: "openai/x", messages: hello });
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(await response.text()).toBe(body);
  });

  test("the official client raises the right class with the upstream's words", async () => {
    answer = () =>
      jsonResponse({ error: { message: "no quota", type: "insufficient_quota", param: null, code: "q" } }, 429);
    const call = troupe.client("gateway").chat.completions.create({ model: "openai/x", messages: hello });
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(error).toMatchObject({ status: 429, code: "q", type: "insufficient_quota" });
  });
});

describe("upstream errors on the orchestrator are our own", () => {
  const persona = "troupe/tutor";
  const call = () => troupe.post("/v1/chat/completions", { model: persona, messages: hello });

  test("the words and headers of the upstream stay inside", async () => {
    using _only = onlyModel(persona, "openai/x");
    answer = () => jsonResponse({ error: { message: "openai says no", code: "invalid_api_key" } }, 401);
    const response = await call();
    expect(response.status).toBe(500);
    expect(response.headers.get("x-troupe-error-source")).toBeNull();
    expect(await errorOf(response)).toMatchObject({ code: "internal_error", message: "Internal server error." });
  });

  test.each([
    [400, { error: { message: "maximum context length is 8192 tokens" } }, 400, "context_length_exceeded"],
    [400, { error: { message: "filtered", code: "content_filter" } }, 400, "content_filter"],
    [400, { error: { message: "Unsupported value: image" } }, 400, "invalid_value"],
    [403, { error: { message: "key lacks permission" } }, 500, "internal_error"],
    [404, { error: { message: "no such model" } }, 500, "internal_error"],
    [429, { error: { message: "slow" } }, 503, "upstream_unavailable"],
    [500, { error: { message: "oops" } }, 503, "upstream_unavailable"],
    [504, { error: { message: "late" } }, 504, "upstream_timeout"],
  ])("%d %j becomes %d %s", async (status, body, ours, code) => {
    using _only = onlyModel(persona, "openai/x");
    answer = () => jsonResponse(body, status);
    const response = await call();
    expect(response.status).toBe(ours);
    const error = await errorOf(response);
    expect(error.code).toBe(code);
    expect(error.message).not.toContain(body.error.message);
    expect(error.message).not.toContain("openai");
    if (ours === 503) expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("an unreachable one is 503 and names nobody", async () => {
    using _only = onlyModel(persona, "dead/x");
    const response = await call();
    expect(response.status).toBe(503);
    expect((await errorOf(response)).message).not.toContain("dead");
  });

  test("a failing model is passed over for the next one", async () => {
    using _only = onlyModel(persona, "openai/x", "dead/x", "builtin/echo");
    answer = () => jsonResponse({ error: { message: "oops" } }, 500);
    const before = upstream.requests.length;
    const response = await call();
    expect(response.status).toBe(200);
    expect(((await response.json()) as OpenAI.ChatCompletion).choices[0]!.message.content).toBe("hi");
    expect(upstream.requests.length).toBe(before + 1);
  });

  /** Points a persona at these models for as long as it is held. */
  function onlyModel(id: string, ...targets: string[]): Disposable {
    const { personas } = troupe.server.services;
    const all = personas.list();
    personas.replace(all.map((one) => (one.id === id ? { ...one, targets } : one)));
    return { [Symbol.dispose]: () => personas.replace(all) };
  }
});

describe("requests that are not quite HTTP", () => {
  test("a short or odd Host changes nothing where any is allowed", async () => {
    await using open = await Troupe.start({ config: { allowedHosts: ["*"] } });
    for (const host of ["x", "a b", "llm"]) {
      const lines = [`Host: ${host}`, `Authorization: Bearer ${open.key}`, "Connection: close", "", ""];
      expect((await sendRaw(open.url, `GET /v1/models HTTP/1.1\r\n${lines.join("\r\n")}`)).status).toBe(200);
    }
  });

  test("a wrong key is refused while the body is still to come", async () => {
    const lines = [
      "POST /v1/chat/completions HTTP/1.1",
      "Host: localhost",
      "Connection: close",
      "Authorization: Bearer no",
      "Content-Type: application/json",
      "Content-Length: 100000",
    ];
    const answered = await sendRaw(troupe.url, `${lines.join("\r\n")}\r\n\r\n`);
    expect(answered.status).toBe(401);
    expect(answered.headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);
  });
});
