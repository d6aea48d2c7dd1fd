/** Providers' own APIs below the gateway: what goes up and comes down is what was sent, but for keys. */
import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import fc from "fast-check";
import OpenAI from "openai";
import { runs } from "../helpers/long-form.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type BytesRequest, BytesServer } from "../helpers/upstreams/operations.ts";

const withRaw = ["orchestrator", "gateway", "raw"] as const;
let answer: (request: BytesRequest) => Response | Promise<Response>;

const upstream = untilEnd(new BytesServer((request) => answer(request)));
const troupe = untilEnd(
  await Troupe.start({
    surfaces: withRaw,
    providers: {
      openai: { baseUrl: `${upstream.url}/v1` },
      anthropic: { baseUrl: upstream.url, headers: { "x-own": "operator" } },
      google: { baseUrl: `${upstream.url}/v1beta` },
      azure: { baseUrl: upstream.url },
    },
  }),
);

const at = (path: string) => `/gateway/providers/${path}`;

test("the model that a body names is known to the ledger and the metrics, with the counts of the answer", async () => {
  answer = () => Response.json({ type: "message", usage: { input_tokens: 11, output_tokens: 13 } });
  const response = await troupe.post(at("anthropic/v1/messages"), { model: "claude-raw", max_tokens: 1, messages: [] });
  expect(response.status).toBe(200);
  expect(new TextDecoder().decode(upstream.last.bytes)).toBe('{"model":"claude-raw","max_tokens":1,"messages":[]}');
  await response.text();
  const metrics = await (await troupe.fetch("/metrics")).text();
  expect(metrics).toMatch(
    /gen_ai_client_token_usage_sum\{gen_ai_token_type="input",gen_ai_provider_name="anthropic",gen_ai_request_model="claude-raw",gen_ai_operation_name="chat"\} 11\b/,
  );
});

test("methods, paths, queries, bodies and answers are the same bytes on both sides", async () => {
  const bytes = fc.uint8Array({ maxLength: 60_000, size: "max" });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE"),
      bytes,
      bytes,
      fc.integer({ min: 1000, max: 60_000 }),
      fc.boolean(),
      fc.constantFrom(200, 201, 404, 503),
      // A parameter of the name `key` is taken out.
      fc.stringMatching(/^[a-z0-9~_-]{1,9}$/).filter((word) => word !== "key"),
      async (method, up, down, size, isStreamed, status, word) => {
        answer = () =>
          new Response(
            new ReadableStream({
              start(controller) {
                for (let from = 0; from < down.length; from += size) controller.enqueue(down.slice(from, from + size));
                controller.close();
              },
            }),
            { status, headers: { "content-type": "application/x-own", "x-echo": word } },
          );
        const pieces = new ReadableStream({
          start(controller) {
            for (let from = 0; from < up.length; from += size) controller.enqueue(up.slice(from, from + size));
            controller.close();
          },
        });
        const body = method === "GET" ? {} : { body: isStreamed ? pieces : up };
        const path = `v1/${word}%2F${word}?a=${word}&b=%20&${word}`;
        const headers = { "content-type": "application/x-up", "x-mine": word };
        const response = await troupe.fetch(at(`openai/${path}`), { method, headers, ...body });
        expect(response.status).toBe(status);
        expect([response.headers.get("x-echo"), response.headers.get("content-type")]).toEqual([
          word,
          "application/x-own",
        ]);
        expect(Buffer.from(await response.bytes()).equals(down)).toBe(true);
        const { last } = upstream;
        expect([last.method, last.path]).toEqual([method, `/${path}`]);
        expect(Buffer.from(last.bytes).equals(method === "GET" ? new Uint8Array() : up)).toBe(true);
        expect([last.headers.get("x-mine"), last.headers.get("content-type")]).toEqual([word, "application/x-up"]);
      },
    ),
    { numRuns: runs(60) },
  );
});

describe("keys", () => {
  test("the caller's never goes up, in whatever place, and the provider's goes in its own way", async () => {
    answer = () => Response.json({});
    for (const [name, header, value] of [
      ["openai", "authorization", "Bearer key-of-openai"],
      ["anthropic", "x-api-key", "key-of-anthropic"],
      ["google", "x-goog-api-key", "key-of-google"],
      ["azure", "api-key", "key-of-azure"],
    ] as const) {
      for (const own of ["authorization", "x-api-key", "x-goog-api-key", "api-key"]) {
        const response = await troupe.fetch(at(`${name}/v1/things?key=${troupe.key}&a=1&k%65y=2&x=${troupe.key}`), {
          key: null,
          headers: {
            [own]: own === "authorization" ? `Bearer ${troupe.key}` : troupe.key,
            cookie: "session=1",
            "x-forwarded-for": "10.0.0.9",
            "x-stray": troupe.key,
            "x-kept": "yes",
          },
        });
        expect(response.status).toBe(200);
        const { headers, path } = upstream.last;
        expect(JSON.stringify([...headers]) + path).not.toContain(troupe.key);
        expect([headers.get(header), headers.get("x-kept"), path]).toEqual([value, "yes", "/v1/things?a=1"]);
        for (const gone of ["cookie", "x-forwarded-for", "x-stray"]) expect(headers.get(gone)).toBeNull();
        const others = ["authorization", "x-api-key", "x-goog-api-key", "api-key"].filter((one) => one !== header);
        expect(others.map((one) => headers.get(one))).toEqual([null, null, null]);
      }
    }
    expect((await troupe.fetch(at("anthropic/v1/models"))).status).toBe(200);
    expect(upstream.last.headers.get("x-own")).toBe("operator");
    expect(upstream.last.headers.get("content-type")).toBeNull();
  });

  test("an access token goes with the beta that it needs, beside the caller's and the operator's", async () => {
    answer = () => Response.json({});
    await using own = await Troupe.start({
      surfaces: withRaw,
      providers: {
        anthropic: { baseUrl: upstream.url, apiKey: "sk-ant-oat01-x", headers: { "anthropic-beta": "operators" } },
      },
    });
    await own.fetch(at("anthropic/v1/models"), { headers: { "anthropic-beta": "callers" } });
    expect(upstream.last.headers.get("authorization")).toBe("Bearer sk-ant-oat01-x");
    expect(upstream.last.headers.get("anthropic-beta")).toBe("callers,oauth-2025-04-20,operators");
  });

  test("the provider's never comes down, nor its cookies, its limits by our names, or its connection's headers", async () => {
    answer = () =>
      new Response("x", {
        status: 201,
        headers: {
          "x-echo": "Bearer key-of-openai",
          "set-cookie": "a=b",
          "www-authenticate": "Bearer",
          "x-ratelimit-limit": "1",
          "x-ratelimit-limit-requests": "5",
          "x-request-id": "theirs",
          "openai-version": "2020",
          location: `${upstream.url}/v1/batches/b`,
        },
      });
    const { headers, status } = await troupe.fetch(at("openai/v1/x"));
    expect(status).toBe(201);
    expect(headers.get("location")).toBe(`${troupe.url}/gateway/providers/openai/batches/b`);
    expect([headers.get("openai-version"), headers.get("x-ratelimit-limit-requests")]).toEqual(["2020", "5"]);
    expect(headers.get("x-upstream-request-id")).toBe("theirs");
    expect(headers.get("x-request-id")).toStartWith("req_");
    for (const gone of ["x-echo", "set-cookie", "www-authenticate"]) expect(headers.get(gone)).toBeNull();
  });

  test("no key, a wrong surface and too many requests are refused before anything goes up", async () => {
    const before = upstream.requests.length;
    expect((await troupe.fetch(at("openai/v1/x"), { key: null })).status).toBe(401);
    const other = await troupe.createKey({ name: "o", tier: "pro", surfaces: ["orchestrator"] });
    expect((await troupe.fetch(at("openai/v1/x"), { key: other })).status).toBe(403);
    expect(upstream.requests.length).toBe(before);
    answer = () => Response.json({});
    const slow = await troupe.createKey({ name: "s", tier: "enterprise", perMinute: 1, surfaces: ["raw"] });
    const first = await troupe.fetch(at("openai/v1/x"), { key: slow });
    expect([first.status, first.headers.get("x-ratelimit-remaining")]).toEqual([200, "0"]);
    expect((await troupe.fetch(at("openai/v1/x"), { key: slow })).status).toBe(429);
    expect(upstream.requests.length).toBe(before + 1);
  });

  const json = (body: unknown) => ({
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

  test.each([
    ["openai/v1/chat/completions", json({ model: "gpt-a", messages: [] }), 200],
    ["openai/v1/chat/completions", json({ model: "gpt-b", messages: [] }), 403],
    ["openai/v1/chat/completions", json({ model: "gpt-a", models: ["gpt-b"] }), 403],
    ["openai/v1/chat/completions", json({ model: "gpt-a", Model: "gpt-b" }), 400],
    ["openai/v1/chat/completions", json({ messages: [] }), 403],
    ["openai/v1/chat/completions", json({ model: 1 }), 403],
    ["openai/v1/files", {}, 403],
    ["openai/v1/files", { method: "POST", body: "x" }, 403],
    ["openai/v1/models/gpt-a", { method: "DELETE" }, 403],
    ["google/v1beta/models/gemini-a:generateContent", json({ contents: [] }), 200],
    ["google/v1beta/models/gemini-b:generateContent", json({ contents: [] }), 403],
    ["google/v1beta/models/gemini-a:generateContent", json({ model: "models/gemini-b" }), 403],
    ["azure/openai/deployments/any/chat/completions", { method: "POST", body: "x" }, 200],
    ["anthropic/v1/messages", json({ model: "claude-a" }), 404],
  ])("of a key with globs %s %j is judged: %d", async (path, init, status) => {
    answer = () => Response.json({});
    const models = ["openai/gpt-a", "google/gemini-a", "azure/*"];
    const key = await troupe.createKey({ name: "g", tier: "pro", models, surfaces: ["raw"] });
    const response = await troupe.fetch(at(path), { ...init, key });
    expect(response.status).toBe(status);
    if (status === 200 && "headers" in init) expect(new TextDecoder().decode(upstream.last.bytes)).toBe(init.body);
  });
});

test("a body of large texts that is judged goes up as it came, its numbers and names too", async () => {
  answer = () => Response.json({});
  const key = await troupe.createKey({ name: "l", tier: "pro", models: ["openai/gpt-a"], surfaces: ["raw"] });
  const said = JSON.stringify('a "text" of é\n'.repeat(3000));
  const body = `{ "temperature":1.0, "messages":[{"role":"user","content":${said}}], "model" : "gpt-a","\\u0061":1e2}`;
  const init = { method: "POST", headers: { "content-type": "application/json" }, body, key };
  const response = await troupe.fetch(at("openai/v1/chat/completions"), init);
  expect(response.status).toBe(200);
  expect(new TextDecoder().decode(upstream.last.bytes) === body).toBe(true);
});

describe("paths", () => {
  test.each([
    ["openai/v1/models", "/v1/models"],
    ["openai/models", "/v1/models"],
    ["anthropic/v1/messages", "/v1/messages"],
    ["google/v1beta/models/x:generateContent", "/v1beta/models/x:generateContent"],
    ["google/upload/v1beta/files", "/upload/v1beta/files"],
    ["openai/v1/files/", "/v1/files/"],
    ["openai/v1/models/a%2Fb", "/v1/models/a%2Fb"],
    ["openai/v1/x/../y", "/v1/y"],
  ])("%s is %s", async (path, theirs) => {
    answer = () => Response.json({});
    const head = `host: localhost\r\nauthorization: Bearer ${troupe.key}\r\nconnection: close\r\n\r\n`;
    expect((await sendRaw(troupe.url, `GET ${at(path)} HTTP/1.1\r\n${head}`)).status).toBe(200);
    expect(upstream.last.path).toBe(theirs);
  });

  test.each([
    "openai/../../v1/models",
    "openai/../azure/x",
    "openai/%2e%2e/x",
    "openai/v1/..%2fx",
    "openai/v1/%252e%252e/x",
    "openai/v1/%252e%252e%252fx",
    "openai/v1/..;a/x",
    "openai//evil.example/x",
    "openai/v1//x",
    "openai/v1/..%5cx",
    "openai/v1/%00",
    "openai/v1/%zz",
    "nobody/v1/x",
    "builtin/v1/x",
    "openai",
  ])("%s leads nowhere", async (path) => {
    const before = upstream.requests.length;
    const head = `host: localhost\r\nauthorization: Bearer ${troupe.key}\r\nconnection: close\r\n\r\n`;
    const { status } = await sendRaw(troupe.url, `GET ${at(path)} HTTP/1.1\r\n${head}`);
    expect([400, 404]).toContain(status);
    expect(upstream.requests.length).toBe(before);
  });

  test("a redirect is passed on, and not followed", async () => {
    answer = () => new Response(null, { status: 302, headers: { location: "https://elsewhere.example/file" } });
    const before = upstream.requests.length;
    const response = await troupe.fetch(at("openai/v1/x"), { redirect: "manual" });
    expect([response.status, response.headers.get("location")]).toEqual([302, "https://elsewhere.example/file"]);
    expect(upstream.requests.length).toBe(before + 1);
  });

  test("a WebSocket is refused, and so is a service-request-id", async () => {
    const refused = await troupe.fetch(at("openai/v1/realtime"), {
      headers: { upgrade: "websocket", connection: "upgrade" },
    });
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: "websockets_unsupported" } }]);
    const named = await troupe.fetch(at("openai/v1/x"), { headers: { "service-request-id": "a" } });
    expect([named.status, await named.json()]).toMatchObject([400, { error: { param: "service-request-id" } }]);
  });

  test("HEAD has the answer's head, and 204 no body", async () => {
    answer = () => new Response("hello", { headers: { "x-echo": "1" } });
    const head = await troupe.fetch(at("openai/v1/x"), { method: "HEAD" });
    expect([head.status, head.headers.get("x-echo"), await head.text(), upstream.last.method]).toEqual([
      200,
      "1",
      "",
      "HEAD",
    ]);
    answer = () => new Response(null, { status: 204 });
    expect((await troupe.fetch(at("openai/v1/x"), { method: "DELETE" })).status).toBe(204);
  });
});

describe("large bodies", () => {
  test("are passed on without being held, and stop where the other side does not read", async () => {
    const opened = Promise.withResolvers<{ resume(): void }>();
    let received = 0;
    const done = Promise.withResolvers<void>();
    const size = 200 * 1024 * 1024;
    const listener = Bun.listen({
      port: 0,
      hostname: "127.0.0.1",
      socket: {
        open(socket) {
          socket.pause();
          opened.resolve(socket);
        },
        data(socket, bytes) {
          received += bytes.length;
          if (received < size) return;
          socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
          done.resolve();
        },
      },
    });
    await using own = await Troupe.start({
      surfaces: withRaw,
      providers: { openai: { baseUrl: `http://127.0.0.1:${listener.port}/v1` } },
    });
    const socket = connect(Number(new URL(own.url).port), "127.0.0.1");
    socket.write(
      `POST ${at("openai/v1/files")} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${own.key}\r\ncontent-length: ${size}\r\n\r\n`,
    );
    const piece = Buffer.alloc(1024 * 1024, "x");
    let sent = 0;
    const send = () => {
      while (sent < size) {
        sent += piece.length;
        if (!socket.write(piece)) return;
      }
    };
    socket.on("drain", send);
    send();
    const waiting = await opened.promise;
    let before = -1;
    for (let still = 0; still < 300; ) {
      await new Promise(setImmediate);
      still = sent === before ? still + 1 : 0;
      before = sent;
    }
    expect(sent).toBeLessThan(40 * 1024 * 1024);
    expect(own.server.services.bodyMemory.heldBytes).toBe(0);
    const answered = new Promise<string>((resolve) => socket.once("data", (bytes: Buffer) => resolve(String(bytes))));
    waiting.resume();
    await done.promise;
    expect(await answered).toContain("HTTP/1.1 200 OK");
    socket.destroy();
    listener.stop(true);
  });

  test("a reader who stops holds the provider back, and one who leaves ends the call", async () => {
    let made = 0;
    const left = Promise.withResolvers<void>();
    answer = () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            made += 1;
            controller.enqueue(new Uint8Array(256 * 1024));
          },
          cancel: () => left.resolve(),
        }),
      );
    const response = await troupe.fetch(at("openai/v1/files/f/content"));
    const reader = response.body!.getReader();
    await reader.read();
    let before = -1;
    for (let still = 0; still < 300; ) {
      await new Promise(setImmediate);
      still = made === before ? still + 1 : 0;
      before = made;
    }
    expect(made * 256).toBeLessThan(40 * 1024);
    await reader.cancel();
    await left.promise;
  });

  test("a client that leaves in the middle of its body, or before the answer, ends the call", async () => {
    const closed = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const listener = Bun.listen({
      port: 0,
      hostname: "127.0.0.1",
      socket: { data: () => begun.resolve(), close: () => closed.resolve() },
    });
    await using own = await Troupe.start({
      surfaces: withRaw,
      providers: { openai: { baseUrl: `http://127.0.0.1:${listener.port}/v1` } },
    });
    const socket = connect(Number(new URL(own.url).port), "127.0.0.1");
    socket.write(
      `POST ${at("openai/v1/files")} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${own.key}\r\ncontent-length: 1000000\r\n\r\nhalf`,
    );
    await begun.promise;
    socket.resetAndDestroy();
    await closed.promise;
    listener.stop(true);

    const aborted = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    answer = ({ signal }) => {
      asked.resolve();
      signal.addEventListener("abort", () => aborted.resolve());
      return new Promise(() => {});
    };
    const leaving = new AbortController();
    const call = troupe.fetch(at("openai/v1/x"), { signal: leaving.signal }).catch(() => {});
    await asked.promise;
    leaving.abort();
    await aborted.promise;
    await call;
  });

  test("an answer that breaks is not taken for a whole one", async () => {
    answer = () =>
      new Response(
        new ReadableStream({
          async pull(controller) {
            controller.enqueue(new Uint8Array(1000));
            await new Promise(setImmediate);
            controller.error(new Error("broken"));
          },
        }),
      );
    const response = await troupe.fetch(at("openai/v1/x"));
    await expect(response.bytes()).rejects.toThrow();
  });
});

describe("official clients, by their base URL alone", () => {
  test("Anthropic's: batches, which the gateway has no route for", async () => {
    answer = () => Response.json({ id: "msgbatch_1", type: "message_batch", processing_status: "in_progress" });
    const client = new Anthropic({ apiKey: troupe.key, baseURL: troupe.url + at("anthropic"), maxRetries: 0 });
    const batch = await client.messages.batches.create({
      requests: [
        { custom_id: "a", params: { model: "claude-x", max_tokens: 1, messages: [{ role: "user", content: "hi" }] } },
      ],
    });
    expect(batch.id).toBe("msgbatch_1");
    expect(upstream.last.path).toBe("/v1/messages/batches");
    expect(upstream.last.headers.get("anthropic-version")).toMatch(/^20\d\d-\d\d-\d\d$/);
    answer = () => Response.json({ type: "error", error: { type: "not_found_error", message: "no" } }, { status: 404 });
    // Its promises are lazy: they call when awaited.
    await expect((async () => client.messages.batches.retrieve("b"))()).rejects.toThrow(Anthropic.NotFoundError);
  });

  test("Google's", async () => {
    answer = () =>
      Response.json({
        candidates: [{ content: { role: "model", parts: [{ text: "hello" }] }, finishReason: "STOP" }],
        usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 },
      });
    const client = new GoogleGenAI({ apiKey: troupe.key, httpOptions: { baseUrl: troupe.url + at("google") } });
    const said = await client.models.generateContent({ model: "gemini-raw", contents: "hi" });
    expect([said.text, upstream.last.path]).toEqual([
      "hello",
      expect.stringMatching(/^\/v1(?:beta)?\/models\/gemini-raw:generateContent$/),
    ]);
    const metrics = await (await troupe.fetch("/metrics")).text();
    expect(metrics).toMatch(
      /gen_ai_client_token_usage_sum\{gen_ai_token_type="output",gen_ai_provider_name="google",gen_ai_request_model="gemini-raw",gen_ai_operation_name="chat"\} 4\b/,
    );
  });

  test("OpenAI's: files and batches", async () => {
    const client = new OpenAI({ apiKey: troupe.key, baseURL: troupe.url + at("openai/v1"), maxRetries: 0 });
    answer = async ({ bytes, headers }) => {
      const form = await new Response(bytes, { headers: { "content-type": headers.get("content-type")! } }).formData();
      const file = form.get("file") as File;
      return Response.json({ id: `file-${file.size}`, object: "file", purpose: form.get("purpose") });
    };
    const content = Buffer.alloc(3_000_000, '{"custom_id":"a"}\n');
    const file = await client.files.create({ file: new File([content], "b.jsonl"), purpose: "batch" });
    expect([file.id, file.purpose]).toEqual(["file-3000000", "batch"]);
    answer = () => Response.json({ id: "batch_1", object: "batch" });
    const batch = await client.batches.create({
      input_file_id: file.id,
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
    });
    expect([batch.id, upstream.last.path]).toEqual(["batch_1", "/v1/batches"]);
    answer = () => new Response(content);
    const downloaded = await client.files.content("file-1");
    expect(Buffer.from(await downloaded.arrayBuffer()).equals(content)).toBe(true);
  });
});
