/**
 * Ranges of sampling in formats whose requests may go as they came: then its own upstream judges them, and ours hold where a
 * request is translated.
 */
import type { JsonObject } from "../lib/json/json.ts";
import { ApiError } from "./errors.ts";
import type { NativeOnly } from "./native-only.ts";

/** The least and the most of fields; the most may be absent. */
export type Ranges = Readonly<Record<string, readonly [min: number, max?: number]>>;

/** -1 says that it is not set: https://github.com/langchain-ai/langchainjs/blob/main/libs/providers/langchain-anthropic/src/chat_models.ts */
const unset = -1;
const maybeUnset: ReadonlySet<string> = new Set(["top_p", "top_k", "topP", "topK"]);

/**
 * @param body checked to hold numbers there
 * @param place what stands before the names of fields in the caller's body
 * @returns the body without what is not set, or not within its range, which is noted; itself where there is none
 */
export function withinRanges<B extends object>(body: B, ranges: Ranges, nativeOnly: NativeOnly, place = ""): B {
  let next = body;
  for (const [name, [min, max = Number.POSITIVE_INFINITY]] of Object.entries(ranges)) {
    const value = (body as JsonObject)[name];
    if (typeof value !== "number" || (value >= min && value <= max)) continue;
    if (next === body) next = { ...body };
    delete (next as JsonObject)[name];
    if (value === unset && maybeUnset.has(name)) continue;
    const path = `${place}${name}`;
    const range = max === Number.POSITIVE_INFINITY ? `of at least ${min}` : `from ${min} to ${max}`;
    nativeOnly.refuse(ApiError.invalidValue(path, `${path} must be a number ${range}.`));
  }
  return next;
}
