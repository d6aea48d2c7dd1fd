/**
 * Strings that are left out of what is parsed reach every upstream as they do where the whole body is read, which a `service-request-id`
 * makes sure of: whatever they hold, wherever they stand, and whoever looks into them.
 */
import { expect, spyOn, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { LargeStrings } from "../../src/lib/json/large-strings.ts";
import { type Asked, bodyFor, type FormatName, formatNames, pathOf } from "../helpers/client-formats.ts";
import { runs } from "../helpers/long-form.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import type { RecordedRequest } from "../helpers/upstream-server.ts";

/** The names of providers that fail. */
let failing: ReadonlySet<string> = new Set();

const wire = {
  chat: { choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }] },
  messages: { type: "message", role: "assistant", content: [{ type: "text", text: "yes" }], stop_reason: "end_turn" },
  google: { candidates: [{ content: { role: "model", parts: [{ text: "yes" }] }, finishReason: "STOP" }] },
  responses: {
    id: "resp_1",
    status: "completed",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "yes" }] }],
  },
};

const personas = untilEnd(new TempFolder());
mkdirSync(personas.file("house"));
const persona = (name: string, models: readonly string[]) =>
  writeFileSync(
    personas.file(`house/${name}.yaml`),
    `description: One.\nmodel: [${models.join(", ")}]\nsystem: Be brief.\n`,
  );
persona("one", ["openai/x"]);
persona("translated", ["anthropic/claude-sonnet-4-5"]);
persona("falls", ["openai/x", "anthropic/claude-sonnet-4-5"]);
const names = ["openai", "anthropic", "google", "xai", "mistral", "deepseek", "perplexity"];
const answer = ({ path }: RecordedRequest) => {
  if (failing.has(path.split("/")[1]!)) return Response.json({ error: { message: "down" } }, { status: 503 });
  if (path.includes("chat/completions")) return Response.json(wire.chat);
  if (path.endsWith("/responses")) return Response.json(wire.responses);
  return Response.json(path.includes("generateContent") ? wire.google : wire.messages);
};
const { troupe, upstream } = await served(answer, (url) => ({
  personas: personas.path,
  providers: Object.fromEntries(names.map((name) => [name, { baseUrl: `${url}/${name}` }])),
  nativeEndpoints: true,
}));

/** Around the length from which on strings are left out, and far more. */
const lengths = fc.oneof(
  fc.nat({ max: 80 }),
  fc.integer({ min: 1000, max: 1100 }),
  fc.integer({ min: 2000, max: 9000 }),
);
const fillings = [
  ...['He said "no".\n', "a plain word ", "日本語の文 ", "é😀", "\\", " ", "\t\n", "A9+/", "</think>", "{{name}} "],
  ...['{"a":"\\n"}', "data:text/plain,", "https://example.com/", "\u2028\ufeff", "large-string-"],
];
const text = fc
  .tuple(fc.constantFrom(...fillings), fc.constantFrom("", " ", "x", "<think>"), lengths)
  .map(([filling, begun, length]) =>
    (begun + filling.repeat(Math.ceil(length / filling.length))).slice(0, begun.length + length),
  );
const json = text.map((said) => JSON.stringify({ said }));
const name = fc.constantFrom("look_up", "add");
const media = fc
  .constantFrom("image/png", "image/jpeg")
  .chain((type) => lengths.map((length) => `data:${type};base64,${"iVBORw0K".repeat(Math.ceil(length / 8) + 1)}`));

const chatTurn = fc.oneof(
  fc.record({ role: fc.constantFrom("user", "system", "developer"), content: text }),
  fc.record({
    role: fc.constant("user"),
    content: fc.array(
      fc.oneof(
        fc.record({ type: fc.constant("text"), text }),
        media.map((url) => ({ type: "image_url", image_url: { url } })),
      ),
      { minLength: 1, maxLength: 3 },
    ),
  }),
  fc.record({ role: fc.constant("assistant"), content: text, reasoning_content: fc.option(text, { nil: undefined }) }),
  fc.record({
    role: fc.constant("assistant"),
    content: fc.array(fc.record({ type: fc.constant("text"), text }), { minLength: 1, maxLength: 2 }),
  }),
);
const chatCall = fc
  .tuple(fc.stringMatching(/^call_[a-z0-9]{1,12}$/), name, fc.oneof(json, text), text)
  .map(([id, called, args, result]) => [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id, type: "function", function: { name: called, arguments: args } }],
    },
    { role: "tool", tool_call_id: id, content: result },
  ]);
const chatTools = fc.record({ description: text, parameters: text }).map(({ description, parameters }) =>
  ["look_up", "add"].map((called) => ({
    type: "function",
    function: {
      name: called,
      description,
      parameters: { type: "object", properties: { q: { type: "string", description: parameters } } },
    },
  })),
);
const filler = { role: "user", content: "filling it up, ".repeat(1200) };
const chatBody = fc
  .record({
    turns: fc.array(
      fc.oneof(
        chatTurn.map((turn) => [turn]),
        chatCall,
      ),
      { minLength: 1, maxLength: 4 },
    ),
    tools: fc.option(chatTools, { nil: undefined }),
    last: fc.oneof(
      text.map((content) => [{ role: "user", content }]),
      fc.constant([]),
      text.map((content) => [{ role: "assistant", content }]),
    ),
    user: fc.option(fc.string({ maxLength: 20 }), { nil: undefined }),
  })
  .map(({ turns, tools, last, user }) => ({
    messages: [filler, ...turns.flat(), ...last],
    tools,
    user,
    max_tokens: 50,
  }));

const block = fc.record({ type: fc.constant("text"), text });
const messagesTurn = fc.oneof(
  fc.record({
    role: fc.constantFrom("user", "assistant"),
    content: fc.oneof(text, fc.array(block, { minLength: 1, maxLength: 2 })),
  }),
  fc.record({
    role: fc.constant("assistant"),
    content: text.map((thinking) => [
      { type: "thinking", thinking, signature: "c2lnbmVk" },
      { type: "text", text: "So." },
    ]),
  }),
);
const messagesCall = fc
  .tuple(
    fc.stringMatching(/^toolu_[a-z0-9]{1,12}$/),
    name,
    text,
    fc.oneof(text, fc.array(block, { minLength: 1, maxLength: 2 })),
  )
  .map(([id, called, q, content]) => [
    { role: "assistant", content: [{ type: "tool_use", id, name: called, input: { q } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] },
  ]);
const messagesBody = fc
  .record({
    turns: fc.array(
      fc.oneof(
        messagesTurn.map((turn) => [turn]),
        messagesCall,
      ),
      { minLength: 1, maxLength: 4 },
    ),
    system: fc.option(fc.oneof(text, fc.array(block, { minLength: 1, maxLength: 2 })), { nil: undefined }),
    description: text,
  })
  .map(({ turns, system, description }) => ({
    messages: [filler, ...turns.flat()],
    system,
    max_tokens: 50,
    tools: ["look_up", "add"].map((called) => ({ name: called, description, input_schema: { type: "object" } })),
  }));

const providersModels = [
  "openai/x",
  "anthropic/claude-sonnet-4-5",
  "google/gemini-2.5-flash",
  "mistral/mistral-large-latest",
];
const others = ["deepseek/deepseek-chat", "perplexity/sonar", "builtin/echo"];
const personaModels = ["house/one", "house/translated", "house/falls"];

type Sent = { readonly path: string; readonly json: unknown };
type Outcome = {
  readonly status: number;
  readonly said: unknown;
  readonly sent: readonly Sent[];
  readonly texts: readonly string[];
};

async function outcomeOf(path: string, body: object, headers: Record<string, string>): Promise<Outcome> {
  upstream.requests.length = 0;
  const response = await troupe.post(path, JSON.stringify(body), { headers });
  const { choices, content, error } = (await response.json()) as Record<string, unknown>;
  return {
    status: response.status,
    said: choices ?? content ?? error,
    sent: upstream.requests.map(({ path: at, json: asked }) => ({ path: at, json: asked })),
    texts: upstream.requests.map((one) => one.text),
  };
}

async function expectSame(path: string, body: { readonly model: string }): Promise<void> {
  const leftOut = await outcomeOf(path, body, {});
  const read = await outcomeOf(path, body, { "service-request-id": crypto.randomUUID() });
  const { texts, ...rest } = leftOut;
  const { texts: whole, ...wholeRest } = read;
  expect(rest).toEqual(wholeRest);
  expect(JSON.stringify(rest)).not.toMatch(/large-string-[a-p]{8}-/);
  // What is not translated is sent byte for byte.
  if (path === "/gateway/v1/chat/completions" && body.model === "openai/x") expect(texts).toEqual(whole);
}

const chatPath = fc.constantFrom(...[...providersModels, ...others, ...personaModels]).map((model) => {
  return { model, path: model.startsWith("house/") ? "/v1/chat/completions" : "/gateway/v1/chat/completions" };
});
const messagesPath = fc.constantFrom(...[...providersModels, "xai/grok-4", ...personaModels]).map((model) => {
  return { model, path: model.startsWith("house/") ? "/v1/messages" : "/gateway/v1/messages" };
});
const numRuns = runs(150);

/** Tries a property, and checks that strings were left out of each body. */
async function tryDivided<T>(property: fc.IAsyncProperty<T>): Promise<void> {
  const divided = spyOn(LargeStrings.prototype, "check");
  try {
    await fc.assert(property, { numRuns });
    expect(divided.mock.calls.length).toBeGreaterThanOrEqual(numRuns);
  } finally {
    divided.mockRestore();
  }
}

test("of a chat completion", async () => {
  await tryDivided(
    fc.asyncProperty(chatPath, chatBody, fc.boolean(), async ({ model, path }, body, isDown) => {
      failing = new Set(isDown ? ["openai"] : []);
      await expectSame(path, { ...body, model });
    }),
  );
});

test("of a call to OpenAI's Responses", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom("openai/x", "xai/grok-4"), chatBody, async (model, body) => {
      failing = new Set();
      const asked = { ...body, model, use_responses_api: true };
      await expectSame("/gateway/v1/chat/completions", asked);
    }),
    { numRuns: Math.ceil(numRuns / 3) },
  );
});

test("of Anthropic's Messages", async () => {
  await fc.assert(
    fc.asyncProperty(messagesPath, messagesBody, fc.boolean(), async ({ model, path }, body, isDown) => {
      failing = new Set(isDown ? ["openai"] : []);
      await expectSame(path, { ...body, model });
    }),
    { numRuns },
  );
});

const part = fc.oneof(
  { weight: 4, arbitrary: text.map((said) => ({ kind: "text", text: said }) as const) },
  lengths.map((length) => ({ kind: "image", data: "iVBORw0K".repeat(Math.ceil(length / 8) + 1) }) as const),
);
const saidParts = fc.array(part, { minLength: 1, maxLength: 3 });
const askedTurn = fc.oneof(
  saidParts.map((parts) => ({ kind: "user", parts }) as const),
  fc.record({
    kind: fc.constant("assistant" as const),
    text,
    calls: fc.array(
      fc.record({
        id: fc.stringMatching(/^call_[a-z0-9]{8,12}$/),
        name,
        args: fc.record({ q: text }),
        result: fc.record({
          parts: fc.array(
            text.map((said) => ({ kind: "text", text: said }) as const),
            { minLength: 1, maxLength: 2 },
          ),
          isError: fc.boolean(),
        }),
      }),
      { maxLength: 2 },
    ),
  }),
);
const asked: fc.Arbitrary<Asked> = fc
  .record({
    system: text,
    turns: fc.array(askedTurn, { minLength: 1, maxLength: 4 }),
    last: saidParts,
    description: text,
  })
  .map(({ system, turns, last, description }) => ({
    system,
    turns: [
      { kind: "user", parts: [{ kind: "text", text: filler.content }] },
      ...(turns as Asked["turns"]),
      { kind: "user", parts: last },
    ],
    tools: ["look_up", "add"].map((called) => ({
      name: called,
      description,
      parameters: { type: "object", properties: { q: { type: "string" } }, required: ["q"] },
    })),
    choice: "auto",
    oneAtATime: false,
    schema: undefined,
    temperature: undefined,
    stop: [],
    maxTokens: 50,
  }));

test.each(formatNames)("of a conversation in the format %s", async (format: FormatName) => {
  const models = fc.constantFrom(...providersModels, ...others, "xai/grok-4", ...personaModels);
  await tryDivided(
    fc.asyncProperty(models, asked, fc.boolean(), async (model, said, isDown) => {
      failing = new Set(isDown ? ["openai"] : []);
      const surface = model.startsWith("house/") ? "orchestrator" : "gateway";
      await expectSame(pathOf(surface, format, model), { model, ...bodyFor(format, said, model) });
    }),
  );
});
