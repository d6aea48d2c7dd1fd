/** Tools and configuration that stand in a Responses input, as Codex sends them: at OpenAI as they came, everywhere else as the request's own. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { patchedBody } from "../../src/protocols/responses/native.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";
import { anthropicKey, anthropicUpstream } from "../helpers/upstreams/anthropic.ts";
import { googleKey, strictGemini } from "../helpers/upstreams/google.ts";

type Json = Record<string, unknown>;

const grammar = { type: "grammar", syntax: "lark", definition: 'start: "x"' };
const tools = [
  {
    type: "namespace",
    name: "functions",
    description: "",
    tools: [
      { type: "custom", name: "exec", description: "Runs JavaScript.", format: grammar },
      {
        type: "function",
        name: "wait",
        description: "Waits.",
        strict: false,
        parameters: { type: "object", properties: {} },
      },
    ],
  },
];
const added = { type: "additional_tools", id: "at_1", role: "developer", tools };
const user = { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] };
const body = { input: [added, user], store: false, tool_choice: "auto", parallel_tool_calls: false };

const called = (name: string, input: Json) => ({ type: "tool_use", id: "toolu_1", name, input });
const claude = (content: unknown[]) =>
  jsonResponse({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5",
    content,
    stop_reason: "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 9, output_tokens: 4 },
  });

const servers: UpstreamServer[] = [];
const serve = (...handler: ConstructorParameters<typeof UpstreamServer>) => {
  const server = new UpstreamServer(...handler);
  servers.push(server);
  return server;
};

let anthropic: UpstreamServer;
let google: UpstreamServer;
let native: UpstreamServer;
let troupe: Troupe;
let answer: () => Response;

const response = (model: unknown) =>
  jsonResponse({
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model,
    output: [],
    usage: null,
  });

beforeAll(async () => {
  anthropic = serve(anthropicUpstream(() => answer()));
  google = serve(
    strictGemini(() => jsonResponse({ candidates: [{ content: { parts: [{ text: "ok" }] }, finishReason: "STOP" }] })),
  );
  native = serve(({ json, path }: RecordedRequest) =>
    path.endsWith("/responses")
      ? response((json as Json)["model"])
      : jsonResponse({
          id: "c",
          object: "chat.completion",
          created: 1,
          model: "m",
          choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
        }),
  );
  const at = { baseUrl: `${native.url}/v1`, apiKey: "sk" };
  const providers: TroupeOptions["providers"] = {
    anthropic: { baseUrl: anthropic.url, apiKey: anthropicKey },
    dropping: { dialect: "anthropic", baseUrl: anthropic.url, apiKey: anthropicKey, unsupportedTools: "drop" },
    google: { baseUrl: google.url, apiKey: googleKey },
    openai: at,
    xai: at,
    openrouter: { baseUrl: `${native.url}/api/v1`, apiKey: "sk" },
  };
  troupe = await Troupe.start({ nativeEndpoints: true, providers });
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  for (const server of servers) server[Symbol.dispose]();
});

const post = async (model: string, more: object, headers: Record<string, string> = {}) => {
  const answered = await troupe.fetch("/gateway/v1/responses", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${troupe.key}`, ...headers },
    body: JSON.stringify({ model, ...body, ...more }),
  });
  return { status: answered.status, json: (await answered.json()) as Json };
};
const sentTo = (server: UpstreamServer) => server.last.json as Json;

test("tools of the input reach another family, and a call comes back by its own name and namespace", async () => {
  answer = () =>
    claude([called("functions__exec", { input: "text(1)" }), { ...called("functions__wait", {}), id: "toolu_2" }]);
  const { status, json } = await post("anthropic/claude-sonnet-4-5", {});
  expect(status).toBe(200);
  expect((sentTo(anthropic)["tools"] as Json[]).map(({ name }) => name)).toEqual([
    "functions__exec",
    "functions__wait",
  ]);
  expect(json["output"]).toMatchObject([
    { type: "custom_tool_call", name: "exec", namespace: "functions", call_id: "toolu_1", input: "text(1)" },
    { type: "function_call", name: "wait", namespace: "functions", call_id: "toolu_2", arguments: "{}" },
  ]);
  // The answer repeats the request's own tools alone.
  expect(json["tools"]).toEqual([]);
});

test("the turn that answers such a call has them again, once, whatever of them is declared anew", async () => {
  answer = () => claude([{ type: "text", text: "Done." }]);
  const call = { type: "custom_tool_call", call_id: "toolu_1", name: "exec", namespace: "functions", input: "text(1)" };
  const output = { type: "custom_tool_call_output", call_id: "toolu_1", output: "1" };
  const again = {
    ...added,
    tools: [{ ...tools[0]!, tools: [{ ...tools[0]!.tools[1]!, description: "Waits longer." }] }],
  };
  await post("anthropic/claude-sonnet-4-5", { input: [added, user, call, output, again] });
  const sent = sentTo(anthropic);
  expect((sent["tools"] as Json[]).map(({ name, description }) => [name, String(description).split("\n")[0]])).toEqual([
    ["functions__exec", "Runs JavaScript."],
    ["functions__wait", "Waits longer."],
  ]);
  expect(sent["messages"]).toMatchObject([
    { role: "user" },
    { role: "assistant", content: [{ type: "tool_use", name: "functions__exec", input: { input: "text(1)" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1" }] },
  ]);
});

test("a hosted tool among them is refused by its place, or left out where the provider drops such", async () => {
  answer = () => claude([{ type: "text", text: "ok" }]);
  const input = [{ ...added, tools: [...tools, { type: "web_search" }] }, user];
  const refused = await post("anthropic/claude-sonnet-4-5", { input });
  expect([refused.status, (refused.json["error"] as Json)["param"]]).toEqual([400, "input[0].tools[1].type"]);
  expect((await post("dropping/claude-sonnet-4-5", { input })).status).toBe(200);
  expect(sentTo(anthropic)["tools"]).toHaveLength(2);
});

test("what is wrong with one is named by its place", async () => {
  const wrong = { ...added, tools: [{ type: "function", parameters: {} }] };
  const { status, json } = await post("anthropic/claude-sonnet-4-5", { input: [user, wrong] });
  expect([status, (json["error"] as Json)["param"]]).toEqual([400, "input[1].tools[0].name"]);
});

test("the latest configuration of the input counts, and what of it has no place follows unsupported_tools", async () => {
  answer = () => claude([{ type: "text", text: "ok" }]);
  const schema = {
    type: "object",
    properties: { a: { type: "string" } },
    required: ["a"],
    additionalProperties: false,
  };
  const update = (more: object) => ({ type: "configuration_update", id: "cu_1", ...more });
  const input = [
    update({ reasoning: { effort: "high" } }),
    user,
    update({ reasoning: { effort: "low" }, text: { format: { type: "json_schema", name: "n", schema } } }),
  ];
  await post("google/gemini-3-flash-preview", { input, reasoning: { effort: "medium" } });
  expect(sentTo(google)["generationConfig"]).toMatchObject({
    thinkingConfig: { thinkingLevel: "LOW" },
    responseJsonSchema: schema,
  });
  const other = [user, update({ reasoning: { effort: "low", mode: "pro" } })];
  const refused = await post("anthropic/claude-sonnet-4-5", { input: other });
  expect([refused.status, (refused.json["error"] as Json)["param"]]).toEqual([400, "input[1].reasoning.mode"]);
  expect((await post("dropping/claude-sonnet-4-5", { input: other })).status).toBe(200);
});

test("at OpenAI both go as they came, with Codex's own headers; a result by its tool's name too", async () => {
  const input = [
    added,
    user,
    { type: "configuration_update", reasoning: { effort: "low" } },
    { type: "function_call", call_id: "c1", name: "wait", namespace: "functions", arguments: "{}" },
    { type: "function_call_output", name: "wait", namespace: "functions", output: "late" },
  ];
  const headers = { "x-openai-internal-codex-responses-lite": "true", "x-codex-window-id": "w", "openai-beta": "b" };
  expect((await post("openai/gpt-6-sol", { input }, headers)).status).toBe(200);
  expect(sentTo(native)).toEqual({ ...body, model: "gpt-6-sol", input });
  const sent = native.last.headers;
  expect([sent.get("x-openai-internal-codex-responses-lite"), sent.get("openai-beta")]).toEqual(["true", "b"]);
  expect(sent.has("x-codex-window-id")).toBe(false);
});

test("a persona's tools stand before the caller's own in the body, and what the input adds stays where it is", () => {
  const fn = (name: string) => ({ type: "function", function: { name, parameters: {} } });
  const own = { type: "function", name: "wait", parameters: {} };
  const again = { ...added, tools: [own] };
  const given = { model: "p", store: false, tools: [own], input: [added, again, user] };
  const fields = { tools: ["theirs", "wait", "functions__exec", "functions__wait"].map(fn), store: false };
  const patched = patchedBody(given, { model: "m", before: [], fields })!;
  expect((patched["tools"] as Json[]).map(({ name }) => name)).toEqual(["theirs", "wait"]);
  expect(patched["input"]).toBe(given.input);
});

test("over a WebSocket, Codex says those headers in its messages", async () => {
  const socket = new WebSocket(`${troupe.url.replace("http", "ws")}/gateway/v1/responses`, {
    headers: { authorization: `Bearer ${troupe.key}` },
  } as never);
  const answered = new Promise<void>((resolve) => socket.addEventListener("message", () => resolve(), { once: true }));
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  const client_metadata = {
    ws_request_header_x_openai_internal_codex_responses_lite: "true",
    ws_request_header_x_openai_internal_codex_broken: "a\nb",
    ws_request_header_authorization: "Bearer other",
    session_id: "s",
  };
  const before = native.requests.length;
  socket.send(JSON.stringify({ type: "response.create", model: "openai/gpt-6-sol", ...body, client_metadata }));
  await answered;
  socket.close();
  expect(native.requests.length).toBe(before + 1);
  const { headers } = native.last;
  expect([
    headers.get("x-openai-internal-codex-responses-lite"),
    headers.has("x-openai-internal-codex-broken"),
  ]).toEqual(["true", false]);
  expect(headers.get("authorization")).toBe("Bearer sk");
});

test.each([
  ["xai/grok-4.5", "/v1/responses"],
  ["openrouter/some/model", "/api/v1/chat/completions"],
])("%s, whose own Responses know no such items, gets a translated call", async (model, path) => {
  expect((await post(model, {})).status).toBe(200);
  expect(native.last.path).toBe(path);
  expect(native.last.text).toContain("functions__exec");
  expect(native.last.text).not.toContain("additional_tools");
});

test("a result that names its tool alone is that of the tool's latest call, and is told as text where there is none", async () => {
  answer = () => claude([{ type: "text", text: "ok" }]);
  const output = { type: "function_call_output", name: "wait", namespace: "functions", output: "late" };
  const call = (call_id: string) => ({
    type: "function_call",
    call_id,
    name: "wait",
    namespace: "functions",
    arguments: "{}",
  });
  await post("anthropic/claude-sonnet-4-5", { input: [added, user, call("c1"), call("c2"), output] });
  expect(anthropic.last.text).toContain('{"type":"tool_result","tool_use_id":"c2","content":"late"}');
  await post("anthropic/claude-sonnet-4-5", { input: [added, user, output] });
  expect(anthropic.last.text).toContain("Result of the tool wait:\\nlate");
});
