/**
 * The wanted form of the answer: `output_config.format` where the model has it, else a tool that must be called and whose
 * input is the answer, else an instruction.
 * Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
 */

import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import { type JsonObject, objectOf } from "../../lib/json/json.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { toolName } from "../../protocols/chat/tools.ts";
import { closedSchema } from "./schema.ts";

export type OutputPlan =
  | { readonly kind: "text" }
  | { readonly kind: "format"; readonly schema: JsonObject }
  | { readonly kind: "tool"; readonly name: string; readonly description: string; readonly schema: JsonObject }
  | { readonly kind: "instruction"; readonly text: string };

const instruction = "Answer with one valid JSON object and nothing else: no text around it, no code fence.";

export function planOutput(request: ChatRequest, rules: AnthropicRules): OutputPlan {
  const format = request.response_format;
  if (format === undefined || format.type === "text") return { kind: "text" };
  const schema = format.type === "json_schema" ? objectOf(format.json_schema.schema) : undefined;
  if (format.type === "json_object" || schema === undefined) return { kind: "instruction", text: instruction };
  if (rules.structured_output) {
    const closed = closedSchema(schema);
    if (closed !== undefined) return { kind: "format", schema: closed };
  } else if (schema["type"] === "object" && rules.forced_tools) {
    const { name, description } = format.json_schema;
    return {
      kind: "tool",
      name: freeToolName(name, request),
      description: description ?? "Give the answer by calling this.",
      schema,
    };
  }
  const text = `Answer with one valid JSON value that follows this JSON schema, and nothing else: no text around it, no code fence.\n${JSON.stringify(schema)}`;
  return { kind: "instruction", text };
}

function freeToolName(wanted: string, { tools = [] }: ChatRequest): string {
  const taken = new Set(tools.map(toolName));
  let name = wanted.replace(/[^a-zA-Z0-9_-]/g, "_");
  while (taken.has(name)) name = `${name.slice(0, 57)}_answer`;
  return name;
}
