/** The spans of whole requests, as a server sends them. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { completionOf } from "../helpers/chat-upstream.ts";
import { testServer } from "../helpers/mcp.ts";
import { type Observed, observe } from "../helpers/observed-troupe.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Value = { readonly arrayValue?: { readonly values: readonly object[] } };
type Span = {
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly status?: { readonly code: number };
  readonly attributes: readonly { readonly key: string; readonly value: Value }[];
};

const spansOf = ({ telemetry }: Observed): Span[] =>
  telemetry.flatMap((text) => {
    const { resourceSpans = [] } = JSON.parse(text) as {
      resourceSpans?: { scopeSpans: { spans: Span[] }[] }[];
    };
    return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
  });
const valuesOf = ({ attributes }: Span) =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.arrayValue ? value.arrayValue.values.map((one) => Object.values(one)[0]) : Object.values(value)[0],
    ]),
  );
const body = { messages: [{ role: "user", content: "hi" }] };

test("a persona with tools: each turn of the model and each call of a tool, and the log has all of their tokens", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("house"));
  writeFileSync(
    folder.file("house/clerk.yaml"),
    "description: Works.\nmodel: openai/gpt-4o\nsystem: You work.\nmcp: [{ server: desk, allow: [add] }]\n",
  );
  const usage = {
    ...{ prompt_tokens: 1_200, completion_tokens: 30, total_tokens: 1_230 },
    prompt_tokens_details: { cached_tokens: 100 },
  };
  const call = { id: "call_0", type: "function", function: { name: "desk__add", arguments: '{"a":2,"b":40}' } };
  const turns = [
    completionOf({ content: null, tool_calls: [call] }, "tool_calls", usage),
    completionOf({ content: "42" }, "stop", usage),
  ];
  using upstream = new UpstreamServer(() => jsonResponse(turns.shift()!));
  const told = await observe(
    {
      personas: folder.path,
      providers: { openai: { baseUrl: upstream.url } },
      config: { mcpServers: { desk: testServer({}) } },
    },
    async (troupe) => {
      const answer = await troupe.post(
        "/v1/chat/completions",
        { model: "house/clerk", ...body },
        { headers: { "x-session-id": "talk-1" } },
      );
      expect(answer.status).toBe(200);
    },
  );
  const [first, tool, second, server] = spansOf(told);
  expect([first, tool, second, server].map((span) => span!.name)).toEqual([
    ...["chat gpt-4o", "execute_tool add", "chat gpt-4o", "POST /v1/chat/completions"],
  ]);
  for (const span of [first, tool, second]) expect(span!.parentSpanId).toBe(server!.spanId);
  expect(valuesOf(first!)).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": "1200",
    "gen_ai.usage.cache_read.input_tokens": "100",
    "gen_ai.response.finish_reasons": ["tool_calls"],
    "gen_ai.conversation.id": "talk-1",
    // (1,100 × 2.5 + 100 × 1.25 + 30 × 10) micro-dollars
    "gen_ai.usage.cost": 0.003175,
    "troupe.persona": "house/clerk",
    "troupe.attempt": "1",
  });
  expect(valuesOf(tool!)).toMatchObject({
    "gen_ai.tool.name": "add",
    "troupe.mcp_server": "desk",
    "troupe.attempt": "2",
  });
  expect(valuesOf(second!)).toMatchObject({ "gen_ai.response.finish_reasons": ["stop"], "troupe.attempt": "3" });
  const line = JSON.parse(told.lines.find((text) => text.includes('"message":"request"'))!) as object;
  expect(line).toMatchObject({ prompt_tokens: 2_400, completion_tokens: 60 });
});

test("an attempt that was left says why, and the next one answers; a stream that breaks off is an error by its code", async () => {
  let answers = [
    () => jsonResponse({ error: { message: "slow down", type: "requests", code: "rate_limit_exceeded" } }, 429),
    () =>
      jsonResponse(
        completionOf({ content: "Hello." }, "stop", { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }),
      ),
  ];
  using upstream = new UpstreamServer(() => answers.shift()!());
  const told = await observe(
    {
      providers: { openai: { baseUrl: upstream.url }, second: { dialect: "openai", baseUrl: upstream.url } },
      config: { aliases: { quick: { models: ["openai/gpt-4o", "second/gpt-4o-mini"] } } },
    },
    async (troupe) => {
      expect((await troupe.post("/gateway/v1/chat/completions", { model: "quick", ...body })).status).toBe(200);
      answers = [
        () =>
          new Response('data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n', {
            headers: { "content-type": "text/event-stream" },
          }),
      ];
      const broken = await troupe.post("/gateway/v1/chat/completions", {
        model: "openai/gpt-4o",
        ...body,
        stream: true,
      });
      expect(await broken.text()).toContain("upstream_");
      const refused = await troupe.post("/gateway/v1/chat/completions", { model: "nobody/x", ...body });
      expect(refused.status).toBe(400);
    },
  );
  const errors = spansOf(told).map((span) => {
    const { "error.type": type, "troupe.failure": failure } = valuesOf(span);
    // Which of the two models is asked first, the conversation decides.
    return [span.name.replace("-mini", ""), span.status?.code, type, failure];
  });
  const route = "POST /gateway/v1/chat/completions";
  // A call whose tokens are estimated ends when they are, which may be behind others.
  const isBroken = ([, , type]: (typeof errors)[number]) => type === "upstream_invalid_response";
  expect(errors.filter(isBroken)).toEqual([["chat gpt-4o", 2, "upstream_invalid_response", "broken"]]);
  expect(errors.filter((one) => !isBroken(one))).toEqual([
    ["chat gpt-4o", 2, "rate_limit_exceeded", "rate_limit"],
    ["chat gpt-4o", undefined, undefined, undefined],
    [route, undefined, undefined, undefined],
    [route, 2, "broken", undefined],
    [route, undefined, "unknown_provider", undefined],
  ]);
});
