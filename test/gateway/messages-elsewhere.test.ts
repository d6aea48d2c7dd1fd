/** What a Messages body says that Anthropic alone can do: other families get it in their own words, or the caller gets its name back. */
import { expect, test } from "bun:test";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

const answered = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", content: [{ type: "text", text: "Hi." }] },
  ...{ stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } },
};
const completion = {
  ...{ id: "c", object: "chat.completion", created: 1, model: "m" },
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
};

const upstream = untilEnd(
  new UpstreamServer(({ path }) => {
    if (path.includes("messages") || path.includes("rawPredict")) return jsonResponse(answered);
    if (path.includes(":generateContent"))
      return jsonResponse({ candidates: [{ content: { parts: [{ text: "Hi." }] }, finishReason: "STOP" }] });
    return jsonResponse(completion);
  }),
);
const { url } = upstream;
const troupe = untilEnd(
  await Troupe.start({
    nativeEndpoints: true,
    providers: {
      anthropic: { baseUrl: url, apiKey: "k" },
      foundry: { baseUrl: `${url}/anthropic`, apiKey: "k" },
      vertex: { baseUrl: url, apiKey: "k", options: { project: "p", bearer: true } },
      bedrock: { baseUrl: url, apiKey: "k" },
      google: { baseUrl: `${url}/v1beta`, apiKey: "k" },
      groq: { baseUrl: `${url}/openai/v1`, apiKey: "k" },
      deepseek: { baseUrl: url, apiKey: "k" },
    },
  }),
);

const ask = (model: string, more: object) =>
  troupe.post("/gateway/v1/messages", {
    model,
    max_tokens: 9,
    system: "Be brief.",
    messages: [{ role: "user", content: "Hi" }],
    ...more,
  });

const compaction = { type: "compaction", content: "They want tea.", encrypted_content: "abc", signature: "s" };
const turns = [
  { role: "user", content: "An old question, long ago." },
  {
    role: "assistant",
    content: [{ type: "text", text: "An old answer." }, compaction, { type: "text", text: "Green?" }],
  },
  { role: "user", content: "Yes." },
];
const summary = "Summary of the conversation so far:\n\nThey want tea.";
const sent = () => upstream.last.json as Json;

test("a compaction block reaches a chat upstream as its summary, in place of what it stands for", async () => {
  expect((await ask("groq/openai/gpt-oss-120b", { messages: turns })).status).toBe(200);
  expect(sent()["messages"]).toEqual([
    { role: "system", content: "Be brief." },
    { role: "user", content: summary },
    { role: "assistant", content: "Green?" },
    { role: "user", content: "Yes." },
  ]);
});

test("and Gemini, also where it stands first, in a turn of the user's", async () => {
  const first = { role: "user", content: [compaction, { type: "text", text: "Yes." }] };
  expect((await ask("google/gemini-2.5-flash", { messages: [first] })).status).toBe(200);
  expect(sent()["contents"]).toEqual([{ role: "user", parts: [{ text: summary }, { text: "Yes." }] }]);
});

test("an upstream of the same format that is not Claude gets it in words too", async () => {
  expect((await ask("deepseek/deepseek-v4-pro", { messages: turns })).status).toBe(200);
  expect(upstream.last.path).toBe("/chat/completions");
  expect(upstream.last.text).toContain("They want tea.");
  expect(upstream.last.text).not.toContain("old question");
});

test("one that failed leaves the conversation as it is; the last of several counts", async () => {
  const failed = {
    role: "assistant",
    content: [
      { type: "compaction", content: null },
      { type: "text", text: "Well." },
    ],
  };
  await ask("groq/openai/gpt-oss-120b", { messages: [turns[0], failed, turns[2]] });
  expect((sent()["messages"] as Json[]).map(({ content }) => content)).toEqual([
    ...["Be brief.", "An old question, long ago.", "Well.", "Yes."],
  ]);
  const later = { role: "assistant", content: [{ type: "compaction", content: "They had tea." }] };
  await ask("groq/openai/gpt-oss-120b", { messages: [...turns, later, turns[2]] });
  expect((sent()["messages"] as Json[]).map(({ content }) => content)).toEqual([
    ...["Be brief.", "Summary of the conversation so far:\n\nThey had tea.", "Yes."],
  ]);
});

test("tools that it changes have no place elsewhere", async () => {
  const changing = { ...compaction, tool_changes: [{ type: "tool_removal", name: "f" }] };
  const refused = await ask("google/gemini-2.5-flash", { messages: [{ role: "user", content: [changing] }] });
  expect([refused.status, await refused.text()]).toEqual([
    400,
    expect.stringContaining("messages[0].content[0].tool_changes"),
  ]);
});

test.each(["anthropic/claude-opus-4-6", "bedrock/us.anthropic.claude-opus-4-6-v1", "vertex/claude-opus-4-6"])(
  "%s gets it as it came, whoever answered in between",
  async (model) => {
    expect((await ask(model, { messages: turns })).status).toBe(200);
    expect(sent()["messages"]).toEqual(turns as never);
  },
);

const wishes = [
  ["inference_geo", "us"],
  ["speed", "fast"],
] as const;
const models = ["google/gemini-2.5-flash", "groq/openai/gpt-oss-120b", "deepseek/deepseek-v4-pro"].concat([
  "bedrock/us.anthropic.claude-opus-4-6-v1",
  "vertex/claude-opus-4-6",
  "foundry/claude-opus-4-6",
]);

test.each(wishes)("%s is refused by name where it can't be kept, and its usual value is none", async (name, value) => {
  for (const model of models) {
    const refused = await ask(model, { [name]: value });
    expect([model, refused.status, await refused.text()]).toEqual([model, 400, expect.stringContaining(`${name}: `)]);
    const usual = name === "speed" ? "standard" : "global";
    expect([model, (await ask(model, { [name]: usual })).status]).toEqual([model, 200]);
  }
  expect((await ask("anthropic/claude-opus-4-6", { [name]: value })).status).toBe(200);
  expect(sent()[name]).toBe(value);
});

test.each(wishes)("%s of a client of chat completions is not forgotten either", async (name, value) => {
  const body = { messages: [{ role: "user", content: "Hi" }], [name]: value };
  for (const model of ["anthropic/claude-opus-4-6", "google/gemini-2.5-flash", "bedrock/amazon.nova-pro-v1:0"]) {
    const refused = await troupe.post("/gateway/v1/chat/completions", { model, ...body });
    const { error } = (await refused.json()) as { error: Json };
    expect([model, refused.status, error["param"]]).toEqual([model, 400, name]);
  }
});
