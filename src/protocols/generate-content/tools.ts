/** Functions and the choice among them. */
import type { JsonObject } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { FunctionTool, ToolChoice } from "../chat/schema.ts";
import type { Translation } from "./conversation.ts";
import { toJsonSchema } from "./json-schema.ts";
import type { FunctionNames } from "./names.ts";
import type { Declaration, GenerateContentBody } from "./schema.ts";

export type Tools = {
  readonly fields: { tools?: FunctionTool[]; tool_choice?: ToolChoice };
  /** The place of each function in the caller's body. */
  readonly places: readonly string[];
};

/** What other formats call these tools. https://ai.google.dev/gemini-api/docs/tools */
const hostedTypes: Readonly<Record<string, string>> = {
  googlesearch: "web_search",
  googlesearchretrieval: "web_search",
  urlcontext: "url_context",
  codeexecution: "code_execution",
  filesearch: "file_search",
  googlemaps: "google_maps",
};

/** A choice without a function to choose is left out: most upstreams refuse it. */
export function toolsOf({ tools, toolConfig }: GenerateContentBody, { nativeOnly, names }: Translation): Tools {
  const functions: FunctionTool[] = [];
  const places: string[] = [];
  for (const [at, tool] of (tools ?? []).entries()) {
    const { functionDeclarations, ...hosted } = tool;
    for (const [index, declaration] of (functionDeclarations ?? []).entries()) {
      functions.push(functionTool(declaration, names));
      places.push(`tools[${at}].functionDeclarations[${index}]`);
    }
    for (const [name, value] of Object.entries(hosted)) {
      if (value == null) continue;
      const path = `tools[${at}].${truncate(name)}`;
      const type = ownMember(hostedTypes, name.replaceAll("_", "").toLowerCase()) ?? name;
      nativeOnly.tool(path, "the tool is known to Google alone.", { type, declared: tool as JsonObject, path });
    }
  }
  if (functions.length === 0) return { fields: {}, places };
  const choice = choiceOf(toolConfig?.functionCallingConfig ?? {}, names);
  return { fields: { tools: functions, ...(choice !== undefined && { tool_choice: choice }) }, places };
}

function functionTool({ name, description, parameters, parametersJsonSchema }: Declaration, names: FunctionNames) {
  const schema = parametersJsonSchema ?? (parameters == null ? undefined : toJsonSchema(parameters));
  const described = {
    name: names.inner(name),
    ...(description != null && { description }),
    parameters: withProperties((schema ?? { type: "object" }) as JsonObject),
  };
  return { type: "function", function: described } as FunctionTool;
}

/** Upstreams refuse an object without them. */
function withProperties(schema: JsonObject): JsonObject {
  return schema["type"] === "object" && schema["properties"] === undefined ? { ...schema, properties: {} } : schema;
}

type Calling = NonNullable<NonNullable<GenerateContentBody["toolConfig"]>["functionCallingConfig"]>;

/** Modes of calling functions, and what they are in the inner form. */
const modes: Readonly<Record<string, "auto" | "none" | "required">> = {
  AUTO: "auto",
  VALIDATED: "auto",
  NONE: "none",
  ANY: "required",
};
export const ownModes = inverted(modes);

function choiceOf({ mode, allowedFunctionNames }: Calling, names: FunctionNames): ToolChoice | undefined {
  const allowed = (allowedFunctionNames ?? []).map((name) => names.inner(name));
  const choice = ownMember(modes, mode ?? "");
  if (choice === undefined || choice === "none" || allowed.length === 0) return choice;
  if (choice === "required" && allowed.length === 1) return { type: "function", function: { name: allowed[0]! } };
  return allowedTools(choice, allowed);
}

function allowedTools(mode: "auto" | "required", names: readonly string[]): ToolChoice {
  const tools = names.map((name) => ({ type: "function", function: { name } }));
  return { type: "allowed_tools", allowed_tools: { mode, tools } };
}
