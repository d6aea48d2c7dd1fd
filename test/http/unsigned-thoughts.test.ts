/**
 * Thoughts that their maker does not sign (DeepSeek, MiniMax, Ollama … by Messages): clients such as pydantic-ai give a block with an empty
 * signature back as the user's words. It has an envelope of ours that holds nothing, and comes back to its maker as it was.
 */
import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const envelope = "trp1.none";
const usage = { input_tokens: 3, output_tokens: 5 };
const input = { id: (JSON as unknown as { rawJSON(text: string): object }).rawJSON("1234567890123456789") };
const call = { type: "tool_use", id: "toolu_1", name: "look", input };
const answer = (thinking: object) => ({
  ...{ id: "msg_up", type: "message", role: "assistant", model: "deepseek-chat" },
  content: [thinking, call],
  ...{ stop_reason: "tool_use", stop_sequence: null, usage },
});
const signature = (text: string) => ({ type: "signature_delta", signature: text });
const stream = (begin: object, ...more: object[]) => {
  const at = (index: number, type: string, rest: object) => ({ type, index, ...rest });
  const events = [
    { type: "message_start", message: { ...answer({}), content: [], stop_reason: null } },
    at(0, "content_block_start", { content_block: begin }),
    at(0, "content_block_delta", { delta: { type: "thinking_delta", thinking: "Hm." } }),
    ...more.map((delta) => at(0, "content_block_delta", { delta })),
    at(0, "content_block_stop", {}),
    at(1, "content_block_start", { content_block: { ...call, input: {} } }),
    at(1, "content_block_delta", { delta: { type: "input_json_delta", partial_json: JSON.stringify(input) } }),
    at(1, "content_block_stop", {}),
    { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
  return sseResponse(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
};

let said: () => Response;
const upstream = untilEnd(new UpstreamServer(() => said()));
const { url: baseUrl } = upstream;
const troupe = untilEnd(
  await Troupe.start({
    nativeEndpoints: true,
    providers: { deepseek: { baseUrl }, groq: { baseUrl }, anthropic: { baseUrl } },
  }),
);

const user = { role: "user" as const, content: "hi" };
const asked = { model: "deepseek/deepseek-chat", max_tokens: 9, messages: [user] };
const client = () =>
  new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, maxRetries: 0, logLevel: "off" });
const bare = { type: "thinking", thinking: "Hm." };
const withNothing = { ...bare, signature: "" };
const signed = { ...bare, signature: "c2lnbmVk" };

describe("a thought of an untranslated answer", () => {
  test.each([
    ["an empty signature", withNothing, envelope],
    ["none", bare, envelope],
    ["its own", signed, signed.signature],
  ])("whole, with %s", async (_, thinking, expected) => {
    const text = JSON.stringify(answer(thinking));
    said = () => jsonResponse(answer(thinking));
    const got = await troupe.post("/gateway/v1/messages", asked);
    const body = await got.text();
    expect(JSON.parse(body).content[0]).toEqual({ ...bare, signature: expected });
    expect(body).toContain('{"id":1234567890123456789}');
    if (thinking === signed) expect(body).toBe(text);
  });

  const empty = { ...withNothing, thinking: "" };
  test.each([
    ["an empty signature", () => stream(empty), envelope],
    ["none", () => stream({ ...bare, thinking: "" }), envelope],
    ["an empty fragment of one", () => stream(empty, signature("")), envelope],
    ["its own", () => stream(empty, signature("c2ln"), signature("c2lnbmVk")), "c2lnbmVk"],
  ])("streamed, with %s", async (_, answered, expected) => {
    said = answered;
    const message = await client().messages.stream(asked).finalMessage();
    expect(message.content[0]).toEqual({ type: "thinking", thinking: "Hm.", signature: expected });
    expect(message.content.at(-1)!.type).toBe("tool_use");
  });
});

test.each([
  ["its maker", "deepseek/deepseek-chat", withNothing],
  ["a maker that signs", "anthropic/claude-sonnet-4-5", undefined],
])("comes back to %s", async (_, model, block) => {
  const result = { type: "tool_result", tool_use_id: "toolu_1", content: "sun" };
  const content = [
    { ...bare, signature: envelope },
    { ...call, input: {} },
  ];
  const messages = [user, { role: "assistant", content }, { role: "user", content: [result] }];
  said = () => jsonResponse(answer(signed));
  expect((await troupe.post("/gateway/v1/messages", { ...asked, model, messages })).status).toBe(200);
  const sent = upstream.last.json as { messages: { content: object[] }[] };
  expect(sent.messages[1]!.content).toEqual(block === undefined ? [content[1]!] : [block, content[1]!]);
});

test("comes back as reasoning where it is translated", async () => {
  const content = [
    { ...bare, signature: envelope },
    { type: "text", text: "So." },
  ];
  said = () => jsonResponse({ error: { message: "Enough was seen." } }, 418);
  const messages = [user, { role: "assistant", content }, user];
  await troupe.post("/gateway/v1/messages", { ...asked, model: "groq/m", messages });
  expect(upstream.last.text).toContain("So.");
  expect(upstream.last.text).not.toContain("trp1");
});
