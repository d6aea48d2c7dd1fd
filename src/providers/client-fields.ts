/**
 * Fields that clients of other formats say and chat completions do not have: what becomes of each where a call goes up in OpenAI's
 * words, as chat completions or as Responses. Most upstreams refuse what they do not know, and these clients say it wherever they ask.
 */
import type { JsonObject } from "../lib/json/json.ts";

/** By the field: what an upstream says of itself that takes it. Null: none does. */
const fates = {
  // Anthropic's, and Gemini's in every call of some clients.
  top_k: "top_k",
  topK: null,
  // Marks what a cached prompt ends with; it stands on messages, parts, calls and tools too.
  cache_control: "cache_control",
  // Anthropic's results have it.
  is_error: null,
  // Values for a persona's text.
  variables: null,
} as const satisfies Record<string, string | null>;

/** Those of them that an upstream takes. */
type TakenFields = { readonly [name in "top_k" | "cache_control"]?: boolean | undefined };

/** @returns the names that such a body must not have */
export function refusedFields(taken: TakenFields): readonly string[] {
  const names = Object.keys(fates) as (keyof typeof fates)[];
  return names.filter((name) => fates[name] === null || taken[fates[name] as keyof TakenFields] !== true);
}

/** Takes them out of a body that is written anew, wherever they may stand. */
export function dropRefused(body: JsonObject, taken: TakenFields): void {
  const refused = refusedFields(taken);
  for (const name of refused) delete body[name];
  const strip = <T extends object>(value: T): T => {
    if (!refused.some((name) => Object.hasOwn(value, name))) return value;
    return Object.fromEntries(Object.entries(value).filter(([name]) => !refused.includes(name))) as T;
  };
  for (const list of ["messages", "tools"]) {
    if (!Array.isArray(body[list])) continue;
    body[list] = (body[list] as JsonObject[]).map((one) => {
      const { content, tool_calls } = one;
      return strip({
        ...one,
        ...(Array.isArray(content) && { content: content.map(strip) }),
        ...(Array.isArray(tool_calls) && { tool_calls: tool_calls.map(strip) }),
      });
    });
  }
}
