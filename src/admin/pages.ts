/** Parts of the admin API's lists and their descriptions. */
import { Type } from "@sinclair/typebox";
import { documented } from "../http/checked-routes.ts";
import { type DescribedOperation, keyed } from "../http/openapi/describe.ts";
import { ApiError } from "../protocols/errors.ts";

/** Schemas and description of one of the admin API's routes. */
export const adminOperation = <const O extends Omit<DescribedOperation, "tag">>(operation: O) =>
  documented({ ...operation, tag: "Admin", errors: [...keyed, ...(operation.errors ?? [])] } as unknown as O & {
    readonly tag: string;
  });

export const text = (description?: string) =>
  Type.Optional(Type.String(description === undefined ? {} : { description }));

export const pageParameters = (maxLimit: number, defaultLimit: number) => ({
  after: text("The last_id of the page before."),
  limit: Type.Integer({ minimum: 1, maximum: maxLimit, default: defaultLimit }),
});

/** @param items with one more than the page where there are more */
export function page<T>(items: readonly T[], limit: number, idOf: (item: T) => string) {
  const data = items.slice(0, limit);
  const last = data.at(-1);
  return {
    object: "list" as const,
    data,
    has_more: items.length > limit,
    last_id: last === undefined ? null : idOf(last),
  };
}

/** A page of a list that is in memory as a whole. @throws ApiError not_found where `after` names nothing in it */
export function pageOf<T extends { readonly id: string }>(all: readonly T[], after: string | undefined, limit: number) {
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) throw ApiError.notFound("There is nothing of that id in this list.", "after");
  return page(all.slice(from, from + limit + 1), limit, ({ id }) => id);
}

/** @returns Unix milliseconds; undefined where the text is no time: RFC 3339, a date in UTC, or Unix seconds */
export function timeFrom(text: string): number | undefined {
  if (/^\d{9,11}$/.test(text)) return Number(text) * 1000;
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.test(text)) return undefined;
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
