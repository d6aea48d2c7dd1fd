/** `/responses/compact`: passed on where the upstream compacts, by a summary elsewhere; what comes of it is understood in the next turn. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { compactionPrompt } from "../../src/protocols/responses/compaction.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const base = { baseUrl: upstream.url };
const troupe = untilEnd(
  await Troupe.start({
    providers: { groq: base, openai: { baseUrl: `${upstream.url}/v1` }, azure: base, anthropic: base },
  }),
);
troupe.setTargets(persona, ["groq/x"]);

const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
const says = (content: string, finish_reason = "stop") =>
  jsonResponse({ id: "up", choices: [{ index: 0, message: { role: "assistant", content }, finish_reason }], usage });

const question = { type: "message", role: "user", content: [{ type: "input_text", text: "Read a.txt." }] };
const history = [
  question,
  { type: "function_call", call_id: "c1", name: "read", arguments: '{"path":"a.txt"}' },
  { type: "function_call_output", call_id: "c1", output: "42" },
  { type: "message", role: "assistant", content: [{ type: "output_text", text: "It says 42." }] },
];
const tools = [
  { type: "function", name: "read", parameters: { type: "object", properties: {} } },
  { type: "web_search" },
];

type Compacted = { readonly output: readonly { readonly type: string; readonly encrypted_content?: string }[] };
const compact = async (model: string, path = "/gateway", more: object = {}) => {
  const response = await troupe.post(`${path}/v1/responses/compact`, { model, input: history, tools, ...more });
  return [response.status, (await response.json()) as Compacted] as const;
};

describe.each([
  ["a provider", "groq/x", "/gateway"],
  ["a persona", persona, ""],
] as const)("of %s without it", (_, model, path) => {
  test("the model is asked for a summary, and its item goes on with any provider", async () => {
    answer = () => says("a.txt says 42.");
    const [status, body] = await compact(model, path);
    expect([status, body]).toMatchObject([
      200,
      {
        id: expect.stringMatching(/^resp_/),
        object: "response.compaction",
        created_at: expect.any(Number),
        output: [question, { type: "compaction", id: expect.stringMatching(/^cmp_/) }],
        usage: { input_tokens: 7, output_tokens: 5, total_tokens: 12 },
      },
    ]);
    const sent = upstream.last.json as {
      messages: { role: string; content: string }[];
      tools: unknown[];
      tool_choice: string;
    };
    expect(sent.messages.at(-1)).toEqual({ role: "user", content: compactionPrompt });
    expect([sent.tools.length, sent.tool_choice]).toEqual([1, "none"]);

    await troupe.post("/gateway/v1/responses", {
      model: "groq/x",
      store: false,
      input: [...body.output, { role: "user", content: "Go on." }],
    });
    const next = JSON.stringify((upstream.last.json as { messages: unknown }).messages);
    expect(next).toContain("Summary of the conversation so far:\\n\\na.txt says 42.");
    expect(next).not.toContain("trp1.");

    answer = () => jsonResponse({ id: "resp_up", object: "response", status: "completed", output: [], usage: null });
    await troupe.post("/gateway/v1/responses", { model: "openai/gpt-x", store: false, input: body.output });
    expect((upstream.last.json as { input: unknown }).input).toEqual([
      question,
      { type: "message", role: "user", content: "Summary of the conversation so far:\n\na.txt says 42." },
    ]);
  });
});

test("a summary that is cut, or none, is no compaction", async () => {
  answer = () => says("a.txt sa", "length");
  expect((await compact("groq/x"))[0]).toBe(503);
  answer = () => says("");
  expect((await compact("groq/x"))[0]).toBe(503);
});

test.each([
  ["openai/gpt-x", "/v1/responses/compact"],
  ["azure/gpt-x", "/openai/v1/responses/compact"],
])("%s compacts itself: request and answer pass as they came", async (model, path) => {
  const compacted = {
    id: "resp_1",
    object: "response.compaction",
    created_at: 1,
    output: [question, { id: "cmp_1", type: "compaction", encrypted_content: "gAAA" }],
    usage: {
      input_tokens: 9,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 2,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 11,
    },
  };
  answer = () => jsonResponse(compacted);
  const [status, body] = await compact(model);
  expect([status, body as object]).toEqual([200, compacted]);
  expect([upstream.last.path, upstream.last.json]).toEqual([path, { model: "gpt-x", input: history, tools }]);
});

test("an upstream's error is its own", async () => {
  const error = { error: { message: "no", type: "invalid_request_error", code: "x", param: null } };
  answer = () => jsonResponse(error, 400);
  expect((await compact("openai/gpt-x")) as unknown).toEqual([400, error]);
});

test("what is wrong is named", async () => {
  expect(await compact("groq/x", "/gateway", { input: 5 })).toMatchObject([400, { error: { param: "input" } }]);
  const foreign = await compact("groq/x", "/gateway", { input: [{ type: "compaction", encrypted_content: "gAAA" }] });
  expect(foreign[0]).toBe(400);
});

test("the prompt is the one that the documentation shows", () => {
  const page = readFileSync(join(import.meta.dir, "../../docs/clients.md"), "utf8");
  expect(page).toContain(`> ${compactionPrompt}`);
});
