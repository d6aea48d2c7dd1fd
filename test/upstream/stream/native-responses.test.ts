/** Responses streams as they pass: what goes out, what is counted and what is found wrong is the same in any pieces. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { native } from "../../../src/protocols/responses/native.ts";
import type { StreamDecoder } from "../../../src/providers/provider.ts";
import { openaiResponses } from "../../../src/providers/responses/quirks.ts";
import { ResponsesStream } from "../../../src/providers/responses/stream.ts";
import { runs } from "../../helpers/long-form.ts";
import { cutIn, passedThrough } from "../../helpers/passed-stream.ts";

const decoder = () => new ResponsesStream(openaiResponses, (kind, choice, count) => `${kind}_${choice}_${count}`);

const passed = (parts: readonly Buffer[], reader: StreamDecoder, isCut: boolean) =>
  passedThrough(parts, reader, isCut, native.encoder({ id: "resp_ours", created: 1, model: "ours" }, {}));

const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
type Fields = Record<string, unknown>;

const anyText = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.constantFrom("", '"', "\\", "\n", '","delta":"x', "é", "\u{1f600}", "12", "sequence_number"),
);
/** What a stream is made of beside its beginning and its end, and how it is written. */
const piece = fc.oneof(
  { weight: 40, arbitrary: fc.tuple(fc.constant("text"), anyText, fc.constantFrom("", "ab", "abcdef")) },
  fc.tuple(fc.constant("refused" as const), anyText, fc.constant("")),
  fc.tuple(fc.constant("logged" as const), anyText, fc.constant("")),
  fc.tuple(fc.constant("other" as const), anyText, fc.constant("")),
  fc.tuple(fc.constant("spaced" as const), anyText, fc.constant("")),
  fc.tuple(fc.constant("counted wrong" as const), anyText, fc.constant("")),
  fc.tuple(fc.constant("numbered behind" as const), anyText, fc.constant("")),
);
const harm = fc.constantFrom(
  "none",
  "none",
  "untold",
  "untold, lost event",
  "lost event",
  "other end",
  "other whole",
  "cut",
  "error",
  "ended",
);

const written = (value: Fields, spaces = "") => `event: ${value["type"]}\ndata: ${JSON.stringify(value)}${spaces}\n\n`;

/** @returns the events, of which one may be harmed */
function eventsOf(pieces: readonly (readonly [string, string, string])[], how: string, firstNumber: number): string[] {
  let number = firstNumber;
  let [text, refusal] = ["", ""];
  const events: string[] = [];
  const tell = (type: string, fields: Fields, spaces?: string) => {
    events.push(written({ type, sequence_number: number, ...fields }, spaces));
    number += 1;
  };
  const response = (status: string, output: unknown[]) => ({ id: "resp_up", object: "response", status, output });
  const item = (content: unknown[]) => ({ id: "msg_1", type: "message", role: "assistant", content });
  tell("response.created", { response: response("in_progress", []) });
  tell("response.output_item.added", { output_index: 0, item: item([]) });
  tell("response.content_part.added", { ...place, part: { type: "output_text", text: "" } });
  for (const [kind, delta, obfuscation] of pieces) {
    const type = "response.output_text.delta";
    const plain = { ...place, delta, logprobs: [], obfuscation };
    if (kind === "refused") {
      tell("response.refusal.delta", { ...place, content_index: 1, delta });
      refusal += delta;
      continue;
    }
    if (kind === "other") {
      tell("response.web_search_call.searching", { output_index: 1, item_id: "ws_1", delta });
      continue;
    }
    text += delta;
    if (kind === "logged") tell(type, { ...plain, logprobs: [{ token: delta, logprob: -1, top_logprobs: [] }] });
    else if (kind === "spaced") tell(type, { ...place, delta }, "  ");
    else if (kind === "numbered behind") {
      events.push(written({ type, ...place, delta, sequence_number: number }));
      number += 1;
    } else if (kind === "counted wrong") {
      number += delta.length % 3;
      tell(type, plain);
    } else tell(type, plain);
  }
  if (how.endsWith("lost event")) events.splice(3 + (text.length % (events.length - 2)), 1);
  const parts = [
    { type: "output_text", text, annotations: [] },
    ...(refusal === "" ? [] : [{ type: "refusal", refusal }]),
  ];
  tell("response.output_text.done", { ...place, text: how === "other whole" ? `${text}x` : text });
  if (how === "error") tell("error", { code: "server_error", message: "busy" });
  tell("response.output_item.done", { output_index: 0, item: item(parts) });
  const usage = { input_tokens: 3, output_tokens: text.length, total_tokens: 3 + text.length };
  const other = item([{ type: "output_text", text: `x${text}`, annotations: [] }]);
  // Without an output the numbers alone tell that events are missing.
  const ended = how.startsWith("untold") ? [] : [how === "other end" ? other : item(parts)];
  tell("response.completed", { response: { ...response("completed", ended), usage } });
  return how === "ended" ? events.slice(0, 3 + (text.length % pieces.length)) : events;
}

test("with any fault: in any pieces bytes, counts and errors are what they are in one", () => {
  fc.assert(
    fc.property(
      fc.array(piece, { minLength: 1, maxLength: 30 }),
      harm,
      fc.constantFrom(0, 7, 95),
      fc.option(fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 30 }), { nil: undefined }),
      (pieces, how, firstNumber, cuts) => {
        const events = eventsOf(pieces, how, firstNumber);
        let bytes = Buffer.from(events.join(""));
        if (how === "cut") bytes = bytes.subarray(0, Math.floor(bytes.length * 0.7));
        const parts = cutIn(bytes, cuts ?? events.map((event) => Buffer.byteLength(event)));
        const isCut = how === "cut";
        expect(passed(parts, decoder(), isCut)).toEqual(passed([bytes], decoder(), isCut));
      },
    ),
    { numRuns: runs(1500) },
  );
});

test("a stream that ends within its fragments goes on from the number of the last one that passed", () => {
  const texts = Array.from({ length: 20 }, (_, at) => ["text", `${at};`, "ab"] as const);
  const events = eventsOf(texts, "none", 0).slice(0, 15);
  const { text, how, length } = passed(
    events.map((event) => Buffer.from(event)),
    decoder(),
    false,
  );
  expect([how, length]).toEqual(["faulted", "0;1;2;3;4;5;6;7;8;9;10;11;".length]);
  expect(text).toStartWith(events.join(""));
  const rest = text.slice(events.join("").length);
  expect([...rest.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => number)).toEqual(["15", "16"]);
});
