/**
 * Who may do what, in black box: every route, in every spelling that a server in between may read in another way, by every kind of key.
 * What counts is what reaches the provider: no model that the key may not name, nobody's key, no account but the operator's.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import { sendRaw } from "../helpers/raw-http.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe, testConfig } from "../helpers/troupe.ts";
import { BytesServer } from "../helpers/upstreams/operations.ts";

const providers = ["openai", "openrouter", "anthropic", "google", "azure", "groq"] as const;
const surfaces = ["orchestrator", "gateway"] as const;
const { limits } = testConfig("", {});

const nothing = () => Response.json({ usage: {} });
let answer: () => Response | Promise<Response> = nothing;
/** By what they may do. */
const keys: Record<"free" | "raw" | "limited" | "limitedRaw" | "rawAlone" | "orchestrator", string> = {} as never;

const upstream = untilEnd(new BytesServer(() => answer()));
const base = { google: "/v1beta", openai: "/v1", openrouter: "/api/v1", groq: "/openai/v1" } as Record<string, string>;
const troupe = untilEnd(
  await Troupe.start({
    providers: Object.fromEntries(providers.map((name) => [name, { baseUrl: upstream.url + (base[name] ?? "") }])),
    config: { aliases: { alias: "openai/forbidden" }, limits: { ...limits, backgroundResponses: 2 } },
  }),
);
troupe.setTargets("troupe/guide", ["openrouter/ok"]);
const models = [...providers.map((name) => `${name}/ok*`), "troupe/guide"];
const make = (name: string, more: object) =>
  troupe.createKey({ name, tier: "enterprise", perMinute: 1_000_000, ...more });
keys.free = await make("free", {});
keys.raw = await make("raw", { surfaces: [...surfaces, "raw"] });
keys.limited = await make("limited", { models });
keys.limitedRaw = await make("limited raw", { models, surfaces: [...surfaces, "raw"] });
keys.rawAlone = await make("raw alone", { surfaces: ["raw"] });
keys.orchestrator = await make("orchestrator", { surfaces: ["orchestrator"] });
beforeEach(() => {
  upstream.requests.splice(0);
  answer = nothing;
});

/** As a server understands it that decodes whatever it can. */
function understood(text: string): string {
  let known = text;
  for (let times = 0; times < 5; times += 1)
    known = known.replace(/%([0-9a-f]{2})|\\u00([0-9a-f]{2})/gi, (_, one, other) =>
      String.fromCharCode(Number.parseInt(one ?? other, 16)),
    );
  return known.toLowerCase();
}

/** All that providers were sent since the test began. */
const sentUp = () =>
  upstream.requests
    .map(({ method, path, headers, bytes }) =>
      understood([method, path, ...[...headers].flat(), new TextDecoder().decode(bytes)].join("\n")),
    )
    .join("\n");

/** Sent as it is written: no client resolves anything in it. */
async function send(key: string, method: string, target: string, body = "", headers: Record<string, string> = {}) {
  const lines = { host: "localhost", authorization: `Bearer ${key}`, connection: "close", ...headers };
  const typed = body === "" ? lines : { "content-type": "application/json", ...lines };
  const all = { ...typed, "content-length": String(Buffer.byteLength(body)) };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return sendRaw(troupe.url, `${method} ${target} HTTP/1.1\r\n${head.join("")}\r\n${body}`);
}

/** A limited key is refused, by an error of the caller's, before a provider hears of the model. */
async function isKept(key: string, method: string, target: string, body = "", headers = {}): Promise<void> {
  const { status } = await send(key, method, target, body, headers);
  expect([method, target, body, status >= 400 && status < 500 ? "refused" : status]).toEqual([
    method,
    target,
    body,
    "refused",
  ]);
  expect([target, body, sentUp()]).toEqual([target, body, expect.not.stringContaining("forbidden")]);
}

const messages = [{ role: "user", content: "hi" }];
/** Every route whose body names a model, with the rest of the body. */
const named: readonly [path: string, model: string, rest: object][] = [
  ["/gateway/v1/chat/completions", "openrouter/ok", { messages }],
  ["/gateway/v1/chat/completions", "groq/ok", { messages }],
  ["/gateway/v1/chat/completions", "anthropic/ok", { messages }],
  ["/gateway/v1/chat/completions", "google/ok", { messages }],
  ["/gateway/v1/chat/completions", "azure/ok", { messages }],
  ["/gateway/v1/responses", "openai/ok", { input: "hi" }],
  ["/gateway/v1/responses", "groq/ok", { input: "hi" }],
  ["/gateway/v1/responses/input_tokens", "openai/ok", { input: "hi" }],
  ["/gateway/v1/messages", "anthropic/ok", { messages, max_tokens: 1 }],
  ["/gateway/v1/messages", "openrouter/ok", { messages, max_tokens: 1 }],
  ["/gateway/v1/messages/count_tokens", "anthropic/ok", { messages }],
  ["/gateway/v1/completions", "openrouter/ok", { prompt: "hi" }],
  ["/gateway/v1/embeddings", "openai/ok", { input: "hi" }],
  ["/gateway/v1/images/generations", "openai/ok", { prompt: "hi" }],
  ["/gateway/v1/images/edits", "openai/ok", { prompt: "hi" }],
  ["/gateway/v1/audio/speech", "openai/ok", { input: "hi" }],
  ["/gateway/v1/moderations", "openai/ok", { input: "hi" }],
  ["/gateway/v1/rerank", "openrouter/ok", { query: "hi", documents: ["a"] }],
  ["/v1/chat/completions", "troupe/guide", { messages }],
  ["/v1/messages", "troupe/guide", { messages, max_tokens: 1 }],
  ["/gateway/providers/openai/v1/chat/completions", "ok", { messages }],
  ["/gateway/providers/openai/v1/responses", "ok", { input: "hi" }],
  ["/gateway/providers/anthropic/v1/messages", "ok", { messages }],
  ["/gateway/providers/google/v1beta/models/ok:generateContent", "ok", { contents: [] }],
];

/** What names another model beside. */
const beside: readonly object[] = [
  { models: ["forbidden"] },
  { models: ["ok", "forbidden"], route: "fallback" },
  { fallbacks: [{ model: "forbidden" }] },
  { fallback_model: "forbidden" },
  { extra_body: { models: ["forbidden"] } },
  { openrouter: { models: ["forbidden"] } },
  { preset: "forbidden" },
  { plugins: [{ id: "auto-router", allowed_models: ["forbidden"] }] },
  { plugins: [{ id: "fusion", analysisModels: ["forbidden"], model: "forbidden" }] },
  { compound_custom: { models: { answering_model: "forbidden" } } },
  { tools: [{ type: "image_generation", model: "forbidden" }] },
  { tools: [{ type: "advisor_20260301", name: "advisor", model: "forbidden" }] },
  { lora_path: "forbidden" },
  { adapter_id: "forbidden" },
  { data_sources: [{ parameters: { embedding_dependency: { deployment_name: "forbidden" } } }] },
];

/** Bodies that two servers read in two ways. */
const doubled = (model: string, rest: object): string[] => {
  const other = `${model.slice(0, model.lastIndexOf("/") + 1)}forbidden`;
  const tail = JSON.stringify(rest).slice(1);
  return [
    `{"model":"${model}","model":"${other}",${tail}`,
    `{"model":"${other}","model":"${model}",${tail}`,
    `{"model":"${model}","mod\\u0065l":"${other}",${tail}`,
    `{"model":"${model}","Model":"${other}",${tail}`,
    `{"model":"${model}","MODEL":"${other}",${tail}`,
    `{"model":"${model}","tools":[{"type":"image_generation","model":"forbidden","model":"ok"}],${tail}`,
    `{"model":"${model}","models":["forbidden"],"models":["ok"],${tail}`,
    `{"model":["${model}","${other}"],${tail}`,
    `{"model":{"id":"${other}"},${tail}`,
    `{"model":"${other}",${tail}`,
    `{"model":"${model}/../forbidden",${tail}`,
    `{"model":"alias",${tail}`,
  ];
};

describe("a key that may use some models names no other", () => {
  test.each(named)("in a body to %s (%s)", async (path, model, rest) => {
    const key = path.includes("/providers/") ? keys.limitedRaw : keys.limited;
    for (const more of beside) await isKept(key, "POST", path, JSON.stringify({ model, ...rest, ...more }));
    for (const body of doubled(model, rest)) await isKept(key, "POST", path, body);
    // What it may do is done, whatever its tools and its words are about.
    const properties = { model: { type: "string" }, fallbacks: { type: "string" } };
    const parameters = { type: "object", properties };
    const isResponses = path.includes("/responses");
    const isMessages = path.includes("/messages");
    const tool = isResponses
      ? { type: "function", name: "f", parameters }
      : isMessages
        ? { name: "f", input_schema: parameters }
        : { type: "function", function: { name: "f", parameters } };
    const takesTools = "messages" in rest || isResponses;
    const more = takesTools ? { tools: [tool], metadata: { model: "a" } } : {};
    await send(key, "POST", path, JSON.stringify({ model, ...rest, ...more }));
    const isAsked = upstream.requests.length > 0 || path.endsWith("input_tokens") || path.endsWith("count_tokens");
    expect([path, isAsked]).toEqual([path, true]);
  });

  const advisor = { type: "advisor_20260301", name: "advisor", model: "forbidden" };
  const image = { type: "image_generation", model: "forbidden" };
  const addition = { type: "tool_addition", tool: { type: "tool_definition", definition: advisor } };
  const turn = (...content: object[]) => ({ messages: [...messages, { role: "system", content }], max_tokens: 1 });
  const items = (...more: object[]) => ({ input: [{ role: "user", content: "hi" }, ...more] });
  /** Accounts that are sent every one of these bodies as it came. */
  const asItCame = new Set(["openai", "anthropic"]);
  test.each<[string, readonly string[], object]>([
    ["a tool that a turn adds", ["anthropic/v1/messages", "openrouter/v1/messages"], turn(addition)],
    [
      "a tool of a summary",
      ["anthropic/v1/messages"],
      turn({ type: "compaction", content: "a", tool_changes: [addition] }),
    ],
    ["the model that went on", ["anthropic/v1/messages"], turn({ type: "fallback", to: { model: "forbidden" } })],
    [
      "tools of an item",
      ["openai/v1/responses", "groq/v1/responses"],
      items({ type: "additional_tools", role: "developer", tools: [image] }),
    ],
    [
      "tools that were found",
      ["openai/v1/responses"],
      items({ type: "tool_search_output", call_id: "c", tools: [{ type: "namespace", name: "n", tools: [image] }] }),
    ],
    [
      "a tool's second model",
      ["openai/v1/responses"],
      items({ type: "additional_tools", tools: [{ type: "image_generation", svg: { model: "forbidden" } }] }),
    ],
    ["a check's model", ["openai/v1/responses"], { ...items(), moderation: { model: "forbidden" } }],
  ])("where a look at its tools alone misses it: %s", async (_, paths, body) => {
    for (const path of paths) {
      const [account, , route] = path.split("/");
      for (const form of [body, { tools: [], ...body }, { ...body, stream: true }, { ...body, store: false }]) {
        await isKept(keys.limited, "POST", `/gateway/v1/${route}`, JSON.stringify({ model: `${account}/ok`, ...form }));
        await isKept(keys.limitedRaw, "POST", `/gateway/providers/${path}`, JSON.stringify({ model: "ok", ...form }));
        const beside =
          route === "messages" ? ["messages/count_tokens"] : ["responses/input_tokens", "responses/compact"];
        for (const other of beside)
          await isKept(
            keys.limited,
            "POST",
            `/gateway/v1/${other}`,
            JSON.stringify({ model: `${account}/ok`, ...form }),
          );
      }
      // A model that it may use is no reason to refuse.
      const allowed = JSON.stringify({ model: `${account}/ok`, ...body }).replaceAll("forbidden", "ok-too");
      await send(keys.limited, "POST", `/gateway/v1/${route}`, allowed);
      if (asItCame.has(account!))
        expect(upstream.requests.splice(0).map(({ path: at }) => at)).toEqual([expect.stringContaining(route!)]);
    }
  });

  const bodyless = JSON.stringify({ contents: [{ parts: [{ text: "hi" }] }] });
  const methods = ["generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents", "countTokens"];
  const spellings = [
    "models/forbidden:M",
    "mode%6cs/forbidden:M",
    "mode%256cs/forbidden:M",
    "models%2fforbidden:M",
    "models%252Fforbidden:M",
    "models/forbid%64en:M",
    "models/forbid%2564en:M",
    "models/forbidden%3AM",
    "models/ok%2f..%2fforbidden:M",
    "models/ok/../forbidden:M",
    "models/ok;/../forbidden:M",
    "models/ok%5c..%5cforbidden:M",
    "models/ok\\..\\forbidden:M",
    "models/ok:M%2F..%2Fforbidden:M",
    "models/ok:generateContent%2Fforbidden:countTokens",
    "models/ok:M/../../models/forbidden:M",
    "models/ok/models/forbidden:M",
    "models/ok%23/forbidden:M",
    "models//forbidden:M",
    "models/./forbidden:M",
    "models/%2e/forbidden:M",
    "Models/forbidden:M",
    "MODELS/FORBIDDEN:M",
    "tunedModels/forbidden:M",
    "models/forbidden:batchGenerateContent",
    "models/ok:batchGenerateContent?x=forbidden",
    "cachedContents/forbidden",
    "files/forbidden",
  ];

  test.each(spellings)("in a path: %s", async (spelling) => {
    for (const method of methods) {
      const path = spelling.replaceAll("M", method).replace(/^(models)\b/i, "$1");
      const own = spelling.startsWith("MODELS") ? `MODELS/FORBIDDEN:${method}` : path;
      for (const root of ["v1beta/", "v1/", ""])
        await isKept(keys.limitedRaw, "POST", `/gateway/providers/google/${root}${own}`, bodyless);
      const ofGateway = own.replace(/models(%252f|%2f|\/)(?!.*models)/i, "models$1google%2F");
      await isKept(keys.limited, "POST", `/gateway/v1beta/${ofGateway}`, bodyless);
      await isKept(keys.limited, "POST", `/gateway/v1beta/google/${own.replace(/^models\//, "")}`, bodyless);
    }
  });

  const wrapped = { generateContentRequest: { model: "models/forbidden", contents: [{ parts: [{ text: "hi" }] }] } };
  const embedded = { model: "models/forbidden", content: { parts: [{ text: "hi" }] } };
  const bodies: readonly (readonly [method: string, isRenamed: boolean, body: object])[] = [
    ...methods.map((method) => [method, method === "countTokens", wrapped] as const),
    ["embedContent", true, embedded],
    ["batchEmbedContents", true, { requests: [embedded] }],
    ["batchEmbedContents", true, { requests: embedded }],
    ["batchEmbedContents", false, { requests: [[embedded]] }],
    ...methods.flatMap((method) => beside.map((more) => [method, false, { ...embedded, ...more }] as const)),
  ];

  test.each(methods)("in a body of Gemini's %s", async (method) => {
    for (const [, isRenamed, body] of bodies.filter(([of]) => of === method)) {
      const text = JSON.stringify({ contents: [{ parts: [{ text: "hi" }] }], ...body });
      await isKept(keys.limitedRaw, "POST", `/gateway/providers/google/v1beta/models/ok:${method}`, text);
      const path = `/gateway/v1beta/models/google/ok:${method}`;
      if (!isRenamed) await isKept(keys.limited, "POST", path, text);
      else {
        await send(keys.limited, "POST", path, text);
        expect([path, text, sentUp()]).toEqual([path, text, expect.not.stringContaining("forbidden")]);
      }
    }
  });

  test.each([
    ["POST", "openai/v1/batches", { model: "ok", endpoint: "forbidden" }],
    ["POST", "openai/v1/files", { model: "ok", x: "forbidden" }],
    ["POST", "openai/v1/fine_tuning/jobs", { model: "ok", training_file: "forbidden" }],
    ["POST", "openai/v1/threads/forbidden/messages", { model: "ok" }],
    ["POST", "openai/v1/responses/forbidden/cancel", { model: "ok" }],
    ["POST", "openai/v1/chat/completions/forbidden", { model: "ok" }],
    ["POST", "openai/v1/chat/completions%2fforbidden", { model: "ok" }],
    ["POST", "anthropic/v1/messages/batches", { model: "ok", requests: [{ params: { model: "forbidden" } }] }],
    ["POST", "azure/openai/deployments/forbidden/chat/completions", { model: "ok" }],
    ["POST", "azure/openai/deployments/forbid%64en/chat/completions", { model: "ok" }],
    ["POST", "azure/openai/deployments/ok%2f..%2fforbidden/chat/completions", { model: "ok" }],
    ["PUT", "openai/v1/chat/completions", { model: "ok", x: "forbidden" }],
    ["GET", "openai/v1/responses/forbidden", undefined],
    ["GET", "openai/v1/chat/completions?x=forbidden", undefined],
    ["DELETE", "openai/v1/responses/forbidden", undefined],
    ["DELETE", "openai/v1/models/forbidden", undefined],
    ["HEAD", "openai/v1/responses/forbidden", undefined],
  ])("by another operation: %s %s", async (method, path, body) => {
    const text = body === undefined ? "" : JSON.stringify(body);
    for (const key of [keys.limitedRaw, keys.limited, keys.free, keys.orchestrator])
      await isKept(key, method, `/gateway/providers/${path}`, text);
  });

  test("by a header or a parameter", async () => {
    const path = "/gateway/providers/azure/openai/deployments/ok/chat/completions";
    const headers = {
      "x-http-method-override": "forbidden",
      "x-http-method": "forbidden",
      "x-method-override": "forbidden",
      "x-original-url": "/forbidden",
      "x-rewrite-url": "/forbidden",
      "azureml-model-deployment": "forbidden",
      "x-goog-request-params": "model=forbidden",
      "x-model": "forbidden",
      "helicone-model-override": "forbidden",
      "x-portkey-config": '{"model":"forbidden"}',
    };
    const query = "?model=forbidden&deployment=forbidden&_method=forbidden&%24httpMethod=forbidden&alt=sse";
    const { status } = await send(keys.limitedRaw, "POST", path + query, JSON.stringify({ model: "ok" }), headers);
    expect([status, upstream.requests.map(({ path: at }) => at)]).toEqual([
      200,
      ["/openai/deployments/ok/chat/completions?alt=sse"],
    ]);
    expect(sentUp()).not.toContain("forbidden");
  });

  test.each([
    ["twice", `${part('name="model"', "openai/ok")}${part('name="model"', "openai/forbidden")}`],
    ["in another case", `${part('name="model"', "openai/ok")}${part('name="Model"', "openai/forbidden")}`],
    ["by an extended name", `${part('name="model"', "openai/ok")}${part("name*=utf-8''model", "openai/forbidden")}`],
    ["by two names", `${part('name="model"', "openai/ok")}${part('name="x"; name="model"', "openai/forbidden")}`],
    [
      "behind lines of another end",
      part('name="model"', `openai/ok`) + part('name="x"', "a").replace("a", lines("\n")),
    ],
    ["of another name before", `${part('name="fallback_model"', "forbidden")}${part('name="model"', "openai/ok")}`],
    ["of another name behind", `${part('name="model"', "openai/ok")}${part('name="models[]"', "forbidden")}`],
    ["behind the end", `${part('name="model"', "openai/ok")}--bound--\r\n${part('name="model"', "openai/forbidden")}`],
    ["in a second head", part('name="x"\r\ncontent-disposition: form-data; name="model"', "openai/forbidden")],
  ])("in a form: %s", async (_, form) => {
    const body = `${form}${part('name="file"; filename="a.wav"', "x")}--bound--\r\n`;
    const type = { "content-type": "multipart/form-data; boundary=bound" };
    await isKept(keys.limited, "POST", "/gateway/v1/audio/transcriptions", body, type);
  });

  test("in a form whose type names two boundaries", async () => {
    const body = `${part('name="model"', "openai/ok")}--bound--\r\n`;
    const type = { "content-type": "multipart/form-data; boundary=other; boundary=bound" };
    await isKept(keys.limited, "POST", "/gateway/v1/audio/transcriptions", body, type);
  });
});

function part(disposition: string, value: string): string {
  return `--bound\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${value}\r\n`;
}
function lines(end: string): string {
  return `${end}--bound${end}content-disposition: form-data; name="model"${end}${end}openai/forbidden`;
}

describe("a provider's own API", () => {
  test("opens to keys that were given it, and to no other", async () => {
    for (const method of ["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD"]) {
      for (const [kind, expected] of [
        ["free", 403],
        ["limited", 403],
        ["orchestrator", 403],
        ["raw", 200],
        ["rawAlone", 200],
      ] as const) {
        const before = upstream.requests.length;
        const { status } = await send(keys[kind], method, "/gateway/providers/openai/v1/responses/resp_a");
        expect([kind, method, status, upstream.requests.length - before]).toEqual([
          kind,
          method,
          expected,
          expected === 200 ? 1 : 0,
        ]);
      }
    }
    expect((await send(keys.rawAlone, "GET", "/gateway/v1/models")).status).toBe(403);
    expect((await send(keys.free, "GET", "/gateway/providers/openai/v1/x")).body).toContain("raw");
  });

  test("is told nobody's key, in whatever place and spelling", async () => {
    const { key } = troupe;
    const hidden = [key, `%74rp_${key.slice(4)}`, `%2574rp_${key.slice(4)}`, `trp%5f${key.slice(4)}`];
    for (const secret of hidden) {
      for (const query of [`x=${secret}`, `${secret}=x`, `a=1&b=x${secret}`, `key=${secret}`, `%6bey=1&access_token=1`])
        await send(keys.raw, "GET", `/gateway/providers/openai/v1/x?${query}`);
      await send(keys.raw, "GET", `/gateway/providers/openai/v1/${secret}`);
      await send(keys.raw, "GET", "/gateway/providers/openai/v1/x", "", { "x-stray": secret, referer: secret });
    }
    expect(upstream.requests.length).toBeGreaterThan(0);
    expect(sentUp()).not.toContain(key.toLowerCase().slice(0, 24));
    expect(sentUp()).not.toContain("access_token");
  });

  test("is not told by its caller who is billed, nor another method", async () => {
    const headers = Object.fromEntries(
      [
        ...["openai-organization", "openai-project", "x-goog-user-project", "anthropic-workspace-id"],
        ...["x-hf-bill-to", "x-goog-quota-user", "ocp-apim-subscription-key", "helicone-auth", "x-auth-token"],
        ...["x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url"],
      ].map((name) => [name, "callers-own"]),
    );
    const query =
      "?userProject=callers-own&%24userProject=callers-own&quotaUser=callers-own&_method=callers-own&kept=1";
    for (const name of providers)
      await send(keys.raw, "POST", `/gateway/providers/${name}/v1/x${query}`, "{}", headers);
    for (const { path } of upstream.requests) expect(path).toEndWith("?kept=1");
    expect([upstream.requests.length, sentUp()]).toEqual([
      providers.length,
      expect.not.stringContaining("callers-own"),
    ]);
  });
});

describe("what a provider keeps", () => {
  test("is continued by its own key alone", async () => {
    for (const item of [
      { type: "item_reference", id: "msg_of_another" },
      { id: "rs_of_another" },
      { type: "reasoning", id: "rs_of_another", summary: [] },
      { type: "image_generation_call", id: "ig_of_another" },
      { type: "item_reference", id: "msg_of_another_0" },
    ]) {
      for (const store of [true, false]) {
        for (const path of ["", "/input_tokens", "/compact"].map((rest) => `/gateway/v1/responses${rest}`)) {
          const body = JSON.stringify({ model: "openai/ok", input: [{ role: "user", content: "hi" }, item], store });
          const { status } = await send(keys.free, "POST", path, body);
          expect([path, item, status, upstream.requests.length]).toEqual([path, item, 400, 0]);
        }
      }
    }
    for (const cache of ["cachedContent", "cached_content"]) {
      const body = JSON.stringify({ contents: [{ parts: [{ text: "hi" }] }], [cache]: "cachedContents/a" });
      const at = "/gateway/v1beta/models/google%2Fok:generateContent";
      expect([(await send(keys.free, "POST", at, body)).status, upstream.requests.length]).toEqual([403, 0]);
      for (const more of [
        { [cache]: "a" },
        { google: { cached_content: "a" } },
        { extra_body: { cached_content: "a" } },
      ]) {
        const chat = JSON.stringify({ model: "google/ok", messages, ...more });
        const { status } = await send(keys.free, "POST", "/gateway/v1/chat/completions", chat);
        if (status === 403) continue;
        expect([more, sentUp()]).toEqual([more, expect.not.stringContaining("cachedcontent")]);
      }
    }
  });
});

test("items that a provider keeps are named by the key whose answer they are of, and by no other", async () => {
  const content = [{ type: "output_text", text: "hi", annotations: [] }];
  const output = [{ type: "message", id: "msg_native", role: "assistant", status: "completed", content }];
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  answer = () =>
    Response.json({ id: "resp_native", object: "response", status: "completed", model: "ok", output, usage });
  const ask = (key: string, input: unknown, more = {}) =>
    send(key, "POST", "/gateway/v1/responses", JSON.stringify({ model: "openai/ok", input, ...more }));
  expect((await ask(keys.free, "hi")).status).toBe(200);
  const next = [
    { type: "item_reference", id: "msg_native" },
    { role: "user", content: "more" },
  ];
  expect((await ask(keys.free, next)).status).toBe(200);
  expect(sentUp()).toContain("item_reference");
  const empty = { object: "response", status: "completed", model: "ok", output: [], usage };
  for (const [at, key] of [keys.limited, keys.raw, troupe.key].entries()) {
    expect((await ask(key, next)).status).toBe(400);
    // Its metadata are no place to claim it in.
    answer = () => Response.json({ id: `resp_${at}`, ...empty });
    expect((await ask(key, "hi", { metadata: { msg_native: "item" } })).status).toBe(200);
    expect((await ask(key, next)).status).toBe(400);
    expect((await send(key, "GET", "/gateway/v1/responses/resp_native")).status).toBe(404);
  }
  const doubledItem =
    '{"model":"openai/ok","input":[{"type":"item_reference","type":"message","id":"x","role":"user","content":"a"}]}';
  expect((await send(keys.free, "POST", "/gateway/v1/responses", doubledItem)).status).toBe(400);
});

test("control characters in what names something are refused at the door, with every store alike", async () => {
  const text = (value: object) => JSON.stringify(value);
  for (const bad of ["\0", "\u0001", "\u007f", "\u0085", "\ud800"]) {
    const encoded = bad === "\ud800" ? "%00" : encodeURIComponent(bad);
    for (const surface of ["", "/gateway"]) {
      for (const [path, model, rest] of named) {
        if (path.includes("/providers/") || path.startsWith("/gateway") !== (surface === "/gateway")) continue;
        const { status } = await send(keys.free, "POST", path, text({ model: `${model}${bad}`, ...rest }));
        expect([path, bad, status]).toEqual([path, bad, status === 404 ? 404 : 400]);
      }
      const chat = surface === "" ? "troupe/guide" : "groq/ok";
      for (const metadata of [{ [`a${bad}`]: "b" }, { a: `b${bad}` }]) {
        const asked = { model: chat, messages, store: true, metadata };
        expect((await send(keys.free, "POST", `${surface}/v1/chat/completions`, text(asked))).status).toBe(400);
        const responses = { model: chat, input: "hi", metadata };
        expect((await send(keys.free, "POST", `${surface}/v1/responses`, text(responses))).status).toBe(400);
      }
      const continued = { model: chat, input: "hi", previous_response_id: `resp_${bad}` };
      expect((await send(keys.free, "POST", `${surface}/v1/responses`, text(continued))).status).toBe(404);
      for (const path of ["/v1/responses/a", "/v1/chat/completions/a", "/v1/models/a"])
        expect((await send(keys.free, "GET", `${surface}${path}${encoded}`)).status).toBe(404);
      for (const query of [`after=${encoded}`, `model=${encoded}`, `metadata[a]=${encoded}`, `metadata[${encoded}]=a`])
        expect([query, (await send(keys.free, "GET", `${surface}/v1/chat/completions?${query}`)).status]).toEqual([
          query,
          400,
        ]);
      expect((await send(keys.free, "GET", `${surface}/v1/usage?tag=${encoded}`)).status).toBe(400);
    }
  }
  expect((await send(keys.free, "GET", "/v1/chat/completions?limit=1&limit=2")).status).toBe(400);
  expect(upstream.requests).toEqual([]);
});

test("responses in the background are so many for each key, and no more", async () => {
  const released = Promise.withResolvers<void>();
  answer = () => released.promise.then(nothing);
  const ask = (key: string) =>
    send(key, "POST", "/gateway/v1/responses", JSON.stringify({ model: "groq/ok", input: "hi", background: true }));
  const made = [await ask(keys.free), await ask(keys.free)];
  expect(made.map(({ status }) => status)).toEqual([200, 200]);
  const refused = await ask(keys.free);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "5"]);
  expect((await ask(keys.raw)).status).toBe(200);
  const { id } = JSON.parse(made[0]!.body) as { id: string };
  expect((await send(keys.free, "POST", `/gateway/v1/responses/${id}/cancel`)).status).toBe(200);
  while (troupe.server.services.background.size > 2) await new Promise(setImmediate);
  expect((await ask(keys.free)).status).toBe(200);
  released.resolve();
});

test("a WebSocket is refused in the way that its client goes on by HTTP", async () => {
  const upgrade = { upgrade: "websocket", connection: "close, upgrade", "sec-websocket-version": "13" };
  for (const surface of ["", "/gateway"]) {
    const { status, headers } = await send(keys.free, "GET", `${surface}/v1/responses`, "", upgrade);
    expect([status, headers.get("connection")]).toEqual([426, "close"]);
    for (const path of ["/v1/chat/completions", "/v1/models", "/v1/realtime"])
      expect((await send(keys.free, "GET", `${surface}${path}`, "", upgrade)).status).toBeOneOf([400, 404]);
    expect((await send("wrong", "GET", `${surface}/v1/responses`, "", upgrade)).status).toBe(401);
    const offered = { upgrade: "h2c", connection: "close, upgrade, http2-settings" };
    expect((await send(keys.free, "GET", `${surface}/v1/models`, "", offered)).status).toBe(200);
  }
});

test("chat completions are stored upstream only where the provider is said to keep them", async () => {
  await using own = await Troupe.start({
    providers: {
      openai: { baseUrl: upstream.url },
      kept: { dialect: "openai", baseUrl: upstream.url, upstreamStore: true },
    },
  });
  const metadata = { a: "b" };
  for (const [name, expected] of [
    ["openai", { store: undefined, metadata: undefined }],
    ["kept", { store: true, metadata }],
  ] as const) {
    await own.post("/gateway/v1/chat/completions", { model: `${name}/m`, messages, store: true, metadata });
    const sent = JSON.parse(new TextDecoder().decode(upstream.last.bytes)) as Record<string, unknown>;
    expect({ store: sent["store"], metadata: sent["metadata"] } as object).toEqual(expected);
  }
});

test("a model is known by each name that it may be called by", async () => {
  for (const [key, path, status] of [
    [keys.free, "/gateway/v1/models/openai/anything", 200],
    [keys.free, "/gateway/v1/models/alias", 200],
    [keys.free, "/gateway/v1beta/models/google%2Fanything", 200],
    [keys.free, "/v1/models/troupe/guide", 200],
    [keys.limited, "/gateway/v1/models/openai/ok-1", 200],
    [keys.limited, "/gateway/v1/models/openai/forbidden", 404],
    [keys.limited, "/gateway/v1/models/alias", 404],
    [keys.free, "/gateway/v1/models/nobody/m", 404],
    [keys.free, "/gateway/v1/models/builtin/nothing", 404],
  ] as const)
    expect([path, (await send(key, "GET", path)).status]).toEqual([path, status]);
});
