/** Skills: what a model is told of them, and what it reads by its tool, with each family of upstreams, plain and streamed, in each client format. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { callPiece, chunk, completionOf, endingOf } from "../helpers/chat-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const instructions = "Ask for the order's number.";
const models = { openai: "openai/gpt-5.4", anthropic: "anthropic/claude-haiku-4-5", google: "google/gemini-2.5-flash" };
const folder = new TempFolder();
let upstream: UpstreamServer;
let troupe: Troupe;

const asked = { skill: "refunds" };
const events = (...all: { readonly type: string }[]) =>
  sseResponse(all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`));
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

/** What each upstream answers: first a call of the tool, then words. */
const answers: Record<keyof typeof models, (request: RecordedRequest, isRead: boolean) => Response> = {
  openai({ json }, isRead) {
    const args = JSON.stringify(asked);
    const call = { id: "call_0", type: "function", function: { name: "read_skill", arguments: args } };
    if ((json as { stream?: boolean }).stream !== true)
      return jsonResponse(
        isRead
          ? completionOf({ content: "The number, please?" }, "stop", usage)
          : completionOf({ content: null, tool_calls: [call] }, "tool_calls", usage),
      );
    return sseResponse(
      isRead
        ? [chunk({ role: "assistant", content: "The number, please?" }), ...endingOf("stop", usage)]
        : [callPiece(0, args, "read_skill"), ...endingOf("tool_calls", usage)],
    );
  },
  anthropic({ json }, isRead) {
    const block = isRead
      ? { type: "text", text: "The number, please?" }
      : { type: "tool_use", id: "toolu_0", name: "read_skill", input: asked };
    const stop_reason = isRead ? "end_turn" : "tool_use";
    const message = { id: "msg_0", type: "message", role: "assistant", model: "claude-haiku-4-5", stop_sequence: null };
    const counts = { input_tokens: 10, output_tokens: 5 };
    if ((json as { stream?: boolean }).stream !== true)
      return jsonResponse({ ...message, content: [block], stop_reason, usage: counts });
    const delta = isRead
      ? { type: "text_delta", text: "The number, please?" }
      : { type: "input_json_delta", partial_json: JSON.stringify(asked) };
    return events(
      { type: "message_start", message: { ...message, content: [], stop_reason: null, usage: counts } } as never,
      {
        type: "content_block_start",
        index: 0,
        content_block: isRead ? { ...block, text: "" } : { ...block, input: {} },
      } as never,
      { type: "content_block_delta", index: 0, delta } as never,
      { type: "content_block_stop", index: 0 } as never,
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: counts } as never,
      { type: "message_stop" },
    );
  },
  google({ path }, isRead) {
    const part = isRead ? { text: "The number, please?" } : { functionCall: { name: "read_skill", args: asked } };
    const body = {
      candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    };
    return path.includes("stream") ? sseResponse([`data: ${JSON.stringify(body)}\r\n\r\n`]) : jsonResponse(body);
  },
};

beforeAll(async () => {
  mkdirSync(folder.file("acme/skills/refunds/scripts"), { recursive: true });
  const head = "---\nname: refunds\ndescription: Handles refunds.\n---\n\n";
  writeFileSync(folder.file("acme/skills/refunds/SKILL.md"), `${head}${instructions}\n`);
  writeFileSync(folder.file("acme/skills/refunds/scripts/pay.sh"), "touch /tmp/ran\n");
  for (const [name, model] of Object.entries(models))
    writeFileSync(
      folder.file(`acme/${name}.yaml`),
      `description: Helps.\nmodel: ${model}\nsystem: Help.\nskills: [skills/*]\n`,
    );
  upstream = new UpstreamServer((request) => {
    const text = JSON.stringify(request.json);
    const family = request.path.includes("/messages")
      ? "anthropic"
      : request.path.includes("models/")
        ? "google"
        : "openai";
    return answers[family](request, text.includes(JSON.stringify(instructions).slice(1, -1)));
  });
  const provider = { baseUrl: upstream.url };
  troupe = await Troupe.start({
    personas: folder.path,
    providers: { openai: { ...provider, dialect: "openrouter" }, anthropic: provider, google: provider },
  });
  await troupe.server.services.loading;
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
  folder[Symbol.dispose]();
});
beforeEach(() => void upstream.requests.splice(0));

const messages = [{ role: "user", content: "A refund!" }];
const formats = {
  chat: ["/v1/chat/completions", { messages }],
  messages: ["/v1/messages", { messages, max_tokens: 100 }],
  responses: ["/v1/responses", { input: "A refund!" }],
} as const;

describe.each(Object.keys(models) as (keyof typeof models)[])("with %s's models", (name) => {
  test.each(
    Object.entries(formats).flatMap(([format, [path, body]]) =>
      [false, true].map((stream) => [format, stream ? "streamed" : "whole", path, { ...body, stream }] as const),
    ),
  )("in %s, %s", async (_format, _how, path, body) => {
    const response = await troupe.post(path, { model: `acme/${name}`, ...body });
    const text = await response.text();
    expect({ status: response.status, text }).toMatchObject({ status: 200, text: expect.stringContaining("please?") });
    // The call of the tool is nobody's but ours.
    expect(text).not.toMatch(/"type":"(?:tool_use|function_call)"|"tool_calls":\[/);
    expect(upstream.requests).toHaveLength(2);
    const [first, second] = upstream.requests.map(({ json }) => JSON.stringify(json));
    expect(first).toContain("- refunds: Handles refunds.");
    expect(first).toContain('"enum":["refunds"]');
    expect(first).not.toContain(instructions);
    expect(second).toContain(`${instructions}\\n\\nFiles of this skill, for read_skill:\\n- scripts/pay.sh (a program`);
  });
});

test("is said in the answer's metadata, and costs no line of the ledger beside the model's own", async () => {
  const response = await troupe.post("/v1/chat/completions", { model: "acme/openai", messages });
  const { metadata } = (await response.json()) as { metadata: Record<string, string> };
  expect(JSON.parse(metadata["mcp_calls"]!)).toMatchObject([
    { server: "skills", tool: "read_skill", arguments: '{"skill":"refunds"}', is_error: false },
  ]);
});

test("a caller's tool of that name is refused, and one of another stands beside it", async () => {
  const tool = (name: string) => ({ type: "function", function: { name, parameters: { type: "object" } } });
  const refused = await troupe.post("/v1/chat/completions", {
    ...{ model: "acme/openai", messages, tools: [tool("read_skill")] },
  });
  expect([refused.status, await refused.json()]).toMatchObject([
    400,
    { error: { param: "tools", message: "tools: this persona has a tool 'read_skill' already." } },
  ]);
  await troupe.post("/v1/chat/completions", { model: "acme/openai", messages, tools: [tool("mine")] });
  const { tools } = upstream.requests[0]!.json as { tools: { function: { name: string } }[] };
  expect(tools.map((one) => one.function.name)).toEqual(["mine", "read_skill"]);
});
