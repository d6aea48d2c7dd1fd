/**
 * The published specification of the Responses format, kept by the answers of every provider: its suite's cases, and all example
 * answers of the fixtures, plain and streamed, on both surfaces. https://www.openresponses.org/compliance
 */
import { describe, expect, test } from "bun:test";
import {
  type AnsweredCase,
  answeredCases,
  answeredRules,
  exampleResponse,
  fixtureFamilies,
} from "../helpers/fixtures.ts";
import { faultsOfEvents, faultsOfResponse } from "../helpers/open-responses.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
const surfaces = [
  ["gateway", "/gateway/v1/responses"],
  ["orchestrator", "/v1/responses"],
] as const;

let answer: () => Response;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const named = fixtureFamilies().map(({ provider: { name } }) => [
  name,
  { baseUrl: upstream.url, modelRules: answeredRules(name) },
]);
const troupe = untilEnd(await Troupe.start({ providers: Object.fromEntries(named) }));

type Said = { status: string; completed_at: number | null; output: { type: string }[] };
type Event = { type: string; sequence_number: number; response?: unknown; item?: { type: string } };

async function eventsOf(path: string, body: object): Promise<Event[]> {
  const response = await troupe.post(path, { ...body, stream: true });
  const text = await response.text();
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      const [, name, data] = /^event: (.+)\ndata: (.+)$/.exec(block)!;
      const event = JSON.parse(data!) as Event;
      expect(name).toBe(event.type);
      return event;
    });
}

/** Where the upstream speaks this format its words are passed on, and it answers for them. */
const speaksResponses = new Set(["openai", "azure", "xai"]);

const cases = fixtureFamilies()
  .filter(({ folder, provider }) => folder.endsWith("-responses") || !speaksResponses.has(provider.name))
  .flatMap(({ folder, provider }) =>
    answeredCases(folder)
      .filter(({ expected }) => expected.error === undefined)
      .map((one) => [one.path, provider.name, one] as const),
  );

describe.each(surfaces)("the examples of every provider, %s", (surface, path) => {
  const told = cases.filter(([, name]) => surface === "orchestrator" || !speaksResponses.has(name));
  test.each(told)("%s", async (_, provider, one: AnsweredCase) => {
    answer = () => exampleResponse(one.path);
    troupe.setTargets(persona, [`${provider}/${one.model}`]);
    const model = surface === "gateway" ? `${provider}/${one.model}` : persona;
    const body = { model, input: "Hi", include: ["reasoning.encrypted_content"] };
    if (one.form === "json") {
      const response = await troupe.post(path, body);
      const said = (await response.json()) as Said;
      expect([response.status, faultsOfResponse(said)]).toEqual([200, []]);
      expect(typeof said.completed_at).toBe(said.status === "completed" ? "number" : "object");
    }
    const events = await eventsOf(path, body);
    expect(faultsOfEvents(events)).toEqual([]);
    expect(faultsOfResponse(events.at(-1)!.response)).toEqual([]);
  });
});

const weather = {
  type: "function",
  name: "get_weather",
  description: "Get the current weather for a location",
  parameters: { type: "object", properties: { location: { type: "string" } }, required: ["location"] },
};
const image = `data:image/png;base64,${"iVBORw0KGgo".padEnd(64, "A")}`;
const user = (content: unknown) => ({ type: "message", role: "user", content });
const greeted = [
  user("My name is Alice."),
  { type: "message", role: "assistant", content: "Hello Alice!" },
  user("What is my name?"),
];
const seen = [
  { type: "input_text", text: "What is this?" },
  { type: "input_image", image_url: image },
];

/** The cases of the published suite: what is asked, and what a model of each family says to it. */
const suite: readonly (readonly [string, object, "text" | "call"])[] = [
  ["basic text", { input: [user("Say hello.")] }, "text"],
  ["system prompt", { input: [{ type: "message", role: "system", content: "Be a pirate." }, user("Hi")] }, "text"],
  ["tool call", { input: [user("The weather?")], tools: [weather] }, "call"],
  ["image input", { input: [user(seen)] }, "text"],
  ["several turns", { input: greeted }, "text"],
  // Beside the suite: what an answer repeats of its request.
  [
    "all that is repeated",
    {
      input: "Hi",
      instructions: "Be brief.",
      tools: [{ type: "function", name: "get_weather" }],
      tool_choice: { type: "function", name: "get_weather" },
      text: { format: { type: "json_schema", name: "word", schema: { type: "object" } } },
      reasoning: { effort: "low" },
      metadata: { a: "b" },
      temperature: 0.5,
      max_output_tokens: 64,
      truncation: "auto",
      store: false,
    },
    "call",
  ],
];

/** A family of each form that upstreams have, with its answers. */
const families = [
  {
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    text: ["anthropic/text", "anthropic/text-stream"],
    call: ["anthropic/tool", "anthropic/tools-stream"],
  },
  {
    provider: "google",
    model: "gemini-2.5-flash",
    text: ["google/plain", "google/stream"],
    call: ["google/tool-call", "google/tool-calls-parallel-stream"],
  },
  {
    provider: "deepseek",
    model: "deepseek-chat",
    text: ["together/plain", "deepseek/stream"],
    call: ["deepseek/tools-plain", "groq/tools-stream"],
  },
  {
    provider: "openai",
    model: "gpt-5.4",
    text: ["openai-responses/plain", "openai-responses/stream"],
    call: ["openai-responses/tools-with-interleaved-reasoning", "openai-responses/stream-tools"],
  },
];

describe.each(families)("the published suite's cases, $provider", ({ provider, model, ...answers }) => {
  // What OpenAI says passes as it comes: on the gateway, and for personas where nothing is kept here.
  const passes = speaksResponses.has(provider);
  const asked = passes ? surfaces.slice(1) : surfaces;
  describe.each(asked)("%s", (surface, path) => {
    test.each(suite)("%s", async (_, fields, kind) => {
      troupe.setTargets(persona, [`${provider}/${model}`]);
      const named = { model: surface === "gateway" ? `${provider}/${model}` : persona };
      const body = { ...named, ...fields, ...(passes && { store: true }) };
      answer = () => exampleResponse(answers[kind][0]!);
      const response = await troupe.post(path, body);
      const said = (await response.json()) as Said;
      expect([response.status, faultsOfResponse(said), said.status]).toEqual([200, [], "completed"]);
      const type = kind === "text" ? "message" : "function_call";
      expect(said.output.map((item) => item.type)).toContain(type);
      answer = () => exampleResponse(answers[kind][1]!);
      const events = await eventsOf(path, body);
      expect(faultsOfEvents(events)).toEqual([]);
      const last = events.at(-1)!;
      expect([last.type, faultsOfResponse(last.response)]).toEqual(["response.completed", []]);
      const items = events.filter((event) => event.item?.type === type).map((event) => event.type);
      expect(items.slice(0, 2)).toEqual(["response.output_item.added", "response.output_item.done"]);
      const pieces = kind === "text" ? "response.output_text" : "response.function_call_arguments";
      for (const end of ["delta", "done"]) expect(events.map((event) => event.type)).toContain(`${pieces}.${end}`);
    });
  });
});
