/**
 * Tools and the choice among them.
 * Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools
 */
import type { Tool, ToolChoice } from "@anthropic-ai/sdk/resources/messages";
import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import type { ChatRequest, Tool as PublicTool } from "../../protocols/chat/schema.ts";
import { customAsFunction, toolName } from "../../protocols/chat/tools.ts";
import { refuseType } from "../tool-types.ts";
import type { OutputPlan } from "./output.ts";
import { cacheMarker } from "./parts.ts";
import { closedSchema } from "./schema.ts";

type ToolPlan = { tools: Tool[]; choice: ToolChoice | undefined };

export function planTools(request: ChatRequest, rules: AnthropicRules, output: OutputPlan): ToolPlan {
  const own = allowedTools(request).map((placed) => encodeTool(placed, rules));
  const chosen = encodeChoice(request, rules);
  const choice = own.length === 0 ? undefined : chosen;
  if (output.kind !== "tool" || choice?.type === "tool") return { tools: own, choice };
  const { name, description, schema } = output;
  const tools = [...own, { name, description, input_schema: schema as Tool["input_schema"] }];
  const mayCallOthers = own.length > 0 && choice?.type !== "none";
  return {
    tools,
    choice: mayCallOthers ? { type: "any", disable_parallel_tool_use: true } : { type: "tool", name },
  };
}

/** @param name of the tool; absent: any of them */
export const demandInWords = (name: string | undefined): string =>
  `Answer by calling ${name === undefined ? "one of the tools" : `the tool ${name}`}, and in no other way.`;

/** @returns the demand for a call of a model that can't be made to call; undefined where it can, or nothing is demanded */
export function demandOf(request: ChatRequest, rules: AnthropicRules): string | undefined {
  const { tool_choice, tools = [] } = request;
  if (rules.forced_tools || tools.length === 0) return undefined;
  const named = namedChoice(tool_choice);
  const isDemanded = named !== undefined || wantedMode(tool_choice) === "required";
  return isDemanded ? demandInWords(named) : undefined;
}

/** True when the model is bound to call a tool. */
export function demandsCall({ choice }: ToolPlan): boolean {
  return choice?.type === "any" || choice?.type === "tool";
}

/** Names of tools with free-text input: their calls go back in that form. */
export function customToolNames({ tools = [] }: ChatRequest): ReadonlySet<string> {
  return new Set(tools.flatMap((tool) => (tool.type === "custom" ? [tool.custom.name] : [])));
}

type Placed = { readonly tool: PublicTool; readonly path: string };

function allowedTools({ tools = [], tool_choice }: ChatRequest): readonly Placed[] {
  const placed = tools.map((tool, at) => ({ tool, path: `tools[${at}]` }));
  if (typeof tool_choice !== "object" || tool_choice.type !== "allowed_tools") return placed;
  const allowed = new Set(tool_choice.allowed_tools.tools.map(toolName));
  return placed.filter(({ tool }) => allowed.has(toolName(tool)));
}

/** @throws ApiError unsupported_parameter for a type that is neither a function nor custom */
function encodeTool({ tool, path }: Placed, rules: AnthropicRules): Tool {
  if (tool.type === "custom") {
    const { parameters, ...named } = customAsFunction(tool.custom);
    return { ...named, input_schema: parameters, ...cacheMarker(tool) };
  }
  if (tool.type !== "function") return refuseType(tool.type, path);
  const { name, description, parameters, strict } = tool.function;
  const closed = strict === true && rules.structured_output ? closedSchema(inputSchema(parameters)) : undefined;
  return {
    name,
    ...(description != null && { description }),
    input_schema: (closed ?? inputSchema(parameters)) as Tool["input_schema"],
    ...(closed !== undefined && { strict: true }),
    ...cacheMarker(tool.function),
    ...cacheMarker(tool),
  };
}

function inputSchema(parameters: JsonObject | null | undefined): JsonObject {
  if (parameters == null) return { type: "object", properties: {} };
  return parameters["type"] === undefined ? { type: "object", ...parameters } : parameters;
}

function encodeChoice(request: ChatRequest, rules: AnthropicRules): ToolChoice | undefined {
  const { tool_choice, parallel_tool_calls } = request;
  const oneCall = parallel_tool_calls === false ? { disable_parallel_tool_use: true } : {};
  const named = namedChoice(tool_choice);
  const wanted = wantedMode(tool_choice);
  if (wanted === "none") return { type: "none" };
  if (rules.forced_tools && named !== undefined) return { type: "tool", name: named, ...oneCall };
  if (rules.forced_tools && wanted === "required") return { type: "any", ...oneCall };
  return wanted === undefined && parallel_tool_calls !== false ? undefined : { type: "auto", ...oneCall };
}

const wantedMode = (choice: ChatRequest["tool_choice"]) =>
  typeof choice === "object" && choice.type === "allowed_tools" ? choice.allowed_tools.mode : choice;

function namedChoice(choice: ChatRequest["tool_choice"]): string | undefined {
  if (typeof choice !== "object") return undefined;
  switch (choice.type) {
    case "function":
      return choice.function.name;
    case "custom":
      return choice.custom.name;
    case "allowed_tools":
      return undefined;
    default:
      return refuseType(choice.type, "tool_choice");
  }
}
