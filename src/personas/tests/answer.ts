/** The answer of a call, as assertions see it. */
import type { ToolCall } from "../../protocols/chat/schema.ts";

export type Answer = {
  /** The version of the persona that answered. */
  readonly version?: string;
  readonly content: string | null;
  readonly refusal?: string;
  readonly toolCalls?: readonly ToolCall[];
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
export function outputOf({ content, refusal, toolCalls = [] }: Answer): unknown {
  if (refusal !== undefined) return refusal;
  if (toolCalls.length === 0) return content ?? "";
  return content === null || content === "" ? toolCalls : { role: "assistant", content, tool_calls: toolCalls };
}

export const textOfOutput = (output: unknown): string => (typeof output === "string" ? output : JSON.stringify(output));
