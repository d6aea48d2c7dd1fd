/**
 * Calls that were cut within their arguments: some upstreams say of them that they are whole (OpenRouter, of nine recorded answers
 * nine), and a client would run half of one.
 */
import { parseJson } from "../../lib/json/json.ts";
import type { FinishReason } from "./schema.ts";

/** @returns what came of a function's arguments; empty for any other call */
export function writtenIn(call: object): string {
  const { function: called } = call as { readonly function?: { readonly arguments?: string } };
  return called?.arguments ?? "";
}

/** @param written the arguments of each call @returns `length` where some are no JSON, and the upstream says that all is well */
export function endOfCalls(reason: FinishReason, written: readonly string[]): FinishReason {
  if (reason !== "tool_calls" && reason !== "stop") return reason;
  return written.some((text) => text.trim() !== "" && parseJson(text) === undefined) ? "length" : reason;
}
