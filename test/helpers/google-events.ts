/** Google's streams as events: texts, and all sorts of what else stands in them. */
import fc from "fast-check";
import { GoogleStreamDecoder } from "../../src/providers/google/answer.ts";
import type { AnsweredCall } from "../../src/providers/provider.ts";

const call = {
  request: { messages: [], stream: true },
  model: "gemini-2.5-flash",
  extras: {},
  account: {},
  answerId: "a",
} as unknown as AnsweredCall;
export const googleDecoder = () => new GoogleStreamDecoder(call);
const anyText = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.constantFrom("", '"', "\\", "\n", '"}],"role":"x', "é", "\u{1f600}", "12", "usageMetadata", '{"text":"a"}'),
);
type Json = Record<string, unknown>;
const others = [
  ...["thought", "signed", "two parts", "two candidates", "rated", "call", "grounded", "uncounted", "cached"],
  ...["fraction", "totals first", "escaped", "spaced", "commented"],
];
const piece = fc.oneof(
  { weight: 40, arbitrary: fc.tuple(fc.constant("text"), anyText) },
  fc.tuple(fc.constantFrom(...others), anyText),
);

/** Running totals, as they are after so many fragments. */
const totals = (count: number): Json => ({
  promptTokenCount: 7,
  candidatesTokenCount: count,
  totalTokenCount: 7 + count,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: 7 }],
});

function answerOf(kind: string, text: string, count: number): Json {
  const candidate = (parts: Json[], more: Json = {}, index = 0) => ({
    content: { parts, role: "model" },
    index,
    ...more,
  });
  const whole = (candidates: Json[], usageMetadata: Json | undefined = totals(count)) => ({
    candidates,
    usageMetadata,
    modelVersion: "gemini-2.5-flash",
    responseId: "r",
  });
  switch (kind) {
    case "thought":
      return whole([candidate([{ text, thought: true }])]);
    case "signed":
      return whole([candidate([{ text, thoughtSignature: "c2ln" }])]);
    case "two parts":
      return whole([candidate([{ text }, { text: "b" }])]);
    case "two candidates":
      return whole([candidate([{ text }]), candidate([{ text: "b" }], {}, 1)]);
    case "rated":
      return whole([candidate([{ text }], { safetyRatings: [{ category: "A", probability: text }] })]);
    case "call":
      return whole([candidate([{ functionCall: { name: "f", args: { text } } }])]);
    case "grounded":
      return whole([candidate([{ text }], { groundingMetadata: { webSearchQueries: [text] } })]);
    case "uncounted":
      return { candidates: [candidate([{ text }])], modelVersion: "gemini-2.5-flash", responseId: "r" };
    case "cached":
      return whole([candidate([{ text }])], { ...totals(count), cachedContentTokenCount: count % 3 });
    case "fraction":
      return whole([candidate([{ text }])], { ...totals(count), averageTokens: count / 4 });
    case "totals first":
      return { usageMetadata: totals(count), candidates: [candidate([{ text }])] };
    default:
      return whole([candidate([{ text }])]);
  }
}

export function eventOf(kind: string, text: string, count: number, lines: string): string {
  const json = JSON.stringify(answerOf(kind, text, count));
  // As Google writes some letters.
  if (kind === "escaped") return `data: ${json.replaceAll("<", "\\u003c").replaceAll("1", "\\u0031")}${lines}${lines}`;
  if (kind === "spaced") return `data:  ${json} ${lines}${lines}`;
  return `${kind === "commented" ? `: x${lines}` : ""}data: ${json}${lines}${lines}`;
}

const pieces = fc.array(piece, { minLength: 1, maxLength: 40 });
/** How a stream ends: `cut` is for whoever gives its bytes. */
const ends = fc.constantFrom("none", "none", "uncounted end", "no end", "cut", "error", "broken");

/** A stream's events, in their line ends, and how it ends. */
export const googleStream = fc.tuple(pieces, fc.constantFrom("\r\n", "\r\n", "\n"), ends).map(([given, lines, how]) => {
  const events = given.map(([kind, text], at) => eventOf(kind, text, at * 5, lines));
  const tell = (data: string) => events.push(`data: ${data}${lines}${lines}`);
  if (how === "error") tell('{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}');
  if (how === "broken") tell('{"candidates":[{');
  const end = { candidates: [{ content: { parts: [{ text: "." }], role: "model" }, finishReason: "STOP", index: 0 }] };
  if (how === "none") tell(JSON.stringify({ ...end, usageMetadata: totals(999) }));
  if (how === "uncounted end") tell(JSON.stringify(end));
  return { events, how };
});
