/** Refuses parameters of a query that a route does not have. */
import type { QueryCheck } from "../call/context.ts";
import { ApiError } from "../protocols/errors.ts";
import { generateContent } from "../protocols/generate-content/generate-content.ts";
import type { Route } from "./routes.ts";

type Described = { readonly name: string; readonly in: string };

/** Parameters of any method of Google's APIs. Source: https://cloud.google.com/apis/docs/system-parameters */
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
 * Lists of models bear any: nobody chooses by a misspelt one, and clients have some of their own
 * (`offset=0&limit=500`: https://github.com/OpenRouterTeam/typescript-sdk).
 */
const openLists: ReadonlySet<string> = new Set(["/v1/models", "/v1beta/models"]);

/**
 * Refuses parameters that a route's description does not have, so that one with a typing error does not choose everything. Values are
 * judged by the client's format. Checks nothing where the description has no query parameters.
 */
export function queryCheckOf(route: Route): QueryCheck {
  let parameters: ReturnType<typeof parametersOf> | undefined;
  return (query) => {
    parameters ??= parametersOf(route);
    const { described, all } = parameters;
    if (described.size === 0 || openLists.has(route.path)) return;
    for (const name of query.keys()) if (!all.has(name)) throw unknownParameter(name, described);
  };
}

function parametersOf(route: Route) {
  const described = [route.describe(), ...Object.values(route.endings?.() ?? {})]
    .flatMap((operation) => (operation["parameters"] ?? []) as readonly Described[])
    .flatMap((parameter) => (parameter.in === "query" ? [parameter.name] : []));
  const isGoogle = route.protocol === generateContent || route.path.startsWith("/v1beta/");
  const more = isGoogle ? [...googleParameters, ...googlePages] : [];
  return { described: new Set(described), all: new Set([...described, ...more]) };
}

export const unknownParameter = (name: string, known: Iterable<string>): ApiError =>
  ApiError.invalidValue(name, `There is no parameter ${name}; known: ${[...known].join(", ")}.`);
