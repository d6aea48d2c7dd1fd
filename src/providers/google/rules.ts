/**
 * The fields that each Gemini and Gemma model takes and refuses, as data. The first row that fits a model and names a key wins, so the
 * most special models stand first; models that came after this table are treated as the newest known ones.
 */
import { type Static, Type } from "@sinclair/typebox";
import { type ModelRule, rulesFor } from "../../facts/rules.ts";
import { KeyedRecord, keyOfLength } from "../../lib/keyed-record.ts";
import { Closed, Words } from "../../lib/schemas.ts";
import { modelIn } from "../../protocols/generate-content/address.ts";
import type { Call } from "../provider.ts";

export const GoogleRules = Closed({
  thinks: Type.Boolean({ description: "The model takes a thinkingConfig." }),
  efforts: KeyedRecord(keyOfLength(64), Type.Union([Type.Integer(), Type.String()]), {
    description:
      "What each reasoning_effort becomes: a thinkingBudget (number) or a thinkingLevel (text); a name in capitals is a thinking_level's alone.",
  }),
  schemas: Words(["json", "openapi"], {
    description: "Schemas go as JSON Schema, or rewritten into the OpenAPI subset of older models.",
  }),
  json_with_tools: Type.Boolean({
    description: "JSON may be asked for beside functions; else the system text asks for it.",
  }),
  penalties: Type.Boolean({ description: "presence_penalty and frequency_penalty are sent." }),
  system_instruction: Type.Boolean({
    description: "There is a systemInstruction; else it opens the first user turn.",
  }),
  prefill: Type.Boolean({ description: "The last message may be the model's; else the user asks it to continue." }),
  signatures: Words(["none", "calls", "parts"], {
    description: "What must carry a thought signature: nothing, the first call of a step, or every part.",
  }),
  call_ids: Type.Boolean({ description: "Calls and their results carry ids." }),
  media_results: Type.Boolean({ description: "A function's response may hold images and files itself." }),
});
export type GoogleRules = Static<typeof GoogleRules>;

type Efforts = GoogleRules["efforts"];

const levels = (none: string, low: string, medium: string): Efforts => ({
  none,
  minimal: none,
  low,
  medium,
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
});
const fromMinimal = levels("MINIMAL", "LOW", "MEDIUM");
const fromLow = levels("LOW", "LOW", "MEDIUM");
const lowOrHigh = levels("LOW", "LOW", "HIGH");
const minimalOrHigh = levels("MINIMAL", "MINIMAL", "HIGH");

/** The steps between are those of https://ai.google.dev/gemini-api/docs/openai#thinking */
const budgets = (none: number, max: number): Efforts => ({
  none,
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: max,
  max,
});

/** The 2.5 generation: a budget of tokens, optional signatures, results matched to calls by their order. */
const second = {
  efforts: budgets(0, 24_576),
  // https://github.com/vercel/ai/issues/8943: "Penalty is not enabled for models/gemini-2.5-flash"
  json_with_tools: false,
  penalties: false,
  prefill: true,
  signatures: "none",
  call_ids: false,
  media_results: false,
} as const;

/** Before thinking and JSON Schema. */
const first = { ...second, thinks: false, schemas: "openapi", penalties: true } as const;

/**
 * Sources: levels and budgets https://ai.google.dev/gemini-api/docs/generate-content/thinking#thinking-levels,
 * signatures https://ai.google.dev/gemini-api/docs/thought-signatures,
 * ids https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.6 (from 3.5 on a result must echo its call's id),
 * media in results https://ai.google.dev/gemini-api/docs/function-calling#multimodal.
 */
export const modelRules: readonly (Partial<GoogleRules> & ModelRule)[] = [
  // @google/genai 3.3 has the level; models before are documented up to HIGH. It is sent where it is asked for in Google's own words.
  { match: "gemini-*", since: "4", efforts: { ...fromLow, XHIGH: "XHIGH" } },
  // https://ai.google.dev/gemini-api/docs/image-generation#thought-signatures: "Image part is missing a thought_signature"
  { match: "gemini-3-pro-image*", efforts: {}, signatures: "parts" },
  { match: "gemini-3*-image*", efforts: minimalOrHigh, signatures: "parts" },
  { match: "gemini-3-pro*", efforts: lowOrHigh },
  { match: "gemini-3*-flash-lite*", efforts: fromMinimal },
  ...["gemini-3-flash*", "gemini-3.1-flash*", "gemini-3.5-flash*", "gemini-3.6-flash*"].map((match) => ({
    match,
    efforts: fromMinimal,
  })),
  ...["gemini-2.5*-image*", "gemini-2.5*-tts*"].map((match) => ({ match, ...second, thinks: false })),
  { match: "gemini-2.5-pro*", ...second, efforts: budgets(128, 32_768) },
  { match: "gemini-2.5*", ...second },
  // https://ai.google.dev/gemini-api/docs/robotics-overview: made of Gemini 2.5
  { match: "gemini-robotics-er-1.5*", ...second },
  ...["gemini-2.0*", "gemini-1*", "learnlm*"].map((match) => ({ match, ...first })),
  // https://github.com/livekit/agents/pull/7080: minimal or high, and no budget
  {
    match: "gemma-*",
    since: "4",
    ...second,
    thinks: true,
    efforts: minimalOrHigh,
    system_instruction: true,
  },
  // https://github.com/0xPlaygrounds/rig/issues/788: "Developer instruction is not enabled for models/gemma-3-27b-it"
  { match: "gemma-*", ...second, thinks: false, system_instruction: false },
  // https://ai.google.dev/gemini-api/docs/latest-model: 3.7 and 3.8 Flash and 3.1 Pro refuse MINIMAL
  // https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.6: refused from 3.5 Flash-Lite on
  { match: "gemini-3.5-flash-lite*", prefill: false },
  ...["gemini-3-*", "gemini-3.1-*", "gemini-3.5-*"].map((match) => ({ match, prefill: true })),
  {
    match: "*",
    prefill: false,
    thinks: true,
    efforts: fromLow,
    schemas: "json",
    // https://ai.google.dev/gemini-api/docs/structured-output#structured_outputs_with_tools
    json_with_tools: true,
    // https://github.com/google-gemini/cookbook/issues/1290: "Penalty is not enabled for this model"
    penalties: false,
    system_instruction: true,
    signatures: "calls",
    call_ids: true,
    media_results: true,
  },
];

/** The model's name without the resource prefix that the upstream's own listings put before it. */
export function modelName({ model }: Call): string {
  return modelIn(model);
}

/** @param rows of the upstream's models */
export function googleRules(call: Call, rows = modelRules): GoogleRules {
  return rulesFor<Partial<GoogleRules>>(modelName(call), call.account.modelRules, rows) as GoogleRules;
}
