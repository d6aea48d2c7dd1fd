/** Pages of the stored-completions routes. */
import { truncate } from "../lib/text/truncate.ts";
import { ApiError } from "../protocols/errors.ts";

/** Pages of the stored-completions routes: pass `last_id` as `after`. */
export type ListOf<T> = {
  readonly object: "list";
  readonly data: readonly T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
};

export type Paging = {
  readonly after?: string | undefined;
  /** 1 to 100; default 20. */
  readonly limit?: number | undefined;
  readonly order?: "asc" | "desc" | undefined;
};

const defaultLimit = 20;

const maxLimit = 100;

/** @param found one more than the page holds, if there are more */
export function conversationPageOf<T extends { readonly id: string }>(found: readonly T[], limit: number): ListOf<T> {
  const data = found.slice(0, limit);
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: "list", data, first_id, last_id, has_more: found.length > limit };
}

/** @param all the items in ascending order */
export function pageAfter<T extends { readonly id: string }>(
  all: T[],
  { order, after: cursor }: Paging,
  limit: number,
) {
  const ordered = order === "desc" ? all.reverse() : all;
  const after = cursor === undefined ? -1 : ordered.findIndex(({ id }) => id === cursor);
  if (cursor !== undefined && after < 0) throw unknownCursor(cursor);
  return conversationPageOf(ordered.slice(after + 1, after + 2 + limit), limit);
}

export function checkLimit(limit = defaultLimit): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= maxLimit) return limit;
  throw ApiError.invalidValue("limit", `limit must be a whole number from 1 to ${maxLimit}.`);
}

export const unknownCursor = (after: string) =>
  ApiError.notFound(`There is no item '${truncate(after)}' to go on after.`, "after");
