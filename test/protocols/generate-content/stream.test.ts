/** Whatever pieces an answer comes in, the stream's answers put together are the plain one. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type JsonObject, listOf, objectOf } from "../../../src/lib/json/json.ts";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChunkBody, Delta, FinishReason } from "../../../src/protocols/chat/schema.ts";
import type { Shown } from "../../../src/protocols/generate-content/candidate.ts";
import { generateContentBody } from "../../../src/protocols/generate-content/response.ts";
import {
  eventFraming,
  type Framing,
  GenerateContentEncoder,
  ListFraming,
} from "../../../src/protocols/generate-content/stream.ts";
import { Normaliser, normaliseCompletion } from "../../../src/upstream/stream/normaliser.ts";
import { runs } from "../../helpers/long-form.ts";

const envelope = { id: "gen_1", created: 1, model: "a/b" };
const form = { thinkingRequested: false, choices: 1 };
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };

const text = fc.string({ minLength: 1, maxLength: 6 });
const args = fc.oneof(
  fc
    .dictionary(fc.string({ maxLength: 3 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 })
    .map((one) => JSON.stringify(one)),
  fc.constantFrom("", "[1]", '{"half":', "no JSON"),
);
const call = (index: number) =>
  fc.tuple(args, fc.integer({ min: 0, max: 9 })).map(([whole, cut]): Delta[] => {
    const opening = { index, id: `call_${index}`, type: "function" as const };
    return [
      { tool_calls: [{ ...opening, function: { name: `f${index}`, arguments: whole.slice(0, cut) } }] },
      { tool_calls: [{ index, function: { arguments: whole.slice(cut) } }] },
    ];
  });
const state: fc.Arbitrary<Delta> = fc.constantFrom(
  {},
  { thinking_blocks: [{ type: "thinking" as const, thinking: "Hm.", signature: "s" }] },
  { extra_content: { google: { thought_signature: "own" } } },
  { extra_content: { openai: { reasoning: [{ id: "rs_1", encrypted_content: "e" }] } } },
);
const answers = fc.record({
  thoughts: fc.array(
    text.map((one): Delta => ({ reasoning_content: one })),
    { maxLength: 2 },
  ),
  texts: fc.array(
    text.map((one): Delta => ({ content: one })),
    { maxLength: 3 },
  ),
  calls: fc.oneof(
    fc.constant([]),
    call(0),
    fc.tuple(call(0), call(1)).map((both) => both.flat()),
  ),
  last: state,
  finish: fc.constantFrom<FinishReason>("stop", "tool_calls", "length", "content_filter"),
});
type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never;

function chunksOf({ thoughts, texts, calls, last, finish }: Answer): ChunkBody[] {
  const deltas = [...thoughts, ...texts, ...calls, last];
  return [
    ...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
    { choices: [{ index: 0, delta: {}, finish_reason: finish }], usage },
  ];
}

function streamOf(chunks: readonly ChunkBody[], shown: Shown, framing: Framing): string {
  const normaliser = new Normaliser(form);
  const encoder = new GenerateContentEncoder(envelope, shown, framing);
  const events: string[] = [];
  for (const chunk of chunks) for (const one of normaliser.push(chunk)) encoder.push(one, events);
  encoder.push(normaliser.end(), events);
  encoder.end(events);
  return events.join("");
}

const answersIn = (events: string): JsonObject[] =>
  events
    .split("\n\n")
    .slice(0, -1)
    .map((event) => JSON.parse(event.slice("data: ".length)));

/** As the official client's chats do: texts one behind another, all other parts as they come. */
function together(answers: readonly JsonObject[]): JsonObject {
  const parts: JsonObject[] = [];
  let rest: JsonObject = {};
  for (const answer of answers) {
    const [candidate] = listOf(answer["candidates"]).map((one) => objectOf(one)!);
    for (const part of listOf(objectOf(candidate?.["content"])?.["parts"]) as JsonObject[]) {
      expect(Object.keys(part).length).toBeGreaterThan(0);
      const last = parts.at(-1);
      const joins =
        part["text"] !== undefined && last?.["text"] !== undefined && last["thoughtSignature"] === undefined;
      if (
        joins &&
        (part["text"] === ""
          ? part["thought"] === undefined && last["thought"] === undefined
          : part["thought"] === last["thought"])
      ) {
        parts[parts.length - 1] = { ...last, ...part, text: `${last["text"]}${part["text"]}` };
      } else parts.push(part);
    }
    const { content: _, ...ending } = candidate ?? {};
    rest = { ...rest, ...answer, ...(candidate && { candidates: [{ content: { parts, role: "model" }, ...ending }] }) };
  }
  return rest;
}

/** Without an empty part that says nothing, which a stream may end with. */
function trimmed(answer: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(answer), (key, value) =>
    key === "parts" && value.length > 1
      ? value.filter((part: JsonObject) => part["text"] !== "" || part["thoughtSignature"] !== undefined)
      : value,
  );
}

test.each([true, false])("a stream's answers are the plain one (thoughts: %p)", (thoughts) => {
  const shown: Shown = { thoughts, names: new Map([["f1", "f.1"]]) };
  fc.assert(
    fc.property(answers, (given) => {
      const chunks = chunksOf(given);
      const fold = new StreamFold();
      fold.push(chunks);
      const plain = generateContentBody(normaliseCompletion(fold.result(), form), envelope, shown) as JsonObject;
      const events = answersIn(streamOf(chunks, shown, eventFraming));
      expect(trimmed(together(events))).toEqual(trimmed(plain));
      expect(JSON.parse(streamOf(chunks, shown, new ListFraming()))).toEqual(events);
      for (const { candidates, promptFeedback } of [plain, ...events]) {
        if (promptFeedback !== undefined) continue;
        const [{ content }] = candidates as [{ content: { parts: object[] } }];
        expect(content.parts.length).toBeGreaterThan(0);
      }
    }),
    { numRuns: runs(300) },
  );
});
