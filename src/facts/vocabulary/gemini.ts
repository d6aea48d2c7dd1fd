/** The facts of a Gemini or Gemma model: what it takes and refuses. */
import { type Static, Type } from "@sinclair/typebox";
import { KeyedRecord, keyOfLength } from "../../lib/json/keyed-record.ts";
import { Closed, Words } from "../../lib/json/schemas.ts";

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
