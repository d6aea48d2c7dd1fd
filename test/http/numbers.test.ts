/**
 * Numbers in what functions are called with, and return, and in schemas: on every way, whole and streamed, in small bodies and in large
 * ones, they arrive as they were written, though JavaScript would write many of them otherwise. So do integers beyond 2^53 in members that
 * nobody here knows.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { familyNames, models, persona, Stage } from "../clients/stage.ts";
import { type Asked, bodyFor, type FormatName, formatNames, pathOf } from "../helpers/client-formats.ts";
import { runs } from "../helpers/long-form.ts";
import { type Lossless, LosslessNumber, parseLossless } from "../helpers/lossless-json.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const stage = untilEnd(await Stage.start());

/** A number as it is written, which `JSON.stringify` keeps. */
const raw = (text: string) => (JSON as unknown as { rawJSON(text: string): number }).rawJSON(text);

const spelled = fc.oneof(
  fc.constantFrom(
    "1234567890123456789",
    "-9007199254740993",
    "1.0",
    "0.10",
    "1E3",
    "-0",
    "1e400",
    "0.1000000000000000055",
  ),
  fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }).map(String),
  fc.tuple(fc.nat(), fc.nat(), fc.nat({ max: 3 })).map(([a, b, zeros]) => `${a}.${b}${"0".repeat(zeros)}`),
);
/** The family whose upstream takes what the client of a format sends, as it came. */
const nativeOf = {
  chat: undefined,
  messages: "anthropic",
  responses: "responses",
  "generate-content": "google",
} as const;

/** Of a schema, whose numbers are compared by their value: those that a double does not hold. */
const beyond = fc.bigInt({ min: 10n ** 18n, max: 10n ** 30n }).map(String);

/** All numbers in a text of JSON, and in texts of JSON within it, by the names of their members. */
function numbersIn(text: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  const note = (value: Lossless, name: string) => {
    if (value instanceof LosslessNumber) found.set(name, (found.get(name) ?? new Set()).add(value.text));
    else if (typeof value === "string") {
      if (!/^\s*\{/.test(value)) return;
      try {
        note(parseLossless(value), name);
      } catch {}
    } else if (Array.isArray(value)) for (const one of value) note(one, name);
    else if (typeof value === "object" && value !== null)
      for (const [key, one] of Object.entries(value)) note(one as Lossless, key);
  };
  note(parseLossless(text), "");
  return found;
}

/** A stream's data as one list, with the pieces of arguments joined. */
function joined(text: string): string {
  const data = text.split("\n").flatMap((line) => (line.startsWith("data: {") ? [line.slice("data: ".length)] : []));
  const pieces = data.map((one) => {
    const { choices, delta, type } = JSON.parse(one);
    const piece = choices?.[0]?.delta?.tool_calls?.[0]?.function?.arguments ?? delta?.partial_json;
    return piece ?? (type === "response.function_call_arguments.delta" ? delta : "");
  });
  return `[${[...data, JSON.stringify(pieces.join(""))].join(",")}]`;
}

const nothing = { system: "", choice: "auto", oneAtATime: false, schema: undefined, temperature: undefined, stop: [] };
/** So many short texts, none of which is left out of what is parsed. */
const askedWith = (args: object, result: object, bound: string, texts: number): Asked => ({
  ...nothing,
  maxTokens: 99,
  tools: [
    {
      name: "look",
      description: "Looks.",
      parameters: { type: "object", properties: { id: { type: "integer", maximum: raw(bound) } } },
    },
  ],
  turns: [
    { kind: "user", parts: Array.from({ length: texts }, () => ({ kind: "text", text: "one of many short texts" })) },
    {
      kind: "assistant",
      text: "",
      calls: [
        {
          id: "toolu_1",
          name: "look",
          args,
          result: { parts: [{ kind: "text", text: JSON.stringify(result) }], isError: false },
        },
      ],
    },
    { kind: "user", parts: [{ kind: "text", text: "on" }] },
  ],
});

const targets = [
  ...familyNames.map((family) => ["gateway", models[family]] as const),
  ["orchestrator", persona] as const,
];

describe.each(targets)("%s: %s", (surface, model) => {
  test.each(formatNames)("asked and answered by %s", async (format: FormatName) => {
    stage.troupe.setTargets(persona, [models.google]);
    stage.native = nativeOf[format];
    await fc.assert(
      fc.asyncProperty(
        spelled,
        spelled,
        spelled,
        beyond,
        fc.boolean(),
        fc.constantFrom(1, 1, 9_000),
        async (sent, found, said, bound, isStream, texts) => {
          const id = `toolu_${Bun.hash(said).toString(36)}`;
          stage.script = () => ({
            calls: [{ id, name: "look", args: { said: raw(said), deep: [{ said: raw(said) }] } }],
          });
          const asked = askedWith({ sent: raw(sent), deep: { sent: raw(sent) } }, { found: raw(found) }, bound, texts);
          const path = pathOf(surface, format, model);
          const isGemini = format === "generate-content";
          const streamed = isGemini ? path.replace(":generateContent", ":streamGenerateContent?alt=sse") : path;
          const body = { ...bodyFor(format, asked, model), ...(isStream && !isGemini && { stream: true }) };
          const response = await stage.troupe.post(isStream ? streamed : path, body);
          const text = await response.text();
          expect([response.status, response.status === 200 ? "" : text]).toEqual([200, ""]);
          const up = numbersIn(stage.last.text);
          expect(["sent", "found", "maximum"].map((name) => [...(up.get(name) ?? [])])).toEqual([
            [sent],
            [found],
            [bound],
          ]);
          expect([...(numbersIn(isStream ? joined(text) : text).get("said") ?? [])]).toEqual([said]);
        },
      ),
      { numRuns: runs(12) },
    );
  });
});

describe("integers in members that nobody here knows", () => {
  /** By the two last digits. */
  const long = (at: number) => raw(`12345678901234567${at}`);
  const placesIn = (text: string) =>
    [...new Set([...text.matchAll(/12345678901234567(\d\d)\b/g)].map(([, at]) => Number(at)))].sort();
  const messages = [{ role: "user", content: "hi" }];
  const contents = [{ role: "user", parts: [{ text: "hi" }] }];
  const chatBody = { model: models.chat, messages, seed: long(11), own: long(12), deep: { list: [long(13)] } };
  const many = { padding: Array.from({ length: 9_000 }, (_, at) => ({ at, text: "one of many" })) };

  test.each([
    ["small", {}],
    ["large", many],
  ])("of a %s request, as far as they are sent on", async (_, more) => {
    const sentBy = async (format: FormatName, model: string, family: (typeof familyNames)[number], body: object) => {
      stage.native = family;
      expect((await stage.troupe.post(pathOf("gateway", format, model), { ...body, ...more })).status).toBe(200);
      return placesIn(stage.last.text);
    };
    expect(await sentBy("chat", models.chat, "chat", { ...chatBody, extra_body: { said: long(14) } })).toEqual([
      11, 12, 13, 14,
    ]);
    const generationConfig = { seed: long(21), own: long(22) };
    expect(await sentBy("generate-content", models.google, "google", { contents, generationConfig })).toEqual([21, 22]);
    expect(await sentBy("generate-content", models.chat, "chat", { contents, generationConfig })).toEqual([21]);
    const google = { generation_config: { own: long(31) } };
    expect(await sentBy("chat", models.google, "google", { model: models.google, messages, google })).toEqual([31]);
    const said = { model: models.chat, input: "hi", store: false, extra_body: { own: long(41) } };
    expect(await sentBy("responses", models.chat, "chat", said)).toEqual([41]);
  });

  test.each([
    ["responses", { model: models.chat, input: "hi", store: false, max_output_tokens: raw("9223372036854775807") }],
    ["generate-content", { contents, generationConfig: { maxOutputTokens: raw("9223372036854775807") } }],
    ["messages", { model: models.chat, messages, max_tokens: raw("9223372036854775807") }],
  ] as const)("the most that there is, as typed clients say no limit: %s", async (format, body) => {
    stage.native = "chat";
    await stage.troupe.post(pathOf("gateway", format, models.chat), body);
    expect(stage.last.text).toContain(":9223372036854775807");
  });

  test.each([["whole"], ["streamed"]])("of an answer, %s", async (way) => {
    const isStream = way === "streamed";
    const message = { role: "assistant", content: "hi", own: long(51), deep: { list: [long(52)] } };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, own: long(53) };
    const rest = { id: "x", created: 1, model: "m", timings: { own: long(54) }, usage };
    const choice = { index: 0, own: long(55), [isStream ? "delta" : "message"]: message, finish_reason: "stop" };
    const answer = JSON.stringify({ ...rest, choices: [choice] });
    using upstream = new UpstreamServer(() =>
      isStream ? sseResponse([`data: ${answer}\n\n`, "data: [DONE]\n\n"]) : new Response(answer, { headers: jsonType }),
    );
    await using troupe = await Troupe.start({ providers: { groq: { baseUrl: upstream.url } } });
    const more = isStream ? { stream: true, stream_options: { include_usage: true } } : {};
    const got = await troupe.post("/gateway/v1/chat/completions", { model: "groq/m", messages, ...more });
    expect(placesIn(await got.text())).toEqual([51, 52, 53, 54, 55]);
  });
});

const jsonType = { "content-type": "application/json" };
