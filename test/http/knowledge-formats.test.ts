/** What personas know in each client's format: in translated calls, and in bodies that an upstream of the format gets as they came. */
import { beforeEach, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const common = `description: Sells.
system: You sell.
examples: [{ role: user, content: Tea? }, { role: assistant, content: Yes. }]
knowledge: { files: [docs/*.md], sections: 1 }
lorebook: [{ keys: [parcel], content: Parcels are green., depth: 2 }]
`;
const models = { claude: "anthropic/claude-sonnet-5", gpt: "openai/gpt-5.9", gemini: "google/gemini-3.8-flash" };
const folder = untilEnd(new TempFolder());
let answer: () => Response;

mkdirSync(folder.file("shop/docs"), { recursive: true });
writeFileSync(folder.file("shop/docs/a.md"), "# Refunds\n\nA refund takes 14 days.\n");
for (const [name, model] of Object.entries(models))
  writeFileSync(folder.file(`shop/${name}.yaml`), `${common}model: ${model}\n`);
const { troupe, upstream } = await served(
  () => answer(),
  (baseUrl) => ({
    personas: folder.path,
    providers: { openai: { baseUrl }, anthropic: { baseUrl }, google: { baseUrl } },
  }),
);

type Turn = Record<string, unknown>;
type Sent = { messages: Turn[]; input: Turn[]; contents: Turn[] };
type Answered = { id: string; metadata: Record<string, string> };

const known = `<knowledge>
<section source="docs/a.md" heading="Refunds" lines="1-3">
# Refunds

A refund takes 14 days.
</section>
</knowledge>`;
const lore = "<lorebook>\nParcels are green.\n</lorebook>";
const sent = () => upstream.last.json as Sent;
const claude = () =>
  jsonResponse({
    ...{
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude-sonnet-5",
      content: [{ type: "text", text: "x" }],
    },
    ...{ stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } },
  });
const gpt = () =>
  jsonResponse({
    ...{ id: "resp_1", object: "response", status: "completed", model: "gpt-5.9", metadata: { a: "b" } },
    output: [
      {
        id: "m",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "x", annotations: [] }],
      },
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  });
const gemini = () =>
  jsonResponse({
    candidates: [{ content: { role: "model", parts: [{ text: "x" }] }, finishReason: "STOP", index: 0 }],
  });
const chat = () =>
  jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }] });

beforeEach(() => {
  answer = chat;
});

async function post(path: string, body: object): Promise<Answered> {
  const response = await troupe.post(path, body);
  const json = (await response.json()) as Answered;
  expect([response.status, json]).toEqual([200, json]);
  return json;
}

test("Messages, to an upstream of Messages: results of tools stay first", async () => {
  answer = claude;
  const tools = [{ name: "look", input_schema: { type: "object" } }];
  const call = { type: "tool_use", id: "t1", name: "look", input: {} };
  const result = { type: "tool_result", tool_use_id: "t1", content: "seen" };
  await post("/v1/messages", {
    model: "shop/claude",
    max_tokens: 9,
    tools,
    messages: [
      { role: "user", content: "My parcel?" },
      { role: "assistant", content: [call] },
      {
        role: "user",
        content: [result, { type: "text", text: "And the refund?", cache_control: { type: "ephemeral" } }],
      },
    ],
  });
  expect(sent().messages).toEqual([
    { role: "user", content: "Tea?" },
    { role: "assistant", content: "Yes." },
    { role: "user", content: `${lore}\n\nMy parcel?` },
    { role: "assistant", content: [call] },
    {
      role: "user",
      content: [
        result,
        { type: "text", text: known },
        { type: "text", text: "And the refund?", cache_control: { type: "ephemeral" } },
      ],
    },
  ]);
  // A step of the same turn: the question is that of the first.
  await post("/v1/messages", {
    model: "shop/claude",
    max_tokens: 9,
    tools,
    messages: [
      { role: "user", content: "A refund?" },
      { role: "assistant", content: [call] },
      { role: "user", content: [result] },
    ],
  });
  expect(sent().messages.slice(2)).toEqual([
    { role: "user", content: `${known}\n\nA refund?` },
    { role: "assistant", content: [call] },
    { role: "user", content: [result] },
  ]);
});

test("Gemini's format, to an upstream of it", async () => {
  answer = gemini;
  await post("/v1beta/models/shop/gemini:generateContent", {
    contents: [
      { role: "user", parts: [{ text: "My parcel?" }] },
      { role: "model", parts: [{ text: "Comes." }] },
      { parts: [{ text: "A refund?" }] },
    ],
  });
  expect(sent().contents.slice(2)).toEqual([
    { role: "user", parts: [{ text: lore }, { text: "My parcel?" }] },
    { role: "model", parts: [{ text: "Comes." }] },
    { parts: [{ text: known }, { text: "A refund?" }] },
  ]);
});

test("Responses, to an upstream of Responses: with its sources in the answer's metadata", async () => {
  answer = gpt;
  const made = await post("/v1/responses", {
    model: "shop/gpt",
    input: "A refund?",
    store: false,
    metadata: { a: "b" },
  });
  expect(upstream.last.path).toEndWith("/responses");
  expect(sent().input.at(-1)).toEqual({ role: "user", content: `${known}\n\nA refund?` });
  expect(made.metadata).toEqual({ a: "b", sources: expect.stringContaining("docs/a.md") });
  await post("/v1/responses", {
    model: "shop/gpt",
    store: false,
    input: [
      { role: "user", content: [{ type: "input_text", text: "My parcel?" }] },
      { type: "function_call", call_id: "c", name: "look", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "seen" },
      { type: "message", role: "user", content: "A refund?" },
    ],
  });
  expect(
    sent()
      .input.filter((item) => item["role"] === "user")
      .slice(1),
  ).toEqual([
    {
      role: "user",
      content: [
        { type: "input_text", text: lore },
        { type: "input_text", text: "My parcel?" },
      ],
    },
    { type: "message", role: "user", content: `${known}\n\nA refund?` },
  ]);
});

test("Responses and legacy completions, translated", async () => {
  answer = claude;
  const made = await post("/v1/responses", { model: "shop/claude", input: "A refund?", metadata: { a: "b" } });
  expect(JSON.stringify(sent().messages.at(-1)!["content"])).toContain("A refund takes 14 days.");
  expect(made.metadata).toEqual({ a: "b", sources: expect.stringContaining("docs/a.md") });
  const completed = await post("/v1/completions", { model: "shop/claude", prompt: "A refund?" });
  expect(completed.metadata["sources"]).toContain("docs/a.md");
});

test("a stored conversation keeps the question as it was asked", async () => {
  const first = await post("/v1/chat/completions", {
    model: "shop/gpt",
    store: true,
    messages: [{ role: "user", content: "A refund?" }],
  });
  expect(sent().messages.at(-1)!["content"]).toBe(`${known}\n\nA refund?`);
  await post("/v1/chat/completions", {
    model: "shop/gpt",
    previous_response_id: first.id,
    messages: [{ role: "user", content: "Thanks." }],
  });
  expect(sent().messages.slice(3)).toEqual([
    { role: "user", content: "A refund?" },
    { role: "assistant", content: "x" },
    { role: "user", content: "Thanks." },
  ]);
});

test("a large question is read whole, and sent whole", async () => {
  const question = `${"filler ".repeat(4000)}refund`;
  await post("/v1/chat/completions", { model: "shop/gpt", messages: [{ role: "user", content: question }] });
  expect(sent().messages.at(-1)!["content"]).toBe(`${known}\n\n${question}`);
});
