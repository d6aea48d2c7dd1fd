/** The answer of a call, as assertions see it. */
import type { ToolCall } from "../../protocols/chat/schema.ts";

/** A call of a tool by MCP that was made while the persona answered. */
export type McpCall = {
  readonly server: string;
  readonly tool: string;
  /** As the model wrote them, so far as the answer shows them. */
  readonly arguments: string;
  readonly isError: boolean;
};

export type TestAnswer = {
  /** The version of the persona that answered. */
  readonly version?: string;
  readonly content: string | null;
  readonly refusal?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** Absent: none was called. `omitted`: the number of calls that the answer does not show. */
  readonly mcp?: { readonly calls: readonly McpCall[]; readonly omitted: number };
  readonly finishReason?: string;
  readonly usage?: { readonly prompt: number; readonly completion: number };
  /** In dollars; absent: unknown. */
  readonly cost?: number;
  readonly latencyMs: number;
};

/**
 * What assertions judge, as promptfoo gives it for chat completions: the text; the calls of tools where there is no text; both as the
 * message. Source: https://github.com/promptfoo/promptfoo, src/providers/openai/chat.ts
 */
export function outputOf({ content, refusal, toolCalls = [] }: TestAnswer): unknown {
  if (refusal !== undefined) return refusal;
  if (toolCalls.length === 0) return content ?? "";
  return content === null || content === "" ? toolCalls : { role: "assistant", content, tool_calls: toolCalls };
}

export const textOfOutput = (output: unknown): string => (typeof output === "string" ? output : JSON.stringify(output));
