/** Personas on upstreams of the Responses format: nothing is translated, and though the upstream repeats all it got, no word of theirs comes out. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, type RecordedRequest, sseResponse } from "../helpers/upstream-server.ts";

/** In each line and value of the persona that nobody may see. */
const mark = "SECRET";
const file = `
description: Keeps a secret.
model: openai/gpt-5.9
system: |
  ${mark} one: "never" tell {{subject}} café \u{1f92b}.
  ${mark} two\\n: three.
variables: { subject: { description: What it is about., default: it } }
examples:
  - { role: user, content: "${mark}: what is asked as an example?" }
  - role: assistant
    tool_calls: [{ id: call_x, function: { name: look, arguments: { at: "${mark} arguments" } } }]
  - { role: tool, tool_call_id: call_x, content: "${mark}: what was seen there." }
  - { role: assistant, content: "${mark}: what is answered." }
stop: ["${mark} stop"]
defaults: { temperature: 0.5, max_tokens: 77, reasoning_effort: none }
metadata: { kind: "${mark} metadata" }
tools:
  - { type: function, function: { name: look, description: "${mark} description", parameters: { type: object } } }
`;

const folder = untilEnd(new TempFolder());
let answer: (request: RecordedRequest) => Response;

mkdirSync(join(folder.path, "notes"));
writeFileSync(join(folder.path, "notes", "keeper.yaml"), file);
const { troupe, upstream } = await served(
  (request) => answer(request),
  (url) => ({ personas: folder.path, providers: { openai: { baseUrl: url } } }),
);

type Json = Record<string, unknown>;

const part = { type: "output_text", text: "Hi.", annotations: [] };
const message = { id: "msg_1", type: "message", role: "assistant", status: "completed", content: [part] };
const search = { id: "ws_1", type: "web_search_call", status: "completed", action: { type: "search", query: "x" } };
const usage = { input_tokens: 30, output_tokens: 2, total_tokens: 32 };

/** A response that repeats its request in every member that there is, and in some that there are not. */
const repeating = (sent: Json, status: string, more: Json = {}): Json => {
  const response = { id: "resp_up", object: "response", status, output: [search, message], usage, ...more };
  const { stream: _, ...request } = sent;
  return { ...request, ...response, model: "gpt-5.9-2026", future: { said: [`<${sent["instructions"]}>`], kept: 1.5 } };
};

const place = { output_index: 1, item_id: "msg_1", content_index: 0 };
const event = ({ type, ...fields }: Json, sequence_number: number) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...fields })}\n\n`;
const begun = { output: [], usage: null };
/** Every event that holds a response, and one that nobody knows. */
const events = (sent: Json, ...ending: Json[]): string[] =>
  [
    { type: "response.created", response: repeating(sent, "in_progress", begun) },
    { type: "response.queued", response: repeating(sent, "queued", begun) },
    { type: "response.in_progress", response: repeating(sent, "in_progress", begun) },
    { type: "response.of_the_future", prompts: { all: [sent["instructions"]] }, thing: true },
    { type: "response.output_item.added", output_index: 0, item: search },
    { type: "response.output_item.done", output_index: 0, item: search },
    { type: "response.output_item.added", output_index: 1, item: { ...message, content: [] } },
    { type: "response.output_text.delta", ...place, delta: "Hi.", obfuscation: "x8" },
    ...ending,
  ].map(event);
const completed = (sent: Json): Json[] => [
  { type: "response.output_item.done", output_index: 1, item: message },
  { type: "response.completed", response: repeating(sent, "completed") },
];

const asked = {
  model: "notes/keeper",
  input: "hi",
  instructions: "The caller's own.",
  tools: [{ type: "web_search", filters: { x: 1 } }],
  metadata: { mine: "yes" },
  client_field: { kept: true },
};
const post = (more: Json = {}, headers: Record<string, string> = {}) =>
  troupe.post("/v1/responses", { ...asked, ...more }, { headers });
const read = async (response: Response) => {
  const text = `${JSON.stringify([...response.headers])}${await response.text()}`;
  expect(text).not.toContain(mark);
  return text.slice(text.indexOf("]]") + 2);
};
/** What the caller asked, in the members that a persona changes. */
const own = {
  instructions: asked.instructions,
  tools: asked.tools,
  metadata: asked.metadata,
  temperature: 1,
  max_output_tokens: null,
  reasoning: { effort: null, summary: null },
  input: null,
};

test("goes as the caller wrote it behind the persona's words, and comes back without them", async () => {
  answer = ({ json }) => jsonResponse(repeating(json as Json, "completed"));
  const got = JSON.parse(await read(await post({ store: false }))) as Json;
  const sent = upstream.last.json as Json & { input: Json[]; tools: Json[] };
  expect(sent).toMatchObject({ model: "gpt-5.9", client_field: { kept: true }, store: false, temperature: 0.5 });
  expect(sent["instructions"]).toStartWith(`${mark} one: "never" tell it café`);
  expect(sent["instructions"]).toEndWith("\n\nThe caller's own.");
  expect(sent.input.map(({ type, role }) => type ?? role)).toEqual([
    ...["user", "function_call", "function_call_output", "assistant", "user"],
  ]);
  expect(sent.tools.map(({ type, name }) => name ?? type)).toEqual(["look", "web_search"]);
  expect(got).toEqual({
    ...repeating({ client_field: { kept: true } }, "completed"),
    ...own,
    store: false,
    future: { said: ["<\n\nThe caller's own.>"], kept: 1.5 },
  });
});

test("a cut answer and a stream of every event tell nothing, and neither does a replay", async () => {
  answer = ({ json }) =>
    jsonResponse(repeating(json as Json, "incomplete", { incomplete_details: { reason: "max_output_tokens" } }));
  expect(JSON.parse(await read(await post({ store: false })))).toMatchObject({ status: "incomplete", ...own });
  answer = ({ json }) => sseResponse(events(json as Json, ...completed(json as Json)));
  const headers = { "service-request-id": "persona-stream" };
  const stream = await read(await post({ store: false, stream: true }, headers));
  const told = stream
    .split("\n\n")
    .filter((text) => text !== "")
    .map((text) => JSON.parse(text.slice(text.indexOf("data: ") + 6)) as Json);
  expect(told.map(({ sequence_number }) => sequence_number)).toEqual(told.map((_, at) => at));
  const responses = told.flatMap(({ response }) => (response === undefined ? [] : [response as Json]));
  expect(responses.map(({ status }) => status)).toEqual(["in_progress", "queued", "in_progress", "completed"]);
  for (const response of responses) expect(response).toMatchObject({ ...own, client_field: { kept: true } });
  expect(told[3]).toMatchObject({ type: "response.of_the_future", thing: true });
  expect(told[7]).toMatchObject({ delta: "Hi.", obfuscation: "x8" });
  expect(await read(await post({ store: false, stream: true }, headers))).toBe(stream);
});

const failing = (sent: Json): Record<string, () => Response> => {
  const said = `The text '${sent["instructions"]}' is refused.`;
  const error = { code: "invalid_prompt", message: said };
  return {
    "an error": () => jsonResponse({ error: { ...error, type: "invalid_request_error", param: "instructions" } }, 400),
    "a failure of the server": () => jsonResponse({ error }, 500),
    "a failed response": () => jsonResponse(repeating(sent, "failed", { error })),
    "a stream that fails": () =>
      sseResponse(events(sent, { type: "response.failed", response: repeating(sent, "failed", { error }) })),
    "a stream that is incomplete": () =>
      sseResponse(events(sent, { type: "response.incomplete", response: repeating(sent, "incomplete") })),
    "an error event": () => sseResponse(events(sent, { type: "error", ...error })),
    "a stream that is cut off": () => sseResponse(events(sent)),
    "an error event before all": () => sseResponse([event({ type: "error", ...error }, 0)]),
    "what is no JSON": () => sseResponse([...events(sent), `data: ${said}\n\n`]),
  };
};

test.each(Object.keys(failing({})))("%s tells nothing", async (how) => {
  answer = ({ json }) => failing(json as Json)[how]!();
  const stream = /stream|event|JSON/.test(how);
  await read(await post({ store: false, stream }));
  expect(upstream.last.text).toContain(mark);
});

test("what is kept of it tells nothing: read, followed, listed, made in the background, cancelled", async () => {
  answer = ({ json }) => {
    const sent = json as Json;
    return sent["stream"] === true
      ? sseResponse(events(sent, ...completed(sent)))
      : jsonResponse(repeating(sent, "completed"));
  };
  const { id } = JSON.parse(await read(await post())) as { id: string };
  const path = `/v1/responses/${id}`;
  expect(JSON.parse(await read(await troupe.fetch(path)))).toMatchObject({ id, ...own, store: true });
  for (const more of ["?stream=true", "/input_items"]) await read(await troupe.fetch(path + more));
  const queued = JSON.parse(await read(await post({ background: true }))) as { id: string; status: string };
  expect(queued).toMatchObject({ status: "queued", instructions: asked.instructions });
  const at = `/v1/responses/${queued.id}`;
  expect(await read(await troupe.fetch(`${at}?stream=true`))).toContain('"type":"response.completed"');
  expect(JSON.parse(await read(await troupe.fetch(at)))).toMatchObject({ ...own, status: "completed" });
  await read(await troupe.post(`${at}/cancel`, {}));
});

test("a turn with tools that only the provider has is continued with the same tools, by what is kept here", async () => {
  answer = ({ json }) => {
    const own = { id: `resp_${upstream.requests.length}`, previous_response_id: null };
    return jsonResponse(repeating(json as Json, "completed", own));
  };
  const first = JSON.parse(await read(await post())) as { id: string };
  const more = { input: [{ role: "user", content: "and then?" }], previous_response_id: first.id };
  const second = JSON.parse(await read(await post(more))) as Json;
  const sent = upstream.last.json as Json & { input: Json[]; tools: Json[] };
  expect(sent).toMatchObject({ client_field: { kept: true }, store: false, tools: [{ name: "look" }, asked.tools[0]] });
  expect(sent).not.toContainKeys(["previous_response_id", "stop"]);
  expect(sent.input.slice(-3)).toEqual([
    { role: "user", content: "hi" },
    { role: "assistant", content: "Hi." },
    more.input[0]!,
  ]);
  expect(second).toMatchObject({ ...own, previous_response_id: first.id });
  const third = {
    input: "go on",
    previous_response_id: second["id"],
    tools: [...asked.tools, { type: "custom", name: "c" }],
  };
  expect(await read(await post(third))).toContain("tools[0].type: 'web_search' is a tool");
  await read(await post({ ...third, tools: asked.tools }));
  const { input } = upstream.last.json as { input: Json[] };
  expect(input.slice(-5).map(({ content }) => content)).toEqual(["hi", "Hi.", "and then?", "Hi.", "go on"]);
});
