/** The admin API's playground: calls of models and personas by whoever is signed in, and what they would send. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { Config } from "../../src/config/config.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const call = "/admin/v1/playground/chat/completions";
const preview = "/admin/v1/playground/preview";
const hello = [{ role: "user", content: "Hello." }];

const persona = `description: Helps.
model: [anthropic/claude-haiku-4-5, openai/gpt-5.4-mini, nowhere/else]
tier: enterprise
system: Help {{who}} in {{language}}.
variables: {who: {default: everyone}, language: {required: true}}
limits: {temperature: 1}
`;

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const answered = {
  ...{ id: "chatcmpl-1", object: "chat.completion", created: 1, model: "gpt-5.4-mini", usage },
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
};
const chunk = (delta: Json, finish: string | null) =>
  `data: ${JSON.stringify({
    ...{ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-5.4-mini" },
    choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`;
/** With spaces and an order that no encoder would write. */
const upstreamError = `{ "error" : {"message":"No credit","zeta":1.0,"type":"billing"} }`;

let answer: (request: RecordedRequest) => Response | Promise<Response>;

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
writeFileSync(folder.file("acme/help.yaml"), persona);
const upstream = untilEnd(new UpstreamServer((request) => answer(request)));
const provider = { baseUrl: upstream.url, headers: { "x-secret": "hidden-header" } };
const troupe = untilEnd(
  await Troupe.start({
    personas: folder.path,
    providers: { openai: provider, anthropic: provider, google: provider },
    config: { listen },
  }),
);
await troupe.server.services.loading;
const key = await troupe.createKey({ name: "admin", tier: "free", perMinute: 10_000, surfaces: ["admin"] });

const ask = (path: string, body: unknown, more: Parameters<Troupe["post"]>[2] = {}) =>
  troupe.post(path, body, { key, ...more });
const previewed = async (body: unknown) => {
  const response = await ask(preview, body);
  return { status: response.status, json: (await response.json()) as Json & { requests: Json[] } };
};
async function listed(path: string): Promise<Json[]> {
  await troupe.server.services.ledger.flush();
  return ((await (await troupe.fetch(path, { key })).json()) as { data: Json[] }).data;
}

test("an answer comes whole, with its cost, the headers of who answered, a line in the ledger and one in the audit", async () => {
  answer = () => jsonResponse(answered);
  const response = await ask(call, { model: "openai/gpt-5.4-mini", messages: hello, usage: { include: true } });
  const json = (await response.json()) as { choices: Json[]; usage: Json };
  expect(response.status).toBe(200);
  expect(json.choices[0]).toMatchObject({ message: { content: "Hi." } });
  expect(json.usage["cost"]).toBeGreaterThan(0);
  const headers = Object.fromEntries(response.headers);
  expect(headers).toMatchObject({
    ...{ "x-troupe-provider": "openai", "x-troupe-upstream-model": "gpt-5.4-mini", "x-troupe-attempts": "1" },
    ...{ "cache-control": "no-store, no-transform", "x-content-type-options": "nosniff" },
    "cross-origin-resource-policy": "same-origin",
  });
  const id = headers["x-request-id"]!;
  const [line] = (await listed("/admin/v1/calls?limit=1")) as [Json];
  expect(line).toMatchObject({ request_id: id, model: "openai/gpt-5.4-mini", client: "troupe-playground" });
  expect(line["key"] ?? line["key_id"]).toBeDefined();
  const [act] = (await listed("/admin/v1/audit?act=playground.call&limit=1")) as [Json];
  expect(act).toMatchObject({
    ...{ subject: "openai/gpt-5.4-mini", before: null, after: { request_id: id, stream: false, status: 200 } },
  });
});

test("a stream comes as it does on the gateway", async () => {
  const pieces = [
    chunk({ role: "assistant", content: "H" }, null),
    chunk({ content: "i." }, null),
    chunk({}, "stop"),
    "data: [DONE]\n\n",
  ];
  answer = () => sseResponse(pieces);
  const body = { model: "openai/gpt-5.4-mini", messages: hello, stream: true };
  const [own, gateway] = await Promise.all([ask(call, body), troupe.post("/gateway/v1/chat/completions", body)]);
  const plain = (text: string) => text.replace(/"(?:id|created)":(?:"[^"]*"|\d+)/g, "");
  expect(own.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  expect(own.headers.get("cache-control")).toBe("no-store, no-transform");
  const text = await own.text();
  expect(plain(text)).toBe(plain(await gateway.text()));
  expect(text).toEndWith("data: [DONE]\n\n");
});

test("an upstream's error comes byte for byte, and our own as on the gateway", async () => {
  answer = () => new Response(upstreamError, { status: 402, headers: { "content-type": "application/json" } });
  const response = await ask(call, { model: "openai/gpt-5.4-mini", messages: hello });
  expect([response.status, await response.text()]).toEqual([402, upstreamError]);
  expect(response.headers.get("x-troupe-error-source")).toBe("upstream");
  const refused = await Promise.all(
    ["not json", {}, { model: "openai/x", messages: "no" }, { model: "nowhere/x", messages: hello }, { model: 5 }].map(
      async (body) => {
        const [own, gateway] = [await ask(call, body), await troupe.post("/gateway/v1/chat/completions", body)];
        expect(own.status).toBe(gateway.status);
        expect(await own.text()).toBe(await gateway.text());
        return own.status;
      },
    ),
  );
  expect(refused).toEqual([400, 400, 400, 400, 400]);
  expect((await ask(call, { model: "acme/lost", messages: hello })).status).toBe(404);
});

test("a persona of any tier answers, and its version is named", async () => {
  answer = () => jsonResponse(answered);
  const { version } = troupe.server.services.personas.find("acme/help")!;
  troupe.setTargets("acme/help", ["openai/gpt-5.4-mini"]);
  for (const model of ["acme/help", `acme/help@${version}`]) {
    const response = await ask(call, { model, messages: hello, variables: { language: "French" } });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-troupe-persona-version")).toBe(version);
    expect(upstream.last.json).toMatchObject({
      messages: [{ role: "system", content: "Help everyone in French." }, hello[0]!],
    });
  }
  troupe.setTargets("acme/help", ["anthropic/claude-haiku-4-5", "openai/gpt-5.4-mini", "nowhere/else"]);
});

test("only who may use the admin API may call: no other key, no foreign page, no session of another page", async () => {
  const before = upstream.requests.length;
  const other = await troupe.createKey({ name: "other", tier: "pro", perMinute: 100 });
  const body = { model: "openai/gpt-5.4-mini", messages: hello };
  for (const path of [call, preview]) {
    expect((await ask(path, body, { key: other })).status).toBe(403);
    expect((await ask(path, body, { key: null })).status).toBe(401);
    const signIn = await troupe.post(
      "/admin/v1/session",
      { key },
      { key: null, headers: { "sec-fetch-site": "same-origin" } },
    );
    const cookie = signIn.headers.get("set-cookie")!.split(";")[0]!;
    const asPage = (site: string) => ask(path, body, { key: null, headers: { cookie, "sec-fetch-site": site } });
    expect((await asPage("cross-site")).status).toBe(403);
    expect((await asPage("same-site")).status).toBe(403);
    expect((await ask(path, body, { key: null, headers: { cookie } })).status).toBe(403);
    expect(upstream.requests.length).toBe(before);
  }
  answer = () => jsonResponse(answered);
  const signIn = await troupe.post(
    "/admin/v1/session",
    { key },
    { key: null, headers: { "sec-fetch-site": "same-origin" } },
  );
  const cookie = signIn.headers.get("set-cookie")!.split(";")[0]!;
  const own = await ask(call, body, { key: null, headers: { cookie, "sec-fetch-site": "same-origin" } });
  expect(own.status).toBe(200);
});

test("a key's budget and its limits hold here too", async () => {
  const { keys, store } = troupe.server.services;
  const poor = await keys.create({ name: "poor", tier: "pro", perMinute: 2, surfaces: ["admin"] });
  const limited = await troupe.fetch(`/admin/v1/budgets/key:${poor.key.id}/day`, {
    ...{ key, method: "PUT", body: JSON.stringify({ dollars: 0.000001 }) },
    headers: { "content-type": "application/json" },
  });
  expect(limited.status).toBe(200);
  const before = upstream.requests.length;
  const response = await ask(call, { model: "openai/gpt-5.4-mini", messages: hello }, { key: poor.secret });
  const { error } = (await response.json()) as { error: Json };
  expect([response.status, error["code"]]).toEqual([429, "insufficient_quota"]);
  expect(upstream.requests.length).toBe(before);
  expect(
    await store.audit.list({ before: null, limit: 1, actor: null, act: "playground.call", subject: null }),
  ).toMatchObject([{ actor: poor.key.id }]);
});

test("a very large body comes as it was sent, and is shown in part", async () => {
  answer = () => jsonResponse(answered);
  const content = "é".repeat(1_500_000);
  const body = { model: "openai/gpt-5.4-mini", messages: [{ role: "user", content }], seed: 7 };
  expect((await ask(call, body)).status).toBe(200);
  expect((upstream.last.json as typeof body).messages[0]!.content).toBe(content);
  const { status, json } = await previewed(body);
  const [shown] = json.requests as [{ request: { body: string; is_cut: boolean } } & Json];
  expect([status, shown.request.is_cut, shown.request.body.length]).toEqual([200, true, 1_000_000]);
  expect(upstream.last.text).toStartWith(shown.request.body);
  expect([shown["fields"], shown["added"], shown["composed"]]).toEqual([null, null, null]);
  expect(troupe.server.services.bodyMemory.heldBytes).toBe(0);
});

test("a key's models hold here too", async () => {
  const narrow = await troupe.createKey({
    ...{ name: "narrow", tier: "pro", perMinute: 100, surfaces: ["admin"], models: ["anthropic/*"] },
  });
  const body = { model: "openai/gpt-5.4-mini", messages: hello };
  for (const path of [call, preview]) {
    const response = await ask(path, body, { key: narrow });
    expect([response.status, ((await response.json()) as { error: Json }).error["code"]]).toEqual([
      403,
      "model_not_allowed",
    ]);
  }
});

test("who leaves ends the upstream's call, before the answer and within it, and nothing stays open", async () => {
  const { services } = troupe.server;
  for (const isStreaming of [false, true]) {
    const ended = Promise.withResolvers<void>();
    answer = ({ signal }) => {
      signal.addEventListener("abort", () => ended.resolve());
      if (!isStreaming) return new Promise(() => {});
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode(chunk({ content: "H" }, null))),
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    };
    const seen = upstream.requests.length;
    const leaving = new AbortController();
    const asking = ask(
      call,
      { model: "openai/gpt-5.4-mini", messages: hello, stream: isStreaming },
      { signal: leaving.signal },
    );
    await upstream.received(seen + 1);
    if (isStreaming) await (await asking).body!.getReader().read();
    leaving.abort();
    if (!isStreaming) expect(await asking.catch((error: Error) => error.name)).toBe("AbortError");
    await ended.promise;
    while (services.running > 0) await Bun.sleep(1);
  }
  expect(services.bodyMemory.heldBytes).toBe(0);
});

test.each([
  ["openai/gpt-5.4-mini", "chat", "/chat/completions"],
  ["anthropic/claude-haiku-4-5", "messages", "/v1/messages"],
  ["google/gemini-2.5-flash", "generate_content", "generateContent"],
])("what is shown of a call of %s is what is sent, and its secrets are not", async (model, _format, path) => {
  for (const stream of [false, true]) {
    const body = {
      ...{ model, messages: [{ role: "system", content: "Be brief." }, ...hello], temperature: 0.5, max_tokens: 50 },
      ...(stream && { stream }),
    };
    const { status, json } = await previewed(body);
    expect(status).toBe(200);
    expect(json).toMatchObject({ object: "playground.preview", model, surface: "gateway", persona: null });
    const [shown] = json.requests as [{ request: { url: string; body: string; headers: Json } } & Json];
    answer = () => new Response("{}", { status: 400 });
    await ask(call, body);
    expect(shown.request.body).toBe(upstream.last.text);
    expect(shown.request.url).toBe(upstream.url + upstream.last.path);
    expect(shown.request.url).toContain(stream && model.startsWith("google/") ? "streamGenerateContent" : path);
    for (const [name, value] of upstream.last.headers) {
      if (["connection", "host", "content-length"].includes(name)) continue;
      const masked = value.replace(/key-of-\w+|hidden-header/, "***");
      expect([name, shown.request.headers[name]]).toEqual([name, masked]);
    }
    expect(JSON.stringify(json)).not.toMatch(/key-of-|hidden-header/);
    expect(JSON.stringify(json)).toContain("***");
  }
});

test("it is shown what became of each field", async () => {
  const fields = { temperature: 0.5, max_tokens: 50, seed: 7, user: "u-1" };
  const body = (model: string) => ({ model, messages: hello, ...fields });
  const fates = async (model: string) => {
    const [shown] = (await previewed(body(model))).json.requests as [
      Json & { fields: { name: string; fate: string; to: string[] }[] },
    ];
    return { fields: shown.fields.map(({ name, fate, to }) => [name, fate, ...to].join(" ")), added: shown["added"] };
  };
  expect(await fates("openai/gpt-4o-mini")).toEqual({
    fields: [
      "messages unchanged messages",
      "temperature unchanged temperature",
      "max_tokens unchanged max_tokens",
      "seed unchanged seed",
      "user unchanged user",
    ],
    added: [],
  });
  expect(await fates("anthropic/claude-haiku-4-5")).toEqual({
    fields: [
      "messages changed messages[0].content[0].text",
      "temperature unchanged temperature",
      "max_tokens unchanged max_tokens",
      "seed no_effect",
      "user changed metadata",
    ],
    added: [],
  });
  expect(await fates("google/gemini-2.5-flash")).toEqual({
    fields: [
      "messages changed contents[0].parts[0].text",
      "temperature changed generationConfig.temperature",
      "max_tokens changed generationConfig.maxOutputTokens",
      "seed changed generationConfig.seed",
      "user no_effect",
    ],
    added: [],
  });
});

test("a persona is shown with its system prompt and variables, for each of its models", async () => {
  const before = upstream.requests.length;
  const { status, json } = await previewed({
    ...{ model: "acme/help", messages: hello, variables: { language: "French" }, temperature: 1.5 },
  });
  const { version } = troupe.server.services.personas.find("acme/help")!;
  expect(status).toBe(200);
  expect(json).toMatchObject({
    ...{ model: "acme/help", surface: "orchestrator", persona: { id: "acme/help", version, variant: null } },
    requests: [
      { model: "anthropic/claude-haiku-4-5", use: "first", format: "messages" },
      { model: "openai/gpt-5.4-mini", use: "fallback", format: "chat" },
    ],
  });
  const [anthropic] = json.requests as [Json & { request: { body: string } }];
  expect(JSON.parse(anthropic.request.body)).toEqual({
    ...{ model: "claude-haiku-4-5", max_tokens: 32000, temperature: 1 },
    system: [{ type: "text", text: "Help everyone in French." }],
    messages: [{ role: "user", content: [{ type: "text", text: "Hello." }] }],
  });
  expect(anthropic).toMatchObject({
    composed: { messages: [{ role: "system", content: "Help everyone in French." }, hello[0]!] },
    fields: [
      { name: "messages", fate: "changed", to: ["messages[0].content[0].text"] },
      { name: "variables", fate: "changed", to: ["system[0].text"] },
      { name: "temperature", fate: "changed", to: ["temperature"] },
    ],
    added: ["max_tokens"],
  });
  expect(upstream.requests.length).toBe(before);
  const missing = await previewed({ model: "acme/help", messages: hello });
  expect([missing.status, (missing.json["error"] as Json)["param"]]).toEqual([400, "variables.language"]);
});

test("what answers here, and what can't be sent, has no request", async () => {
  const { json } = await previewed({ model: "builtin/echo", messages: hello });
  expect(json.requests).toMatchObject([{ model: "builtin/echo", request: null, format: null, fields: null }]);
  const refused = await previewed({ model: "openai/x", messages: hello, previous_response_id: "resp_1" });
  expect([refused.status, (refused.json["error"] as Json)["param"]]).toEqual([400, "previous_response_id"]);
});
