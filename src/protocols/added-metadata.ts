/** What this program adds to an answer's `metadata`, in chat completions and in formats with a field of that name. */
import type { Metadata } from "./chat/schema.ts";

/** The sections of a persona's files that its model was given, as JSON text. */
export const sourcesMember = "sources";
/** The calls of tools by MCP, as JSON text. */
export const callsMember = "mcp_calls";

/** @returns these members alone; undefined where there is none */
export function addedMetadata(metadata: Metadata | undefined): Metadata | undefined {
  if (metadata === undefined) return undefined;
  const added = Object.entries(metadata).filter(([name]) => name === sourcesMember || name === callsMember);
  return added.length === 0 ? undefined : Object.fromEntries(added);
}
