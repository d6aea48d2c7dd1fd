/**
 * Checks a request's query against its route's description: a parameter that is not described is refused, so that a filter with a typing
 * error does not choose everything. Values are checked where the route is our own; those of other formats' routes judge theirs.
 */
import { ApiError } from "../protocols/errors.ts";
import { generateContent } from "../protocols/generate-content/generate-content.ts";
import type { QueryCheck, RequestContext } from "./context.ts";
import type { Route } from "./routes.ts";

type Described = {
  readonly name: string;
  readonly in: string;
  readonly style?: string;
  readonly schema?: {
    readonly type?: string;
    readonly enum?: readonly string[];
    readonly minimum?: number;
    readonly maximum?: number;
  };
};

/** Of any method of Google's APIs. Source: https://cloud.google.com/apis/docs/system-parameters */
const googleParameters = [
  "$alt",
  "$prettyPrint",
  "$.xgafv",
  "access_token",
  "callback",
  "fields",
  "key",
  "oauth_token",
].concat(["alt", "prettyPrint", "quotaUser", "uploadType", "upload_protocol"]);
/** Pages in Gemini's format, in both spellings that Google takes. Source: https://ai.google.dev/api/models#method:-models.list */
const googlePages = ["pageSize", "pageToken", "page_size", "page_token"];
/**
 * Models are listed here in Gemini's format too, for its clients. Codex names itself where it asks for them.
 * Source: https://github.com/openai/codex (codex-rs/codex-api, models endpoint)
 */
const elsewhere: Readonly<Record<string, readonly string[]>> = { "/v1/models": ["client_version", ...googlePages] };

/** @returns undefined where the description has no query parameters */
export function queryCheckOf(route: Route): QueryCheck | undefined {
  const operations = [route.detail, ...Object.values(route.endings ?? {})];
  const described = operations
    .flatMap((detail) => (detail["parameters"] ?? []) as readonly Described[])
    .filter((parameter) => parameter.in === "query");
  if (described.length === 0) return undefined;
  const isGoogle = route.protocol === generateContent || route.path.startsWith("/v1beta/");
  const more = [...(isGoogle ? [...googleParameters, ...googlePages] : []), ...(elsewhere[route.path] ?? [])];
  const find = (name: string) => described.find((one) => isNamed(one, name));
  return (query) => {
    for (const [name, value] of query) {
      const parameter = find(name);
      if (parameter === undefined && !more.includes(name)) {
        const known = new Set(described.map((one) => (one.style === "deepObject" ? `${one.name}[…]` : one.name)));
        throw ApiError.invalidValue(name, `There is no parameter ${name}; known: ${[...known].join(", ")}.`);
      }
      if (parameter !== undefined && route.protocol === undefined) checkValue(parameter, value);
    }
  };
}

/** Lists and objects have a bracket behind their name. */
function isNamed({ name, style, schema }: Described, given: string): boolean {
  if (style === "deepObject") return given.startsWith(`${name}[`) && given.endsWith("]");
  return given === name || (schema?.type === "array" && given.startsWith(`${name}[`));
}

function checkValue({ name, schema = {} }: Described, value: string): void {
  const { type, minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema;
  if (schema.enum !== undefined && !schema.enum.includes(value))
    throw ApiError.invalidValue(name, `${name} must be one of ${schema.enum.join(", ")}.`);
  if (type !== "integer") return;
  const number = /^\d{1,16}$/.test(value) ? Number(value) : -1;
  if (number < minimum || number > maximum)
    throw ApiError.invalidValue(name, `${name} must be a whole number from ${minimum} to ${maximum}.`);
}

/** Once it is known who asks. @throws ApiError invalid_value */
export function checkQuery(context: RequestContext): void {
  if (context.queryCheck !== undefined && context.request.url.includes("?")) context.queryCheck(context.query);
}
