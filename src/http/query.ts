/**
 * Checks the query of a route that no schema checks, as a client's format judges its own values: a parameter that is not described is
 * refused, so that one with a typing error does not choose everything.
 */
import { ApiError } from "../protocols/errors.ts";
import { generateContent } from "../protocols/generate-content/generate-content.ts";
import type { QueryCheck, RequestContext } from "./context.ts";
import type { Route } from "./routes.ts";

type Described = { readonly name: string; readonly in: string };

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

/** Checks nothing where the description has no query parameters. */
export function queryCheckOf(route: Route): QueryCheck {
  let parameters: ReturnType<typeof parametersOf> | undefined;
  return (query) => {
    parameters ??= parametersOf(route);
    const { described, all } = parameters;
    if (described.size === 0) return;
    for (const name of query.keys()) if (!all.has(name)) throw unknownParameter(name, described);
  };
}

function parametersOf(route: Route) {
  const described = [route.describe(), ...Object.values(route.endings?.() ?? {})]
    .flatMap((operation) => (operation["parameters"] ?? []) as readonly Described[])
    .flatMap((parameter) => (parameter.in === "query" ? [parameter.name] : []));
  const isGoogle = route.protocol === generateContent || route.path.startsWith("/v1beta/");
  const more = [...(isGoogle ? [...googleParameters, ...googlePages] : []), ...(elsewhere[route.path] ?? [])];
  return { described: new Set(described), all: new Set([...described, ...more]) };
}

export const unknownParameter = (name: string, known: Iterable<string>): ApiError =>
  ApiError.invalidValue(name, `There is no parameter ${name}; known: ${[...known].join(", ")}.`);

/** Once it is known who asks. @throws ApiError invalid_value */
export function checkQuery(context: RequestContext): void {
  if (context.queryCheck !== undefined && context.request.url.includes("?")) context.queryCheck(context.query);
}
