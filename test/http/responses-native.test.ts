/** Responses to upstreams of that format: what goes there is what the client sent, and what comes back what they said. */
import { describe, expect, test } from "bun:test";
import { seal } from "../../src/protocols/state/seal.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      openai: { baseUrl },
      xai: { baseUrl },
      azure: { baseUrl },
      anthropic: { baseUrl },
      groq: { baseUrl, unsupportedTools: "drop" },
    },
  }),
);

const response = {
  id: "resp_up1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: "gpt-5.9-2026-01-01",
  output: [
    { id: "ws_1", type: "web_search_call", status: "completed", action: { type: "search", query: "x" } },
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Hi.", annotations: [] }],
    },
  ],
  usage: {
    input_tokens: 3,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 5,
  },
  new_member: { later: 1.0 },
};
const event = (value: { type: string; sequence_number: number; [more: string]: unknown }) =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
const events = [
  event({ type: "response.created", sequence_number: 0, response: { ...response, status: "in_progress", output: [] } }),
  event({ type: "response.web_search_call.searching", sequence_number: 1, output_index: 0, item_id: "ws_1" }),
  event({
    type: "response.output_item.added",
    sequence_number: 2,
    output_index: 1,
    item: { id: "msg_1", type: "message", role: "assistant", content: [] },
  }),
  event({
    type: "response.output_text.delta",
    sequence_number: 3,
    output_index: 1,
    item_id: "msg_1",
    content_index: 0,
    delta: "Hi.",
    obfuscation: "x8",
  }),
  event({ type: "response.of_the_future", sequence_number: 4, thing: true }),
  event({ type: "response.completed", sequence_number: 5, response }),
];
const body = (model: string) =>
  `{"model":"${model}","input":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search","filters":{"x":1.50}}],"client_metadata":{"a":"b"},"store":false,"big":12345678901234567890}`;
const ask = (text: string, surface: "gateway" | "orchestrator" = "gateway", headers: Record<string, string> = {}) =>
  troupe.post(surface === "gateway" ? "/gateway/v1/responses" : "/v1/responses", text, { headers });

describe.each([
  ["openai/gpt-5.9", "/responses", "authorization", "Bearer key-of-openai"],
  ["xai/grok-4.6", "/responses", "authorization", "Bearer key-of-xai"],
  ["azure/my-deployment", "/openai/v1/responses", "api-key", "key-of-azure"],
])("%s", (model, path, header, key) => {
  test("gets the client's body with another model name, and its answer comes back byte for byte", async () => {
    const text = JSON.stringify(response, null, 1);
    answer = () => new Response(text, { headers: { "content-type": "application/json" } });
    const got = await ask(body(model), "gateway", { "openai-beta": "responses=v2" });
    expect([got.status, await got.text()]).toEqual([200, text]);
    const { path: asked, headers, text: sent } = upstream.last;
    expect([asked, headers.get(header), headers.get("openai-beta")]).toEqual([path, key, "responses=v2"]);
    expect(sent).toBe(body(model.slice(model.indexOf("/") + 1)));
  });

  test("gives its stream event for event, unknown ones too", async () => {
    answer = () => sseResponse(events);
    const got = await ask(body(model).replace('"store"', '"stream":true,"store"'));
    expect(await got.text()).toBe(events.join(""));
  });

  test("tells of its errors in its own words", async () => {
    const error = '{"error":{"message":"no","type":"invalid_request_error","param":"tools[0]","code":"x", "more":1}}';
    answer = () => new Response(error, { status: 400, headers: { "content-type": "application/json" } });
    const got = await ask(body(model));
    expect([got.status, await got.text()]).toEqual([400, error]);
  });
});

test("an end that comes alone is the answer where nothing follows it, and else none", async () => {
  const [first, ...others] = events;
  const end = event({ type: "response.completed", sequence_number: 0, response });
  const streamed = async (...given: string[]) => {
    answer = () => sseResponse(given);
    const got = await ask(body("openai/x").replace('"store"', '"stream":true,"store"'));
    return [got.status, await got.text()] as const;
  };
  expect(await streamed(end)).toEqual([200, end]);
  expect(await streamed(end, "data: [DONE]\n\n")).toEqual([200, end]);
  // The end of another answer, and then this one.
  expect(await streamed(end, first!, ...others)).toMatchObject([503, expect.stringContaining("behind its end")]);
  const foreign = end.replace('"sequence_number":0', '"sequence_number":9');
  expect(await streamed(foreign, first!, ...others)).toMatchObject([503, expect.stringContaining("in the middle")]);
});

test("a broken stream ends with the format's events, numbered on", async () => {
  answer = () => sseResponse(events.slice(0, 4));
  const text = await (await ask(body("openai/x").replace('"store"', '"stream":true,"store"'))).text();
  expect(text).toStartWith(events.slice(0, 4).join(""));
  const rest = text.slice(events.slice(0, 4).join("").length).trim().split("\n\n");
  expect(rest.map((one) => one.split("\n")[0])).toEqual(["event: error", "event: response.failed"]);
  const numbers = rest.map(
    (one) => (JSON.parse(one.slice(one.indexOf("data: ") + 6)) as { sequence_number: number }).sequence_number,
  );
  expect(numbers).toEqual([4, 5]);
});

test("other makers' thinking is taken out with its item, and its own stays", async () => {
  answer = () => jsonResponse(response);
  const own = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
  const others = { type: "reasoning", id: "rs_x_0", summary: [], encrypted_content: seal("anthropic", { blocks: [] }) };
  const said = { role: "user", content: "hi" };
  await ask(JSON.stringify({ model: "openai/x", input: [said, others, own] }));
  expect((upstream.last.json as { input: object[] }).input).toEqual([said, own]);
});

test("a persona's text stands before the caller's, its limits hold, and the upstream stores nothing", async () => {
  troupe.setTargets(persona, ["openai/gpt-5.9"]);
  answer = () => jsonResponse(response);
  const tools = [{ type: "function", name: "f", parameters: { type: "object", properties: {} } }];
  const asked = { model: persona, input: "hi", instructions: "Caller's.", tools };
  const got = await ask(JSON.stringify(asked), "orchestrator");
  expect([got.status, await got.json()]).toMatchObject([200, { model: persona, instructions: "Caller's." }]);
  const sent = upstream.last.json as { input: { role: string; content: string }[] };
  expect(sent).toMatchObject({ model: "gpt-5.9", tools, store: false });
  expect(sent.input.map(({ role }) => role)).toEqual(["system", "system", "user"]);
  expect(sent.input.slice(1)).toMatchObject([{ content: "Caller's." }, { content: "hi" }]);
  // What has no translation goes as it came.
  const hosted = await ask(JSON.stringify({ ...asked, tools: [{ type: "web_search" }] }), "orchestrator");
  expect([hosted.status, await hosted.json()]).toEqual([200, response]);
  expect(upstream.last.json).toMatchObject({ input: "hi", tools: [{ type: "web_search" }], store: false });
});

test("what has no translation is refused by its place where the upstream speaks another format", async () => {
  const tools = [{ type: "function", name: "f" }, { type: "web_search" }];
  const refused = async (more: object) => {
    const got = await ask(JSON.stringify({ model: "anthropic/claude-sonnet-4-5", input: "hi", ...more }));
    const { error } = (await got.json()) as { error: { param: string; code: string } };
    return [got.status, error.code, error.param];
  };
  expect(await refused({ tools })).toEqual([400, "unsupported_parameter", "tools[1].type"]);
  expect(await refused({ input: [{ type: "web_search_call", id: "ws_1" }] })).toEqual([
    400,
    "unsupported_parameter",
    "input[0].type",
  ]);
  expect(await refused({ input: [{ type: "item_reference", id: "msg_1" }] })).toEqual([
    400,
    "invalid_value",
    "input[0].id",
  ]);
});

test.each<[string, object, object]>([
  [
    "flat",
    { type: "error", sequence_number: 1, code: "busy", message: "Busy.", param: null, later: 1 },
    { error: { type: "server_error", code: "busy", message: "Busy.", param: null } },
  ],
  [
    "in a member",
    { type: "error", sequence_number: 1, error: { type: "busy_error", code: null, message: "Busy." } },
    { code: "busy_error", message: "Busy.", param: null },
  ],
  ["in both", { type: "error", code: "busy", message: "Busy.", param: null, error: { message: "Busy." } }, {}],
])("an upstream's error event that is %s has both forms, with all of its own members", async (_form, said, lacking) => {
  const begun = event({
    type: "response.created",
    sequence_number: 0,
    response: { ...response, status: "in_progress" },
  });
  const delta = event({
    type: "response.output_text.delta",
    sequence_number: 1,
    item_id: "m",
    output_index: 0,
    content_index: 0,
    delta: "Hi",
  });
  answer = () => sseResponse([begun, delta, `event: error\ndata: ${JSON.stringify(said)}\n\n`]);
  const got = await troupe.post("/gateway/v1/responses", { model: "openai/gpt-5.9", input: "x", stream: true });
  expect(await got.text()).toBe(`${begun}${delta}event: error\ndata: ${JSON.stringify({ ...said, ...lacking })}\n\n`);
});

test("an error of another format is told in this one, by its status and its message", async () => {
  const body = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  answer = () => jsonResponse(body, 529, { "retry-after": "3" });
  const got = await ask(JSON.stringify({ model: "anthropic/claude-sonnet-4-5", input: "hi" }));
  expect([got.status, got.headers.get("retry-after")]).toEqual([529, "3"]);
  const error = { message: "Overloaded", type: "server_error", param: null, code: "overloaded_error" };
  expect(await got.json()).toEqual({ error });
});

test("what a provider can't take is named by its place in the client's own body", async () => {
  const audio = { type: "input_audio", input_audio: { data: "AA", format: "wav" } };
  const content = [{ type: "input_text", text: "x" }, audio];
  const input = [
    { role: "system", content: "s" },
    { role: "user", content },
  ];
  const got = await ask(JSON.stringify({ model: "anthropic/claude-sonnet-4-5", input }));
  const { error } = (await got.json()) as { error: { param: string; message: string } };
  expect([got.status, error.param]).toEqual([400, "input[1].content[1]"]);
  expect(error.message).toStartWith("input[1].content[1]: audio");
});

test("a provider may be set up to do without hosted tools", async () => {
  answer = () =>
    jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }] });
  const tools = [{ type: "web_search" }, { type: "function", name: "f" }];
  const got = await ask(JSON.stringify({ model: "groq/x", input: "hi", tools, tool_choice: { type: "web_search" } }));
  expect(got.status).toBe(200);
  expect(upstream.last.json).toMatchObject({ tools: [{ type: "function", function: { name: "f" } }] });
  expect(upstream.last.json).not.toHaveProperty("tool_choice");
  expect(((await got.json()) as { tools: object[] }).tools[0]).toEqual({ type: "web_search" });
});
