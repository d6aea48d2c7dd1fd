/** What is neither an answer nor an error, from every provider: an error of our own, streamed and plain, not kept and not stored. */
import { describe, expect, test } from "bun:test";
import { providers } from "../../src/providers/registry.ts";
import { longTest, some } from "../helpers/long-form.ts";
import { observe } from "../helpers/observed-troupe.ts";
import { served } from "../helpers/served.ts";
import { sseResponse } from "../helpers/upstream-server.ts";

type Way = { readonly name: string; readonly extras: Record<string, unknown> };

const ways = providers.flatMap((provider): Way[] => {
  if (provider.kind === "local") return [];
  const own = { name: provider.name, extras: {} };
  const hasResponses = "use_responses_api" in provider.extras.properties;
  return hasResponses ? [own, { name: provider.name, extras: { use_responses_api: true } }] : [own];
});
const byName = ways.map((way) => [`${way.name} ${JSON.stringify(way.extras)}`, way] as const);

const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
const words = "Do not delete it";
const bodies = [
  ...[
    "{}",
    "null",
    "[]",
    "1",
    '"text"',
    '{"choices":[]}',
    '{"choices":null}',
    '{"choices":[{}]}',
    '{"error":null}',
    '{"error":{}}',
  ],
  ...[
    '{"choices":[{"message":{}}]}',
    '{"choices":[{"message":{"role":"assistant","content":null}}]}',
    '{"choices":["x"]}',
  ],
  ...[`{"choices":[{"message":{"content":{"text":"${words}"}}}]}`, '{"candidates":[]}', '{"candidates":[{}]}'],
  ...['{"content":[]}', `{"content":[{"type":"text","text":["${words}"]}]}`, '{"output":[]}', '{"output":[{}]}'],
  ...[
    '{"status":"in_progress","output":[]}',
    `{"said":"${words}"}`,
    `${words}`,
    `{"choices":[{"message":{"content":"${words}`,
  ],
  ...[
    nested(200_000),
    `{"choices":[{"message":{"content":"x"},"more":${nested(200_000)}}],"content":[{"type":"text","text":"x","y":${nested(200_000)}}]}`,
  ],
];

let next: () => Response;

const accounts = (url: string) => Object.fromEntries(ways.map(({ name }) => [name, { baseUrl: url }]));
const json = (body: string) => () => new Response(body, { headers: { "content-type": "application/json" } });

const { troupe, upstream } = await served(
  () => next(),
  (url) => ({ providers: accounts(url) }),
);

function ask({ name, extras }: Way, more: object = {}, headers: Record<string, string> = {}): Promise<Response> {
  const messages = [{ role: "user", content: "Hi" }];
  const body = { model: `${name}/some-model`, messages, ...extras, ...more };
  return troupe.post("/gateway/v1/chat/completions", body, { headers });
}

async function expectOurs(response: Response): Promise<void> {
  const text = await response.text();
  expect([response.status, response.headers.get("x-troupe-error-source")]).toEqual([503, null]);
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(JSON.parse(text).error).toMatchObject({ type: "server_error", param: "", code: "upstream_invalid_response" });
  expect(text).not.toContain(words);
}

describe.each(some(byName, 4))("%s", (_, way) => {
  test.each([false, true])("a 200 that is no answer (stream: %j)", async (stream) => {
    for (const body of bodies) {
      next = json(body);
      await expectOurs(await ask(way, { stream }));
    }
  });

  test.each([false, true])("a stream that begins with what can't be read (asked for: %j)", async (stream) => {
    for (const data of [
      "{",
      `{"choices":[{"delta":{"content":"${words}`,
      "null",
      `"${words}"`,
      nested(200_000),
      `${words}.`,
    ]) {
      next = () => sseResponse([`data: ${data}\n\n`]);
      await expectOurs(await ask(way, { stream }));
    }
  });
});

const [chat, messages, gemini, responses] = ["mistral", "anthropic", "google", "openai"].map((name) => ({
  name,
  extras: {},
}));
const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const block = (type: string, more: object) => event({ type, index: 0, ...more });
const message = { id: "m", type: "message", role: "assistant", content: [], usage: {} };
const begun: readonly (readonly [string, Way, string])[] = [
  ["chat", chat!, event({ choices: [{ index: 0, delta: { content: "Do " } }] })],
  [
    "messages",
    messages!,
    event({ type: "message_start", message }) +
      block("content_block_start", { content_block: { type: "text", text: "" } }) +
      block("content_block_delta", { delta: { type: "text_delta", text: "Do " } }),
  ],
  ["gemini", gemini!, event({ candidates: [{ index: 0, content: { parts: [{ text: "Do " }] } }] })],
  [
    "responses",
    { ...responses!, extras: { use_responses_api: true } },
    event({ type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "Do " }),
  ],
];

describe.each(begun)("a stream of the %s format whose second event is", (name, way, beginning) => {
  async function expectBroken(second: string | string[]): Promise<void> {
    next = () => sseResponse([beginning, ...[second].flat()]);
    for (const headers of [{}, { "service-request-id": crypto.randomUUID() }]) {
      const before = upstream.requests.length;
      for (const more of [{}, { store: true }]) {
        const response = await ask(way, { stream: true, ...more }, headers);
        const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
        expect([response.status, lines.at(-1)]).toEqual([200, "data: [DONE]"]);
        expect(JSON.parse(lines.at(-2)!.slice("data: ".length)).error.code).toBe("upstream_invalid_response");
        expect(lines.join("")).not.toContain('"stop"');
        if ("service-request-id" in headers) break;
      }
      // Nothing of it is kept: the same id asks anew.
      if (!("service-request-id" in headers)) continue;
      await (await ask(way, { stream: true }, headers)).text();
      expect(upstream.requests.length).toBe(before + 2);
    }
    await expectOurs(await ask(way, {}));
    await expectOurs(await ask(way, { store: true }));
  }

  test("cut within its JSON", () => expectBroken(`data: {"choices":[{"delta":{"content":"not\n\n`));
  test("deeper than can be written", () =>
    expectBroken(`data: {"choices":[],"candidates":[],"x":${nested(150_000)}}\n\n`));
  // Gigabytes in all, by one parser of events for all formats.
  const oneInSuite = name === "chat" ? test : longTest;
  oneInSuite("larger than is held", async () => {
    const piece = "x".repeat(8 * 1024 * 1024);
    await expectBroken([`data: {"x":"`, ...Array.from({ length: 9 }, () => piece)]);
  });
});

test("the log has the status that the provider gave, and nothing of what was said", async () => {
  next = json(`{"said":"${words}"}`);
  const { lines } = await observe({ providers: accounts(upstream.url) }, async (observed) => {
    for (const stream of [false, true]) {
      const body = { model: "openai/m", messages: [{ role: "user", content: "Hi" }], stream };
      await (await observed.post("/gateway/v1/chat/completions", body)).text();
    }
  });
  const told = lines.map((line) => JSON.parse(line)).filter(({ status }) => status === 503);
  expect(told.map(({ upstream_status, failure }) => [upstream_status, failure])).toEqual(
    [1, 2].map(() => [200, "openai sent something that is no answer."]),
  );
  expect(lines.join("\n")).not.toContain(words);
});

test("a stream that breaks is logged and counted with the status that it began with", async () => {
  const fragment = event({ choices: [{ index: 0, delta: { content: "Do " }, finish_reason: null }] });
  const broken: [string[], number][] = [
    [[fragment, "data: {\n\n"], 200],
    [[fragment], 200],
    [[fragment, event({ error: { message: "x", code: 529 } })], 529],
  ];
  const { lines, metrics } = await observe({ providers: accounts(upstream.url) }, async (observed) => {
    for (const [pieces] of broken) {
      next = () => sseResponse(pieces);
      const body = { model: "mistral/m", messages: [{ role: "user", content: "Hi" }], stream: true };
      expect(await (await observed.post("/gateway/v1/chat/completions", body)).text()).toContain('{"error":');
    }
  });
  const told = lines.map((line) => JSON.parse(line)).filter(({ fault }) => fault !== undefined);
  expect(told.map(({ upstream_status }) => upstream_status)).toEqual(broken.map(([, status]) => status));
  expect(metrics).toContain('troupe_upstream_errors_total{gen_ai_provider_name="mistral",status="200"} 2');
  expect(metrics).toContain('troupe_upstream_errors_total{gen_ai_provider_name="mistral",status="529"} 1');
});
