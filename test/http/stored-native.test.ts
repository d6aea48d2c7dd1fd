/** Responses that OpenAI answers in its own format: kept there and here, continued there, and deleted there. */
import { expect, test } from "bun:test";
import type OpenAI from "openai";
import type { Response as ResponseObject, ResponseStreamEvent } from "openai/resources/responses/responses";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const model = "openai/gpt-5";
let count = 0;

/** As OpenAI answers, with members that nobody here knows. */
const response = (id: string, text: string) => ({
  id,
  object: "response",
  created_at: 1_700_000_000,
  status: "completed",
  background: false,
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  model: "gpt-5-2025-08-07",
  output: [
    { id: `rs_${id}`, type: "reasoning", summary: [], encrypted_content: "gAAAA" },
    {
      id: `msg_${id}`,
      type: "message",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text, annotations: [], logprobs: [] }],
    },
  ],
  parallel_tool_calls: true,
  temperature: 1,
  tool_choice: "auto",
  tools: [{ type: "web_search", search_context_size: "medium" }],
  top_p: 1,
  usage: {
    input_tokens: 7,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 12,
  },
  unheard_of: { kept: true },
});

function events(id: string, text: string): Response {
  const whole = response(id, text);
  const begun = { ...whole, status: "in_progress", output: [], usage: null };
  const [reasoning, message] = whole.output;
  const part = { type: "output_text", text, annotations: [], logprobs: [] };
  const place = { item_id: message!.id, output_index: 1, content_index: 0 };
  const told: [string, object][] = [
    ["response.created", { response: begun }],
    ["response.in_progress", { response: begun }],
    ["response.output_item.added", { output_index: 0, item: reasoning }],
    ["response.output_item.done", { output_index: 0, item: reasoning }],
    ["response.output_item.added", { output_index: 1, item: { ...message, status: "in_progress", content: [] } }],
    ["response.content_part.added", { ...place, part: { ...part, text: "" } }],
    ["response.output_text.delta", { ...place, delta: text, logprobs: [] }],
    ["response.output_text.done", { ...place, text, logprobs: [] }],
    ["response.content_part.done", { ...place, part }],
    ["response.output_item.done", { output_index: 1, item: message }],
    ["response.completed", { response: whole }],
  ];
  return sseResponse(
    told.map(
      ([type, fields], sequence_number) =>
        `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...fields })}\n\n`,
    ),
  );
}

function answer({ method, path, json }: RecordedRequest): Response {
  if (method === "DELETE") return jsonResponse({ id: path.split("/").at(-1), deleted: true });
  if (path.endsWith("/chat/completions")) {
    const message = { role: "assistant", content: "From chat." };
    return jsonResponse({ choices: [{ index: 0, message, finish_reason: "stop" }] });
  }
  count += 1;
  const id = `resp_up${count}`;
  return (json as { stream?: boolean }).stream === true
    ? events(id, `Hello ${count}.`)
    : jsonResponse(response(id, `Hello ${count}.`));
}

const upstream = untilEnd(new UpstreamServer(answer));
const baseUrl = upstream.url;
const dated = { dialect: "azure", options: { api_version: "2025-04-01-preview" } };
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      openai: { baseUrl },
      groq: { baseUrl },
      azure: { baseUrl },
      dated: { baseUrl, ...dated },
    },
  }),
);

const client = () => troupe.client("gateway");
const sent = () => upstream.last.json as Record<string, unknown>;
const failure = (call: PromiseLike<unknown>) =>
  Promise.resolve(call).then(
    () => undefined,
    (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
  );

test("it is kept as it came, under the upstream's id, and its owner's alone", async () => {
  const created = await client().responses.create({ model, input: "Hi", tools: [{ type: "web_search" }] });
  expect(created).toMatchObject({ id: "resp_up1", unheard_of: { kept: true } } as object);
  expect(sent()).toEqual({ model: "gpt-5", input: "Hi", tools: [{ type: "web_search" }] });
  expect(await client().responses.retrieve(created.id)).toEqual(created);
  const apiKey = await troupe.createKey({ name: "other", tier: "pro" });
  const stranger = troupe.client("gateway", { apiKey });
  const before = upstream.requests.length;
  expect(await failure(stranger.responses.retrieve(created.id))).toMatchObject({ status: 404 });
  expect(
    await failure(stranger.responses.create({ model, input: "Hi", previous_response_id: created.id })),
  ).toMatchObject({ status: 404 });
  expect(upstream.requests.length).toBe(before);
});

test("on the same account the next turn names it; elsewhere its messages are sent", async () => {
  const stream = await client().responses.create({ model, input: "I am Ada.", stream: true });
  let last: ResponseStreamEvent | undefined;
  for await (const event of stream) last = event;
  const first = (last as { response: ResponseObject }).response;
  const { output_text: _, ...kept } = await client().responses.retrieve(first.id);
  expect(kept).toEqual(first);
  const second = await client().responses.create({ model, input: "Who am I?", previous_response_id: first.id });
  expect(sent()).toEqual({ model: "gpt-5", input: "Who am I?", previous_response_id: first.id });
  const third = await client().responses.create({ model: "groq/x", input: "Sure?", previous_response_id: second.id });
  const { messages } = sent() as { messages: { content: string }[] };
  expect(messages.map(({ content }) => content)).toEqual(["I am Ada.", "Hello 2.", "Who am I?", "Hello 3.", "Sure?"]);
  await client().responses.create({ model, input: "Really?", previous_response_id: third.id });
  expect(sent()["previous_response_id"]).toBeUndefined();
  expect(JSON.stringify(sent())).toContain("From chat.");
});

test.each([
  ["openai", (id: string) => `/responses/${id}`, ["Bearer key-of-openai", null]],
  ["azure", (id: string) => `/openai/v1/responses/${id}`, [null, "key-of-azure"]],
  ["dated", (id: string) => `/openai/responses/${id}?api-version=2025-04-01-preview`, [null, "key-of-dated"]],
] as const)("deleted here, it is deleted there: %s", async (provider, path, credentials) => {
  const { id } = await client().responses.create({ model: `${provider}/gpt-5`, input: "Hi" });
  await client().responses.delete(id);
  for (; upstream.last.method !== "DELETE"; ) await upstream.received(upstream.requests.length + 1);
  expect(upstream.last.path).toBe(path(id));
  expect(["authorization", "api-key"].map((name) => upstream.last.headers.get(name))).toEqual([...credentials]);
});

test("a persona's own words are not shown to its callers, though the upstream repeats them", async () => {
  troupe.setTargets("troupe/guide", [model]);
  const { id } = await troupe.client("orchestrator").responses.create({ model: "troupe/guide", input: "Hi" });
  expect(upstream.last.text).toContain("You are the Guide");
  const shown = JSON.stringify(await troupe.client("orchestrator").responses.retrieve(id));
  expect(shown).not.toContain("You are the Guide");
  expect(JSON.parse(shown)).toMatchObject({ model: "troupe/guide", instructions: null });
});

test("store: false leaves nothing, here or there", async () => {
  const { id } = await client().responses.create({ model, input: "Hi", store: false });
  expect(sent()["store"]).toBe(false);
  expect(await failure(client().responses.retrieve(id))).toMatchObject({ status: 404 });
});

test("in the background, what only its own upstreams can do is refused at once elsewhere", async () => {
  const tools = [{ type: "web_search" as const }];
  const asked = client().responses.create({ model: "groq/x", input: "Hi", background: true, tools });
  expect(await failure(asked)).toMatchObject({ status: 400 });
});

test("in the background it has an id from the beginning, and the upstream's tools", async () => {
  const tools = [{ type: "web_search" as const }];
  const queued = await client().responses.create({ model, input: "I am Ada.", background: true, tools });
  expect(queued).toMatchObject({ status: "queued", background: true });
  const all: ResponseStreamEvent[] = [];
  for await (const event of await client().responses.retrieve(queued.id, { stream: true })) all.push(event);
  expect(sent()).toEqual({ model: "gpt-5", input: "I am Ada.", tools, stream: true });
  const told = all.flatMap((event) => ("response" in event ? [event.response] : []));
  expect(told.map(({ id, background }) => [id, background])).toEqual(Array(3).fill([queued.id, true]));
  const { output_text, ...kept } = await client().responses.retrieve(queued.id);
  expect(kept).toEqual(told.at(-1)!);
  expect(kept).toMatchObject({ status: "completed", unheard_of: { kept: true } } as object);
  await client().responses.create({ model: "groq/x", input: "Who am I?", previous_response_id: queued.id });
  const { messages } = sent() as { messages: { content: string }[] };
  expect(messages.map(({ content }) => content)).toEqual(["I am Ada.", output_text, "Who am I?"]);
  const before = upstream.requests.length;
  await client().responses.delete(queued.id);
  await upstream.received(before + 1);
  expect(upstream.last).toMatchObject({ method: "DELETE", path: expect.stringContaining("/responses/resp_up") });
});
