/**
 * The lifetimes of prompt-cache marks: "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block", in the order of
 * tools, system text and turns.
 * Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching#mixing-different-ttls
 */
import { isObject, type JsonObject, listOf } from "../../lib/json/json.ts";

/** A body's own mark stands behind all of its blocks. */
type MarkedBody = { readonly messages?: unknown; readonly cache_control?: unknown };

const markOf = (block: unknown): JsonObject | undefined => {
  const mark = isObject(block) ? block["cache_control"] : undefined;
  return isObject(mark) ? mark : undefined;
};

const lastsAnHour = (mark: JsonObject): boolean => mark["ttl"] === "1h";

/** All marks of these blocks, and of what they hold. */
const marksIn = (blocks: readonly unknown[]): JsonObject[] =>
  blocks.flatMap((block) => {
    const mark = markOf(block);
    const within = isObject(block) && Array.isArray(block["content"]) ? marksIn(block["content"]) : [];
    return mark === undefined ? within : [mark, ...within];
  });

/** The marks of a body's turns, and its own. */
function laterMarks({ messages, cache_control }: MarkedBody): JsonObject[] {
  return [...marksIn(listOf(messages)), ...(isObject(cache_control) ? [cache_control] : [])];
}

/**
 * The mark of a persona, or of an option, which yields to the caller's beside it.
 * @param before the blocks that stand before it @param behind those between it and the turns of the body
 */
export function yieldingMark<M extends object>(
  mark: M,
  before: readonly unknown[],
  behind: readonly unknown[],
  body: MarkedBody,
): M {
  if (marksIn(before).some((one) => !lastsAnHour(one))) {
    const { ttl: _, ...usual } = mark as M & { ttl?: unknown };
    return usual as M;
  }
  return [...marksIn(behind), ...laterMarks(body)].some(lastsAnHour) ? { ...mark, ttl: "1h" } : mark;
}
