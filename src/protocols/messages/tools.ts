/** Tools and the choice among them. */
import type { JsonObject } from "../../lib/json/json.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { FunctionTool, ToolChoice } from "../chat/schema.ts";
import { fittingName } from "../long-names.ts";
import type { NativeOnly } from "../native-only.ts";
import { marker } from "./parts.ts";
import type { MessagesBody, MessagesTool } from "./schema.ts";

type ToolFields = { tools?: FunctionTool[]; tool_choice?: ToolChoice; parallel_tool_calls?: boolean };

/** A choice without a tool to choose is left out: most upstreams refuse it. */
export function toolFields({ tools, tool_choice, mcp_servers }: MessagesBody, nativeOnly: NativeOnly): ToolFields {
  if (mcp_servers != null && mcp_servers.length > 0) {
    nativeOnly.tool("mcp_servers", "servers that the provider calls itself are taken by Anthropic alone.");
  }
  const functions = (tools ?? []).flatMap((tool, at) => functionTool(tool, `tools[${at}]`, nativeOnly));
  if (functions.length === 0) return {};
  const parallel = tool_choice != null && "disable_parallel_tool_use" in tool_choice;
  return {
    tools: functions,
    ...(tool_choice != null && { tool_choice: choiceOf(tool_choice) }),
    ...(parallel && tool_choice["disable_parallel_tool_use"] === true && { parallel_tool_calls: false }),
  };
}

type CustomTool = Extract<MessagesTool, { input_schema: unknown }>;

function isCustom(tool: MessagesTool): tool is CustomTool {
  return tool.type == null || (tool.type as string) === "custom";
}

function functionTool(tool: MessagesTool, path: string, nativeOnly: NativeOnly): FunctionTool[] {
  if (!isCustom(tool)) {
    const message = `the tool '${truncate(tool.type)}' is known to Anthropic alone.`;
    nativeOnly.tool(`${path}.type`, message, { type: tool.type, declared: tool as JsonObject, path });
    return [];
  }
  const { name, description, input_schema, strict } = tool;
  const described = {
    name: fittingName(name),
    ...(description != null && { description }),
    parameters: input_schema as JsonObject,
    ...(strict === true && { strict }),
  };
  return [{ type: "function", function: described, ...marker(tool) }];
}

function choiceOf(choice: NonNullable<MessagesBody["tool_choice"]>): ToolChoice {
  switch (choice.type) {
    case "any":
      return "required";
    case "tool":
      return { type: "function", function: { name: fittingName(choice.name) } };
    default:
      return choice.type;
  }
}
