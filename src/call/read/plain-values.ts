/** Checks of what callers write that no schema sees: queries, names and metadata. */
import { isPlainText, keepable } from "../../lib/text/plain-text.ts";
import type { Metadata } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { RequestContext } from "../context.ts";

/** @throws ApiError invalid_value */
export function checkPlain(param: string, text: string): void {
  if (!isPlainText(text)) throw ApiError.invalidValue(param, `${param} must not hold control characters.`);
}

/** Lines and tabs may stand in its values. @throws ApiError invalid_value */
export function checkMetadata(metadata: Metadata): void {
  for (const [name, value] of Object.entries(metadata)) {
    if (!isPlainText(name))
      throw ApiError.invalidValue("metadata", "Names in metadata must not hold control characters.");
    const isKept = typeof value !== "string" || isPlainText(value.replace(/[\t\n\r]/g, ""));
    if (!isKept)
      throw ApiError.invalidValue(`metadata.${keepable(name)}`, "Metadata must not hold control characters.");
  }
}

/** The request's query, in which each name stands once. @throws ApiError invalid_value */
export function plainQuery({ query }: Pick<RequestContext, "query">): URLSearchParams {
  const names = new Set<string>();
  for (const [name, value] of query) {
    if (!isPlainText(name)) throw ApiError.invalidValue("", "The query's names must not hold control characters.");
    checkPlain(name, value);
    if (names.has(name)) throw ApiError.invalidValue(name, `${name} stands twice in the query.`);
    names.add(name);
  }
  return query;
}
