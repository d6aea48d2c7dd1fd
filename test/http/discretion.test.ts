/** With `log.content` off nothing of what was said, by anyone, reaches the log, the metrics or the traces. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { some } from "../helpers/long-form.ts";
import { observe } from "../helpers/observed-troupe.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import type { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

/** One word, as a parser's error quotes no more of a text than that. */
const secret = "Xylophonquark";
const phrase = `my ${secret}'s "diary" ${secret}`;

const families: Readonly<Record<string, Record<string, unknown>>> = {
  openai: {},
  anthropic: {},
  google: {},
  xai: {},
  mistral: {},
  "openai in the Responses form": { use_responses_api: true },
};

const error = { message: phrase, type: "invalid_request_error", code: "bad", param: phrase, detail: [phrase] };
const event = (data: string) => `data: ${data}\n\n`;
const named = (data: Record<string, unknown>) => `event: ${data["type"]}\n${event(JSON.stringify(data))}`;
const whole = {
  choices: [{ index: 0, message: { role: "assistant", content: phrase, refusal: phrase }, finish_reason: "stop" }],
  content: [{ type: "text", text: phrase }],
  candidates: [{ content: { parts: [{ text: phrase }] }, finishReason: "STOP" }],
  output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: phrase }] }],
  status: "completed",
  stop_reason: "end_turn",
  usage: {},
};
/** Begins as each family's streams do. */
const beginnings = [
  event(JSON.stringify({ choices: [{ index: 0, delta: { content: phrase } }] })),
  event(JSON.stringify({ candidates: [{ content: { parts: [{ text: phrase }] } }] })),
  named({ type: "message_start", message: { id: "m", usage: {} } }) +
    named({ type: "content_block_start", index: 0, content_block: { type: "text", text: phrase } }) +
    named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: phrase } }),
  named({ type: "response.output_text.delta", output_index: 0, content_index: 0, delta: phrase }),
];
const ends = [
  "",
  event(`{"choices": ${secret}`),
  event(`${secret} ${secret}`),
  event(JSON.stringify({ error })),
  named({ type: "error", error }),
  named({ type: "response.failed", response: { error } }),
  event(JSON.stringify({ choices: phrase, candidates: phrase, type: phrase })),
];

/** All that an upstream may say, well or badly. */
const answers: (() => Response)[] = [
  ...some([400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529], 4).flatMap((status) => [
    () => jsonResponse({ error }, status),
    () => jsonResponse({ type: "error", error: { ...error, type: phrase, code: phrase } }, status),
    () => jsonResponse([{ error: { ...error, status: phrase } }], status),
    () => jsonResponse({ error: phrase, message: phrase, detail: phrase }, status),
    () => new Response(phrase, { status, headers: { "content-type": "text/html" } }),
  ]),
  () => new Response(null, { status: 302, headers: { location: `https://example.com/${secret}` } }),
  () => jsonResponse(whole),
  () => jsonResponse({ error }),
  () => jsonResponse({ error: phrase }),
  () => jsonResponse({ choices: [{ message: phrase }], content: phrase, candidates: [phrase], output: phrase }),
  () => jsonResponse({ [phrase]: phrase }),
  () => jsonResponse(phrase),
  () => jsonResponse([phrase]),
  () => new Response(`{"choices": ${secret} }`, { headers: { "content-type": "application/json" } }),
  () => new Response(phrase),
  ...some(
    beginnings.flatMap((beginning) => ends.map((end) => () => sseResponse([beginning, end]))),
    3,
  ),
  ...ends.map((end) => () => sseResponse([end])),
];

const messages = [
  { role: "system", content: phrase },
  { role: "user", name: "someone", content: [{ type: "text", text: phrase }] },
];

async function callAll(troupe: Troupe, path: string, body: object, next: (answer: () => Response) => void) {
  for (const answer of answers) {
    next(answer);
    for (const stream of [false, true]) {
      const headers = stream ? { "service-request-id": crypto.randomUUID() } : {};
      await (await troupe.post(path, { ...body, messages, stream, store: stream }, { headers })).text();
    }
  }
}

function expectSilence(told: { lines: readonly string[]; metrics: string; telemetry: readonly string[] }): void {
  const spoken = [...told.lines, told.metrics, ...told.telemetry].filter((text) => text.includes(secret));
  expect(spoken).toEqual([]);
}

describe("what is said stays out of the log", () => {
  test.each(Object.entries(families))("to and from %s", async (family, extras) => {
    let answer = answers[0]!;
    using upstream = new UpstreamServer(() => answer());
    const name = family.split(" ")[0]!;
    const told = await observe({ providers: { [name]: { baseUrl: upstream.url } } }, async (troupe) => {
      const body = { model: `${name}/x`, ...extras };
      await callAll(troupe, "/gateway/v1/chat/completions", body, (next) => {
        answer = next;
      });
    });
    expect(told.lines.filter((line) => line.includes('"message":"request"')).length).toBe(2 * answers.length + 1);
    expect(told.lines.join("\n")).toContain('"upstream_error":"invalid_request_error bad"');
    expectSilence(told);
  });

  test("by an upstream that breaks the rules of HTTP", async () => {
    const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    const wires = [
      `${secret} ${phrase}\r\n\r\n`,
      `${head}${secret}\r\n\r\n`,
      `${head}transfer-encoding: chunked\r\n\r\n${secret}\r\n`,
      `${head}transfer-encoding: chunked\r\n\r\n5\r\n${secret}\r\n`,
      `${head}content-length: 500\r\n\r\n${phrase}`,
      `${head}content-encoding: gzip\r\ncontent-length: ${secret.length}\r\n\r\n${secret}`,
    ];
    let wire = "";
    using upstream = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          socket.write(wire);
          socket.end();
        },
      },
    });
    const baseUrl = `http://127.0.0.1:${upstream.port}`;
    const told = await observe({ providers: { openai: { baseUrl } } }, async (troupe) => {
      for (wire of wires) {
        for (const stream of [false, true]) {
          const body = { model: "openai/x", messages, stream };
          await (await troupe.post("/gateway/v1/chat/completions", body)).text();
        }
      }
    });
    expect(told.lines.join("\n")).toContain("no chunk size");
    expectSilence(told);
  });

  test("by personas, whose models are asked in turn", async () => {
    using folder = new TempFolder();
    mkdirSync(join(folder.path, "test"));
    const file = `description: A test.\nmodel: [openai/x, anthropic/x, google/x]\nsystem: ${JSON.stringify(phrase)}\n`;
    writeFileSync(join(folder.path, "test/one.yaml"), file);
    let answer = answers[0]!;
    using upstream = new UpstreamServer(() => answer());
    const account = { baseUrl: upstream.url };
    const told = await observe(
      { providers: { openai: account, anthropic: account, google: account }, personas: folder.path },
      async (troupe) => {
        await callAll(troupe, "/v1/chat/completions", { model: "test/one" }, (next) => {
          answer = next;
        });
      },
    );
    expect(told.lines.join("\n")).toContain("trying the next one");
    expectSilence(told);
  });

  test("in requests that are wrong", async () => {
    const told = await observe({ providers: { google: { baseUrl: "http://127.0.0.1:9" } } }, async (troupe) => {
      const good = { model: "google/x", messages };
      const bodies: unknown[] = [
        `{"messages": ${secret}}`,
        phrase,
        { ...good, metadata: { [phrase]: 5 } },
        { ...good, tools: [{ type: phrase }] },
        { ...good, messages: [{ role: phrase, content: phrase }] },
        { ...good, messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: phrase } }] }] },
        { ...good, messages: [{ role: "tool", tool_call_id: phrase, content: phrase }] },
        { ...good, variables: { [phrase]: phrase } },
        { ...good, previous_response_id: phrase },
        { ...good, google: { thinking_budget: phrase } },
        { ...good, messages: [{ role: "user", content: [{ type: "file", file: { file_id: phrase } }] }] },
        good,
      ];
      for (const path of ["/v1", "/gateway/v1"]) {
        for (const body of bodies) await (await troupe.post(`${path}/chat/completions`, body)).text();
      }
    });
    expectSilence(told);
  });

  test("in a fault of our own", async () => {
    const told = await observe({}, async (troupe) => {
      const { services } = troupe.server;
      const broken = [
        () => JSON.parse(`{"a": ${secret}}`),
        () => (phrase as unknown as () => void)(),
        () => {
          throw new Error("wrapped", { cause: new TypeError(`'a' is "${phrase}"`) });
        },
      ];
      for (const fail of broken) {
        services.conversations.resume = fail as never;
        const body = { model: "builtin/echo", messages, previous_response_id: "x" };
        expect((await troupe.post("/gateway/v1/chat/completions", body)).status).toBe(500);
      }
    });
    expect(told.lines.filter((line) => line.includes("a request failed unexpectedly")).length).toBe(3);
    expect(told.lines.join("\n")).toContain("SyntaxError: JSON Parse error: Unexpected identifier");
    expectSilence(told);
  });
});

test("a request without a valid key leaves its address in the log, one with a key leaves the key's id", async () => {
  const { lines } = await observe({ config: { trustedProxies: ["127.0.0.1"] } }, async (troupe) => {
    const headers = { "x-forwarded-for": "192.0.2.9" };
    for (const key of [null, "trp_wrong", troupe.key])
      await (await troupe.fetch("/v1/models", { key, headers })).text();
  });
  const told = lines.map((line) => JSON.parse(line)).filter(({ route }) => route === "/v1/models");
  expect(told.map(({ status, client_address }) => [status, client_address])).toEqual([
    [401, "192.0.2.9"],
    [401, "192.0.2.9"],
    [200, undefined],
  ]);
  expect(told.map(({ key }) => typeof key)).toEqual(["undefined", "undefined", "string"]);
});

test("an operator who reads along sees what an upstream said", async () => {
  using upstream = new UpstreamServer(() => jsonResponse({ error }, 500));
  const log = { level: "info", format: "json", content: true, sample: 1, omit: [], redact: [] } as const;
  const { lines } = await observe({ providers: { openai: { baseUrl: upstream.url } }, config: { log } }, (troupe) =>
    troupe.post("/gateway/v1/chat/completions", { model: "openai/x", messages }).then(async (answer) => {
      await answer.text();
    }),
  );
  const line = JSON.parse(lines.find((one) => one.includes('"message":"request"'))!);
  expect(line).toMatchObject({ upstream_status: 500, upstream_message: phrase });
});
