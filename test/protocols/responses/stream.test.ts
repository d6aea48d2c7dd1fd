/** Whatever an answer is made of: its stream, as the official client adds it up, is the object that ends it, and the plain one. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
import { SseParser } from "../../../src/lib/streams/sse.ts";
import { StreamFold } from "../../../src/protocols/chat/fold.ts";
import type { ChunkBody, CompletionBody, Delta, FinishReason } from "../../../src/protocols/chat/schema.ts";
import { responses } from "../../../src/protocols/responses/responses.ts";
import { Normaliser, normaliseCompletion } from "../../../src/upstream/stream/normaliser.ts";
import { runs } from "../../helpers/long-form.ts";

const envelope = { id: "resp_0123abc", created: 1_700_000_000, model: "some/model" };
const tools = [
  { type: "function", name: "add", parameters: null, strict: null, description: null },
  { type: "custom", name: "patch" },
  { type: "namespace", name: "files", description: "", tools: [{ type: "function", name: "read" }] },
];
const options = { tools };
const form = { thinkingRequested: false, choices: 1 };
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };

const chunkOf = (delta: Delta, finish_reason: FinishReason | null = null): ChunkBody => ({
  choices: [{ index: 0, delta, finish_reason }],
});

function encoded(chunks: readonly ChunkBody[]): ResponseStreamEvent[] {
  const normaliser = new Normaliser(form);
  const encoder = responses.encoder(envelope, options);
  const texts: string[] = [];
  for (const chunk of chunks) for (const one of normaliser.push(chunk)) encoder.push(one, texts);
  encoder.push(normaliser.end(), texts);
  encoder.end(texts);
  return new SseParser().push(Buffer.from(texts.join(""))).map(({ event, data }) => {
    const parsed = JSON.parse(data) as ResponseStreamEvent;
    expect(parsed.type as string).toBe(event);
    return parsed;
  });
}

function accumulated(events: readonly ResponseStreamEvent[]): Response {
  let snapshot: Response | undefined;
  for (const event of events) snapshot = accumulateResponse(event, snapshot);
  return snapshot!;
}

/** The snapshot before the last event, which replaces it. */
const streamedOutput = (events: readonly ResponseStreamEvent[]) => accumulated(events.slice(0, -1)).output;
const lastResponse = (events: readonly ResponseStreamEvent[]) => (events.at(-1) as { response: Response }).response;

function folded(chunks: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(chunks);
  return normaliseCompletion(fold.result(), form);
}

const text = fc.string({ minLength: 1, maxLength: 8 });
const pieces = fc.array(text, { minLength: 1, maxLength: 4 });
const written = fc.constantFrom('{"input":"a\\nb"}', '{"a":1}', "{}", '{"a":{"b":[1,2]}}');
const call = (index: number, id = `call_${index}`) =>
  fc
    .tuple(fc.constantFrom("add", "patch", "files__read", "unknown"), written, fc.nat(6))
    .map(
      ([name, json, cut]) =>
        [
          { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] },
          { tool_calls: [{ index, function: { arguments: json.slice(0, cut) } }] },
          { tool_calls: [{ index, function: { arguments: json.slice(cut) } }] },
        ] as Delta[],
    );
const reason = fc.constantFrom<FinishReason>("stop", "tool_calls", "length", "content_filter");

/** Reasoning, text, refusal, calls: the order of most answers, which a plain one has too. */
const usual = fc
  .record({
    thoughts: fc.option(pieces),
    said: fc.option(pieces),
    refused: fc.option(pieces),
    calls: fc.nat(3).chain((count) => fc.tuple(...Array.from({ length: count }, (_, index) => call(index)))),
    end: reason,
  })
  .map(({ thoughts, said, refused, calls, end }) => [
    ...(thoughts ?? []).map((reasoning_content) => chunkOf({ reasoning_content })),
    ...(said ?? []).map((content) => chunkOf({ content })),
    ...(refused ?? []).map((refusal) => chunkOf({ refusal })),
    ...calls.flat().map((delta) => chunkOf(delta)),
    { ...chunkOf({}, end), usage },
  ]);

test("a stream adds up to its last event's object, which is the plain answer's", () => {
  fc.assert(
    fc.property(usual, (chunks) => {
      const events = encoded(chunks);
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
      const plain = JSON.parse(JSON.stringify(responses.completion(folded(chunks), envelope, options))) as Response;
      expect(streamedOutput(events)).toEqual(plain.output);
      expect(lastResponse(events)).toEqual(plain);
    }),
    { numRuns: runs(300) },
  );
});

/** Texts, thoughts and pieces of several calls in any order, each call's own in its order. */
const mixed = fc
  .tuple(
    fc.array(
      fc.oneof(
        text.map((content) => ({ content })),
        text.map((reasoning_content) => ({ reasoning_content })),
      ),
    ),
    call(0),
    call(1),
    call(2),
  )
  .chain((queues) => fc.array(fc.nat(3), { minLength: 30, maxLength: 30 }).map((picks) => interleaved(queues, picks)));

function interleaved(queues: readonly (readonly Delta[])[], picks: readonly number[]): Delta[] {
  const rest = queues.map((queue) => [...queue]);
  const taken = picks.flatMap((pick) => rest[pick]!.splice(0, 1));
  return [...taken, ...rest.flat()];
}

test("pieces in any order become items one after another, and nothing of them is lost", () => {
  fc.assert(
    fc.property(mixed, (deltas) => {
      const chunks = [...deltas.map((delta) => chunkOf(delta)), { ...chunkOf({}, "stop" as const), usage }];
      const events = encoded(chunks);
      let open: number | undefined;
      for (const event of events) {
        if (event.type === "response.output_item.added") {
          expect(open).toBeUndefined();
          open = event.output_index;
        } else if ("output_index" in event) {
          expect(event.output_index as number | undefined).toBe(open);
          if (event.type === "response.output_item.done") open = undefined;
        }
      }
      expect(streamedOutput(events)).toEqual(lastResponse(events).output);
      const plain = responses.completion(folded(chunks), envelope, options) as Response;
      expect(said(lastResponse(events))).toEqual(said(plain));
    }),
    { numRuns: runs(300) },
  );
});

/** What an answer says, wherever its items begin and end. */
function said({ output }: Response) {
  return {
    text: output
      .flatMap((item) => (item.type === "message" ? item.content.map((part) => ("text" in part ? part.text : "")) : []))
      .join(""),
    thoughts: output
      .flatMap((item) => (item.type === "reasoning" ? item.summary.map((part) => part.text) : []))
      .join(""),
    calls: output
      .flatMap((item) =>
        item.type === "function_call"
          ? [{ id: item.call_id, name: item.name, namespace: item.namespace, said: item.arguments }]
          : item.type === "custom_tool_call"
            ? [{ id: item.call_id, name: item.name, namespace: undefined, said: item.input }]
            : [],
      )
      .sort((a, b) => a.id.localeCompare(b.id)),
  };
}
