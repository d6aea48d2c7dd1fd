/**
 * Places prompt-cache markers.
 * Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
 */
import type { CacheControlEphemeral, TextBlockParam, Tool } from "@anthropic-ai/sdk/resources/messages";
import { yieldingMark } from "../../protocols/messages/cache-marks.ts";
import type { Turn } from "./messages.ts";

type Marked = { cache_control?: CacheControlEphemeral | null };
type CacheableBody = {
  tools?: Tool[];
  system?: TextBlockParam[];
  messages: Turn[];
  cache_control?: CacheControlEphemeral;
};

const maxMarkers = 4;

/**
 * Marks the end of what stays the same from call to call: the last system block (which stands behind the tools), else the
 * last tool, else whatever the upstream finds last cacheable.
 */
export function markSystem(body: CacheableBody, marker: CacheControlEphemeral): CacheableBody {
  const { system, tools = [] } = body;
  if (system !== undefined) {
    return { ...body, system: markLast(system, yieldingMark(marker, [...tools, ...system.slice(0, -1)], [], body)) };
  }
  if (body.tools !== undefined) {
    return { ...body, tools: markLast(tools, yieldingMark(marker, tools.slice(0, -1), [], body)) };
  }
  return { ...body, cache_control: body.cache_control ?? yieldingMark(marker, body.messages, [], {}) };
}

function markLast<T extends Marked>(blocks: readonly T[], marker: CacheControlEphemeral): T[] {
  return blocks.map((block, at) => (at === blocks.length - 1 ? { cache_control: marker, ...block } : block));
}

/**
 * A fifth marker is refused. The one after the system text and the latest ones are the most useful: the earliest others go.
 */
export function dropExcessMarkers(body: CacheableBody): CacheableBody {
  const marked: Marked[] = [];
  const look = (blocks: readonly Marked[] = []) => {
    for (const block of blocks) if (block.cache_control != null) marked.push(block);
  };
  look(body.tools);
  look(body.system);
  for (const turn of body.messages) look(turn.content as Marked[]);
  const excess = marked.length + (body.cache_control === undefined ? 0 : 1) - maxMarkers;
  if (excess <= 0) return body;
  const kept = body.system?.at(-1) ?? body.tools?.at(-1);
  const dropped = new Set(marked.filter((block) => block !== kept).slice(0, excess));
  const strip = <T extends object>(block: T): T => {
    if (!dropped.has(block)) return block;
    const { cache_control: _, ...rest } = block as T & Marked;
    return rest as T;
  };
  return {
    ...body,
    ...(body.tools !== undefined && { tools: body.tools.map(strip) }),
    ...(body.system !== undefined && { system: body.system.map(strip) }),
    messages: body.messages.map((turn) => ({ ...turn, content: turn.content.map(strip) })),
  };
}
