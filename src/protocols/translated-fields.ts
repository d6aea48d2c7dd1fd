/** Request fields that several client formats say otherwise than chat completions, in the inner form. */
import type { JsonObject } from "../lib/json/json.ts";
import type { ResponseFormat } from "./chat/schema.ts";
import { isStrictSchema } from "./strict-schema.ts";

/** The budget from which on an effort is meant, the highest first. */
const thresholds = [
  [4096, "high"],
  [2048, "medium"],
  [1024, "low"],
  [1, "minimal"],
] as const;

/** @returns undefined where the model is to choose */
export function effortOf(budget: number): string | undefined {
  return budget === 0 ? "none" : thresholds.find(([least]) => budget >= least)?.[1];
}

/** The schema by which all of an answer is made; its name is asked for elsewhere. */
export function answerFormat(schema: JsonObject): ResponseFormat {
  const json_schema = { name: "answer", schema, ...(isStrictSchema(schema) && { strict: true }) };
  return { type: "json_schema", json_schema };
}

/** Values for a persona's variables, this server's own field. */
export function variablesIn({ variables }: JsonObject): { variables?: unknown } {
  return variables == null ? {} : { variables };
}
