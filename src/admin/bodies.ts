/** Bodies and queries of the admin API. */
import type { Static, TSchema } from "@sinclair/typebox";
import type { RequestContext } from "../http/context.ts";
import { plainQuery } from "../http/plain-values.ts";
import { readJson } from "../http/request-body.ts";
import type { Services } from "../http/services.ts";
import { checked } from "../protocols/checked.ts";
import { ApiError } from "../protocols/errors.ts";

/** @throws ApiError invalid_json, missing_field or invalid_value with the field's path, and those of any body */
export async function readBody<S extends TSchema>(
  services: Services,
  context: RequestContext,
  schema: S,
): Promise<Static<S>> {
  const { parsed } = await readJson(context, services.live.config.limits);
  return checked(schema, parsed);
}

/** The same for a route that takes a request without a body too, which says what `{}` does. @throws ApiError */
export async function readOptionalBody<S extends TSchema>(
  services: Services,
  context: RequestContext,
  schema: S,
): Promise<Static<S>> {
  const { headers } = context.request;
  const isEmpty = (headers.get("content-length") ?? "0") === "0" && !headers.has("transfer-encoding");
  return isEmpty ? checked(schema, {}) : await readBody(services, context, schema);
}

/** The query's parameters. Ones that the route's description does not name never come here. */
export class Query {
  readonly #query: URLSearchParams;

  constructor({ query }: RequestContext) {
    this.#query = plainQuery({ query });
  }

  text(name: string): string | undefined {
    return this.#query.get(name) ?? undefined;
  }

  /** @throws ApiError invalid_value */
  oneOf<T extends string>(name: string, values: readonly T[]): T | undefined {
    const value = this.text(name);
    if (value === undefined || values.includes(value as T)) return value as T | undefined;
    throw ApiError.invalidValue(name, `${name} must be one of ${values.join(", ")}.`);
  }

  /** @throws ApiError invalid_value */
  limit(byDefault: number, max: number): number {
    const text = this.text("limit");
    if (text === undefined) return byDefault;
    const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
    if (limit >= 1 && limit <= max) return limit;
    throw ApiError.invalidValue("limit", `limit must be a whole number from 1 to ${max}.`);
  }

  /** Unix milliseconds, from an RFC 3339 time, a date in UTC, or Unix seconds. @throws ApiError invalid_value */
  time(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const time = timeFrom(text);
    if (time !== undefined) return time;
    throw ApiError.invalidValue(name, `${name} must be a time such as 2026-11-22T10:00:00Z, a date, or Unix seconds.`);
  }
}

/** @returns undefined where the text is no time */
export function timeFrom(text: string): number | undefined {
  if (/^\d{9,11}$/.test(text)) return Number(text) * 1000;
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.test(text)) return undefined;
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
