/** What the admin API's lists and their descriptions have in common. */
import { type TSchema, Type } from "@sinclair/typebox";
import { ApiError } from "../protocols/errors.ts";

/** Errors of every route that needs a key, and of those that take a body. */
export const keyed = [401, 429, 503];
export const writing = [400, 408, 413, 415];

export const pathId = { name: "id", in: "path", required: true, schema: { type: "string" } };

/** Parameters of a list's query. @param texts those that take any text; others have what they take */
export const listParameters = (
  texts: readonly string[],
  maxLimit: number,
  defaultLimit: number,
  choices: Readonly<Record<string, readonly string[]>> = {},
): Record<string, unknown>[] =>
  [
    ...texts.map((name) => ({ name, schema: { type: "string" } })),
    ...Object.entries(choices).map(([name, values]) => ({ name, schema: { type: "string", enum: values } })),
    { name: "after", description: "The last_id of the page before.", schema: { type: "string" } },
    { name: "limit", schema: { type: "integer", minimum: 1, maximum: maxLimit, default: defaultLimit } },
  ].map((one) => ({ ...one, in: "query" }));

export const pageSchema = <S extends TSchema>(item: S) =>
  Type.Object({
    object: Type.Literal("list"),
    data: Type.Array(item),
    has_more: Type.Boolean(),
    last_id: Type.Union([Type.String(), Type.Null()], { description: "Where the next page begins: after=<last_id>." }),
  });

/** @param items with one more than the page where there are more */
export function page<T>(items: readonly T[], limit: number, idOf: (item: T) => string) {
  const data = items.slice(0, limit);
  const last = data.at(-1);
  return { object: "list", data, has_more: items.length > limit, last_id: last === undefined ? null : idOf(last) };
}

/** A page of a list that is in memory as a whole. @throws ApiError not_found where `after` names nothing in it */
export function pageOf<T extends { readonly id: string }>(all: readonly T[], after: string | undefined, limit: number) {
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) throw ApiError.notFound("There is nothing of that id in this list.", "after");
  return page(all.slice(from, from + limit + 1), limit, ({ id }) => id);
}
