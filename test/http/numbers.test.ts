/**
 * Numbers in what functions are called with, and return, and in schemas: on every way, whole and streamed, they arrive as they were
 * written, though JavaScript would write many of them otherwise.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { familyNames, models, persona, Stage } from "../clients/stage.ts";
import { type Asked, bodyFor, type FormatName, formatNames, pathOf } from "../helpers/client-formats.ts";
import { runs } from "../helpers/long-form.ts";
import { type Lossless, LosslessNumber, parseLossless } from "../helpers/lossless-json.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage[Symbol.asyncDispose]());

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
const askedWith = (args: object, result: object, bound: string): Asked => ({
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
    { kind: "user", parts: [{ kind: "text", text: "hi" }] },
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
  test.each(formatNames)(
    "asked and answered by %s",
    async (format: FormatName) => {
      stage.troupe.setTargets(persona, [models.google]);
      stage.native = nativeOf[format];
      await fc.assert(
        fc.asyncProperty(
          spelled,
          spelled,
          spelled,
          beyond,
          fc.boolean(),
          async (sent, found, said, bound, isStream) => {
            const id = `toolu_${Bun.hash(said).toString(36)}`;
            stage.script = () => ({
              calls: [{ id, name: "look", args: { said: raw(said), deep: [{ said: raw(said) }] } }],
            });
            const asked = askedWith({ sent: raw(sent), deep: { sent: raw(sent) } }, { found: raw(found) }, bound);
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
    },
    60_000,
  );
});
