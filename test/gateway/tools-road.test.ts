/**
 * OpenAI's newer models refuse function tools on chat completions: such calls go by the Responses API, for OpenAI and for Azure, and
 * their callers see the answer that they would have had by the other road.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import { type Asked, asked, bodyFor, type FormatName, pathOf } from "../helpers/client-formats.ts";
import { runs } from "../helpers/long-form.ts";
import { testServer } from "../helpers/mcp.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";
import { agentFamilies, agentFamilyOf, type Call, seals, type Turn } from "../helpers/upstreams/agent.ts";
import { strictCompatible } from "../helpers/upstreams/compatible.ts";
import { strictResponses } from "../helpers/upstreams/responses.ts";
import { WatchedLog } from "../helpers/watched-log.ts";

type Json = Record<string, unknown>;
type Client = Exclude<FormatName, "responses">;
const clients = ["chat", "messages", "generate-content"] as const satisfies readonly Client[];

/** What the model says next, and behind results of tools. */
let turn: Turn;
let turns: Turn[] = [];
let upstream: UpstreamServer;
let troupe: Troupe;
let folder: TempFolder;
const watched = new WatchedLog();

/** https://github.com/openai/openai-openapi/issues/541, https://github.com/BerriAI/litellm/pull/34569 */
function refusalOf({ path, json }: RecordedRequest): Response | undefined {
  const { model, tools, reasoning_effort: effort } = json as Json;
  if (!path.includes("/chat/completions") || tools === undefined) return undefined;
  const [, major, minor = "0"] = /gpt-(\d)(?:\.(\d+))?/.exec(String(model)) ?? [];
  const version = Number(major) * 100 + Number(minor);
  const isRefused = version >= 506 ? effort !== "none" : version >= 504 && effort !== undefined;
  const message = `Function tools with reasoning_effort are not supported for ${model} in /v1/chat/completions.`;
  const error = { message, type: "invalid_request_error", param: "reasoning_effort", code: null };
  return isRefused ? jsonResponse({ error }, 400) : undefined;
}

const saying = (family: "chat" | "responses") => (json: Json) => {
  const request = agentFamilies[family].read({ json } as RecordedRequest);
  return agentFamilies[family].answer(request.results.length > 0 ? (turns.shift() ?? turn) : turn, request);
};
const strict = {
  chat: strictCompatible("openai", "key", saying("chat")),
  responses: strictResponses("openai", "key", saying("responses")),
};

beforeAll(async () => {
  folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  const tools =
    "tools: [{type: function, function: {name: look_up, parameters: {type: object, properties: {q: {type: string}}}}}]\n";
  for (const [name, model, more] of [
    ["older", "openai/gpt-5.2", ""],
    ["newer", "openai/gpt-5.6-sol", ""],
    ["served", "openai/gpt-5.6-sol", "mcp: [{server: desk, allow: [add]}]\n"],
    ["tooled", "openai/gpt-5.6-sol", tools],
    ["held", "openai/gpt-5.6-sol", `${tools}options: {use_responses_api: false}\n`],
  ])
    writeFileSync(folder.file(`acme/${name}.yaml`), `description: x\nmodel: ${model}\nsystem: Help.\n${more}`);
  upstream = new UpstreamServer((request) => {
    const refusal = refusalOf(request);
    if (refusal !== undefined) return refusal;
    const family = agentFamilyOf(request)!;
    return strict[family as keyof typeof strict]({
      ...request,
      path: family === "chat" ? "/v1/chat/completions" : "/v1/responses",
      headers: new Headers({ authorization: "Bearer key", "content-type": "application/json" }),
    });
  });
  troupe = await Troupe.start({
    providers: {
      openai: { baseUrl: upstream.url },
      keeping: { dialect: "openai", baseUrl: upstream.url, upstreamStore: true },
      azure: {
        baseUrl: upstream.url,
        modelRules: [{ match: "codex-of-ours", tools_road: "responses", reasoning_items: true }],
      },
    },
    personas: folder.path,
    log: watched.log,
    config: { mcpServers: { desk: testServer() } },
  });
  await troupe.server.services.loading;
  await troupe.server.services.mcp.find("desk")!.tools();
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
  folder[Symbol.dispose]();
});
beforeEach(() => {
  turn = { text: "It rains." };
  turns = [];
  upstream.requests.length = 0;
});

const tool = { type: "function", function: { name: "look_up", parameters: { type: "object", properties: {} } } };
const plain: Asked = {
  ...{ system: "", turns: [{ kind: "user", parts: [{ kind: "text", text: "Hi" }] }], tools: [], choice: "auto" },
  ...{ oneAtATime: false, schema: undefined, temperature: undefined, maxTokens: undefined, stop: [] },
};
const question = { messages: [{ role: "user", content: "Hi" }] };

function post(model: string, body: Json, headers: Record<string, string> = {}) {
  return troupe.post("/gateway/v1/chat/completions", { model, ...question, ...body }, { headers });
}

async function roadOf(model: string, body: Json): Promise<string | null> {
  const response = await post(model, body);
  expect([model, body, response.status, (await response.text()).includes("It rains.")]).toEqual([
    model,
    body,
    200,
    true,
  ]);
  return response.headers.get("x-troupe-upstream-format");
}

describe("the road of a call", () => {
  const rows: readonly (readonly [model: string, body: Json, road: "chat" | "responses"])[] = [
    ["gpt-4o", {}, "chat"],
    ["gpt-5-mini", { reasoning_effort: "low" }, "chat"],
    ["gpt-5.2", { reasoning_effort: "high" }, "chat"],
    ["gpt-5.3-chat-latest", {}, "chat"],
    ["gpt-5.4", {}, "chat"],
    ["gpt-5.4", { reasoning_effort: "low" }, "responses"],
    ["gpt-5.4-mini-2026-03-17", { reasoning_effort: "low" }, "responses"],
    ["gpt-5.5", {}, "chat"],
    ["gpt-5.5", { reasoning_effort: "xhigh" }, "responses"],
    ["gpt-5.6", {}, "responses"],
    ["gpt-5.6-luna", { reasoning_effort: "none" }, "chat"],
    ["gpt-5.6-sol", { reasoning_effort: "high" }, "responses"],
    ["gpt-5.10-sol", {}, "responses"],
    ["gpt-6-astra", {}, "responses"],
    ["gpt-6.2", { reasoning_effort: "none" }, "chat"],
    ["gpt-7", {}, "responses"],
    ["gpt-12-luna", { reasoning_effort: "low" }, "responses"],
    ["ft:gpt-5.6-luna:acme::1", {}, "responses"],
    ["gpt-35-turbo", {}, "chat"],
    ["gpt-oss-120b", {}, "chat"],
    ["o3", { reasoning_effort: "low" }, "chat"],
  ];
  test.each(rows)("%s with tools and %j: %s", async (model, body, road) => {
    for (const account of ["openai", "azure"]) {
      expect([account, await roadOf(`${account}/${model}`, { ...body, tools: [tool] })]).toEqual([account, road]);
      // Without tools nothing is refused.
      expect(await roadOf(`${account}/${model}`, body)).toBe("chat");
      expect(await roadOf(`${account}/${model}`, { ...body, tools: [tool], use_responses_api: true })).toBe(
        "responses",
      );
    }
  });

  test("is chat completions where the caller holds to it, whose error comes back byte for byte", async () => {
    const response = await post("openai/gpt-5.6-sol", { tools: [tool], use_responses_api: false });
    expect([response.status, response.headers.get("x-troupe-upstream-format")]).toEqual([400, "chat"]);
    expect(await response.text()).toContain("not supported for gpt-5.6-sol in /v1/chat/completions");
    const persona = await troupe.post("/v1/chat/completions", { model: "acme/held", ...question });
    expect([persona.status, upstream.last.path]).toEqual([400, "/chat/completions"]);
  });

  test.each(clients)("is the one for a persona's own tools, for clients of %s", async (format) => {
    const body = bodyFor(format, { ...plain, maxTokens: 64 }, "acme/tooled");
    const response = await troupe.post(pathOf("orchestrator", format, "acme/tooled"), body);
    expect([response.status, response.headers.get("x-troupe-upstream-format")]).toEqual([200, "responses"]);
    expect(await response.text()).toContain("It rains.");
    expect((upstream.last.json as Json)["tools"]).toMatchObject([{ type: "function", name: "look_up" }]);
  });

  test("is Responses for models that have no other", async () => {
    for (const model of ["gpt-5-codex", "gpt-5.2-pro-2025-12-11", "gpt-7-pro", "gpt-6.1-codex-max", "o5-pro"])
      expect([model, await roadOf(`openai/${model}`, {})]).toEqual([model, "responses"]);
  });

  test("of a deployment with a name of its own is said by model_rules", async () => {
    expect(await roadOf("azure/codex-of-ours", { tools: [tool] })).toBe("responses");
    expect(upstream.last.path).toBe("/openai/v1/responses");
  });

  test("is told in the ledger and in the log", async () => {
    const response = await post("openai/gpt-5.6-sol", { tools: [tool] });
    await response.text();
    const id = response.headers.get("x-request-id");
    const line = await watched.logged(({ fields }) => fields["request_id"] === id);
    expect(line.fields["upstream_format"]).toBe("responses");
    const { services } = troupe.server;
    while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
    await services.usage.close();
    await services.ledger.flush();
    const lines = await services.store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 100 });
    expect(lines.find(({ requestId }) => requestId === id)).toMatchObject({
      upstreamFormat: "responses",
      upstreamModel: "gpt-5.6-sol",
      status: 200,
    });
  });

  test("goes with what it refuses as the other one does: less than 16 tokens, and no more kept than was asked for", async () => {
    const sent = () => upstream.last.json as Json;
    await roadOf("openai/gpt-5.6-sol", { tools: [tool], max_completion_tokens: 5, store: true });
    expect([sent()["max_output_tokens"], sent()["store"]]).toEqual([16, false]);
    await roadOf("openai/gpt-5.6-sol", { tools: [tool], max_tokens: 500, store: true, use_responses_api: true });
    expect([sent()["max_output_tokens"], sent()["store"]]).toEqual([500, true]);
    await roadOf("keeping/gpt-5.6-sol", { tools: [tool], store: true });
    expect(sent()["store"]).toBe(true);
  });

  test("stays where a tool is of a type that is not known here", async () => {
    const other = await post("openai/gpt-5.6-sol", { tools: [{ type: "mcp", server_label: "docs" }] });
    expect([other.status, other.headers.get("x-troupe-upstream-format")]).toEqual([400, "chat"]);
    expect((upstream.last.json as Json)["tools"]).toEqual([{ type: "mcp", server_label: "docs" }]);
  });
});

describe("messages to Azure say what they are", () => {
  const input = [
    { role: "user", content: "Hi" },
    { type: "message", role: "user", content: "there" },
  ];

  test("where a call is translated", async () => {
    await roadOf("azure/gpt-5.6-sol", { tools: [tool] });
    expect((upstream.last.json as Json)["input"]).toEqual([{ type: "message", role: "user", content: "Hi" }]);
    await roadOf("openai/gpt-5.6-sol", { tools: [tool] });
    expect((upstream.last.json as Json)["input"]).toEqual([{ role: "user", content: "Hi" }]);
  });

  test.each([
    ["", input],
    ["/api/projects/p", input.map((item) => ({ ...item, type: "message" as const }))],
  ])("where it passes, at %j", async (path, expected) => {
    await using own = await Troupe.start({
      providers: { azure: { baseUrl: `${upstream.url}${path}` } },
      nativeEndpoints: true,
    });
    const response = await own.post("/gateway/v1/responses", { model: "azure/gpt-5.6-sol", input, store: false });
    expect([response.status, upstream.last.path]).toEqual([200, `${path}/openai/v1/responses`]);
    expect((upstream.last.json as Json)["input"]).toEqual(expected);
  });
});

/** An answer as its client sees it, whatever the road: without ids, names and counts, and without thoughts, which one road alone has. */
type Seen = { readonly texts: string; readonly calls: readonly unknown[]; readonly ending: unknown };

const partsOf = (value: unknown) => (Array.isArray(value) ? (value as Json[]) : []);

const seenIn: Readonly<Record<Client, (answer: Json) => Seen>> = {
  chat({ choices }) {
    const [{ message, finish_reason }] = choices as [{ message: Json; finish_reason: unknown }];
    const calls = partsOf(message["tool_calls"]).map(({ id, function: called }) => {
      const { name, arguments: args } = called as { name: string; arguments: string };
      return [id, name, JSON.parse(args)];
    });
    return { texts: String(message["content"] ?? ""), calls, ending: finish_reason };
  },
  messages({ content, stop_reason }) {
    const blocks = partsOf(content);
    return {
      texts: blocks.flatMap(({ type, text }) => (type === "text" ? [text] : [])).join(""),
      calls: blocks.flatMap(({ type, id, name, input }) => (type === "tool_use" ? [[id, name, input]] : [])),
      ending: stop_reason,
    };
  },
  "generate-content"({ candidates }) {
    const [{ content, finishReason }] = candidates as [Json];
    const parts = partsOf((content as Json | undefined)?.["parts"]);
    return {
      texts: parts
        .flatMap(({ text, thought }) => (typeof text === "string" && thought !== true ? [text] : []))
        .join(""),
      calls: parts.flatMap(({ functionCall }) => {
        const { id, name, args } = (functionCall ?? {}) as Json;
        return functionCall === undefined ? [] : [[id, name, args]];
      }),
      ending: finishReason,
    };
  },
};

const client = () => new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, maxRetries: 0 });

async function streamed(surface: "gateway" | "orchestrator", format: Client, model: string, body: Json): Promise<Json> {
  switch (format) {
    case "chat":
      return (await troupe
        .client(surface)
        .chat.completions.stream({ ...body, model } as never)
        .finalChatCompletion()) as never;
    case "messages": {
      const own = surface === "gateway" ? client() : client().withOptions({ baseURL: troupe.url });
      return (await own.messages.stream({ ...body, model } as never).finalMessage()) as never;
    }
    case "generate-content": {
      const path = pathOf(surface, format, model).replace(":generateContent", ":streamGenerateContent?alt=sse");
      const response = await troupe.post(path, body);
      const events = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
      const chunks = events.map((line) => JSON.parse(line.slice("data: ".length)) as { candidates: [Json] });
      const parts = chunks.flatMap(({ candidates: [one] }) => partsOf((one["content"] as Json | undefined)?.["parts"]));
      const finishReason = chunks.flatMap(({ candidates: [one] }) => one["finishReason"] ?? []).at(-1);
      return { candidates: [{ content: { parts }, finishReason }] };
    }
  }
}

async function answered(
  surface: "gateway" | "orchestrator",
  format: Client,
  model: string,
  given: Asked,
  live: boolean,
) {
  const body = bodyFor(format, given, model);
  const from = upstream.requests.length;
  const answer = live
    ? await streamed(surface, format, model, body)
    : ((await (await troupe.post(pathOf(surface, format, model), body)).json()) as Json);
  const request = upstream.requests[from]!;
  const family = agentFamilyOf(request)!;
  const { tools, results, isStream } = agentFamilies[family].read(request);
  const { model: _, ...said } = seenIn[format](answer) as Seen & { model?: never };
  const declared = tools.map(({ name, parameters }) => ({ name, parameters }));
  return { family, said, asked: { declared, results: results.map(({ id }) => id), isStream } };
}

const word = fc.stringMatching(/^[A-Za-zé€"\\ ]{1,9}$/);
const call = fc.record({ name: fc.constantFrom("look_up", "add"), q: word });
const anyTurn: fc.Arbitrary<Turn> = fc.oneof(
  word.map((text) => ({ text })),
  fc.array(call, { minLength: 1, maxLength: 3 }).map((calls) => ({
    calls: calls.map(({ name, q }, at): Call => ({ id: `call_new_${at}`, name, args: { q } })),
  })),
);

test("the answer is the same by either road", async () => {
  const given = asked.filter(({ tools }) => tools.length > 0);
  const target = fc.constantFrom(
    { surface: "gateway" as const, older: "openai/gpt-5.2", newer: "openai/gpt-5.6-sol" },
    { surface: "gateway" as const, older: "azure/gpt-5.2", newer: "azure/gpt-6-astra" },
    { surface: "orchestrator" as const, older: "acme/older", newer: "acme/newer" },
  );
  await fc.assert(
    fc.asyncProperty(
      given,
      anyTurn,
      fc.constantFrom(...clients),
      target,
      fc.boolean(),
      async (one, next, format, at, live) => {
        // Libraries read what was asked for as JSON.
        turn = "text" in next && one.schema !== undefined ? { text: JSON.stringify({ q: next.text }) } : next;
        const byChat = await answered(at.surface, format, at.older, one, live);
        const byResponses = await answered(at.surface, format, at.newer, one, live);
        expect([byChat.family, byResponses.family]).toEqual(["chat", "responses"]);
        expect(byResponses.said).toEqual(byChat.said);
        expect(byResponses.asked).toEqual(byChat.asked);
      },
    ),
    { numRuns: runs(60) },
  );
});

describe("a tool loop", () => {
  const called: Turn = { calls: [{ id: "call_1", name: "look_up", args: { q: "x" } }] };

  test.each([false, true])("brings the thoughts back to the model, streamed: %p", async (stream) => {
    turn = called;
    const openai = troupe.client("gateway").chat.completions;
    const first = { ...question, model: "openai/gpt-5.6-sol", tools: [tool] } as never;
    const answer = stream
      ? await openai.stream(first).finalChatCompletion()
      : ((await openai.create(first)) as Awaited<ReturnType<ReturnType<typeof openai.stream>["finalChatCompletion"]>>);
    turn = { text: "It rains." };
    // The client's library keeps what it knows of a message alone.
    const { role, content, tool_calls } = answer.choices[0]!.message;
    const messages = [
      ...question.messages,
      { role, content, tool_calls },
      { role: "tool", tool_call_id: "call_1", content: "rain" },
    ];
    const second = await post("openai/gpt-5.6-sol", { messages, tools: [tool] });
    expect([second.status, upstream.last.path]).toEqual([200, "/responses"]);
    expect((upstream.last.json as { input: Json[] }).input.slice(1)).toEqual([
      expect.objectContaining({ type: "reasoning", encrypted_content: seals.responses }),
      expect.objectContaining({ type: "function_call", call_id: "call_1", name: "look_up", arguments: '{"q":"x"}' }),
      { type: "function_call_output", call_id: "call_1", output: "rain" },
    ]);
  });

  test.each([false, true])("of a persona's own servers goes on by its road, streamed: %p", async (stream) => {
    turn = { calls: [{ id: "call_1", name: "desk__add", args: { a: 2, b: 3 } }] };
    turns = [{ calls: [{ id: "call_2", name: "desk__add", args: { a: 5, b: 5 } }] }, { text: "Ten." }];
    const response = await troupe.post("/v1/chat/completions", { ...question, model: "acme/served", stream });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("Ten")]);
    expect(upstream.requests.map(({ path }) => path)).toEqual(["/responses", "/responses", "/responses"]);
    const items = (upstream.last.json as { input: Json[] }).input.map(({ type, role }) => type ?? role);
    const [called, result] = ["function_call", "function_call_output"];
    expect(items).toEqual(["system", "user", "reasoning", called, result, "reasoning", called, result]);
  });

  test("goes on by the other road, with the same ids", async () => {
    const messages = [
      ...question.messages,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "look_up", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "rain" },
    ];
    for (const [model, road] of [
      ["gpt-5.2", "chat"],
      ["gpt-5.6-sol", "responses"],
    ])
      expect(await roadOf(`openai/${model}`, { messages, tools: [tool] })).toBe(road!);
  });
});

test("a service-request-id replays, and a stored turn is continued", async () => {
  const body = { tools: [tool], store: true, stream: true };
  const texts = [];
  for (let at = 0; at < 2; at += 1) {
    const response = await post("openai/gpt-5.6-sol", body, { "service-request-id": "road-1" });
    texts.push(await response.text());
    expect(response.headers.get("x-troupe-upstream-format")).toBe("responses");
  }
  expect([texts[1], upstream.requests.length]).toEqual([texts[0]!, 1]);
  const id = /"id":"(chatcmpl-[^"]+)"/.exec(texts[0]!)![1]!;
  for (const [model, family] of [
    ["gpt-5.6-sol", "responses"],
    ["gpt-5.2", "chat"],
  ] as const) {
    const next = await post(`openai/${model}`, {
      messages: [{ role: "user", content: "And?" }],
      tools: [tool],
      previous_response_id: id,
    });
    expect([next.status, agentFamilyOf(upstream.last)]).toEqual([200, family]);
    const { input, messages, previous_response_id } = upstream.last.json as Json;
    expect(previous_response_id).toBeUndefined();
    const said = partsOf(input ?? messages).map(({ role, content }) => [role, content]);
    expect(said).toEqual([
      ["user", "Hi"],
      ["assistant", "It rains."],
      ["user", "And?"],
    ]);
  }
});
