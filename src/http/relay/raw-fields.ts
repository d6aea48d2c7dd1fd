/**
 * Chooses the parts of a request's query and headers that go up to a provider's own API, and of its answer's headers those that come down. Neither keys,
 * nor what chooses another method, another path, or who is billed: that is the operator's, whose account may set it.
 */
import { holdsKey } from "../../auth/key-secret.ts";
import { upstreamHeaderNames } from "../../call/send/upstream-headers.ts";
import type { HeaderFields } from "../../lib/http/parser.ts";
import { decodedText } from "../../lib/text/percent.ts";

/** Names are compared in lower case, without a leading `$`, `$.` or `x-`. */
type Names = readonly RegExp[];

/** Credentials, and another method or type than what was judged. */
const neverSaid: Names = [
  /^(?:goog-)?key$|(?:^|[-_])api[-_]?key$|subscription-key|^(?:passwd|password|secret|auth|authorization|token)$/,
  /^(?:access|oauth|bearer|auth|id)[-_]?token$/,
  /method|^(?:ct|req|httpheaders)$/,
];

/** https://cloud.google.com/apis/docs/system-parameters */
const noParameters: Names = [...neverSaid, /^(?:user|quota)[-_]?(?:project|user)$/];

/**
 * Sources: https://platform.openai.com/docs/api-reference/authentication, https://cloud.google.com/apis/docs/system-parameters,
 * https://huggingface.co/docs/inference-providers/pricing, https://learn.microsoft.com/azure/machine-learning/how-to-safely-rollout-online-endpoints
 */
const noHeaders: Names = [
  ...neverSaid,
  /(?:^|-)(?:authorization|auth|token|secret|password|credentials?)$|authenticated-user|iam-authori/,
  // Who is billed.
  /(?:^|-)(?:organi[sz]ation|org|project|workspace|tenant|account|billing|bill-to|subscription|quota-user)(?:-id)?$/,
  // Another path, host or model.
  /^(?:original|rewrite|override)-|^(?:url|uri|host|path)$|model-deployment|request-params/,
];

const isAmong = (names: Names, name: string): boolean => {
  const plain = name
    .trim()
    .toLowerCase()
    .replace(/^(?:\$\.?|x-)/, "");
  return names.some((form) => form.test(plain));
};

/** The query as it was sent, without what never goes up. */
export function passedQuery(url: string): string {
  const at = url.indexOf("?");
  if (at < 0) return "";
  const kept = url
    .slice(at + 1)
    .split("&")
    .filter((pair) => {
      const name = decodedText(pair.split("=", 1)[0]!.replaceAll("+", " "));
      return name !== undefined && !isAmong(noParameters, name) && !holdsKey(pair);
    });
  return kept.length === 0 || kept.join("") === "" ? "" : `?${kept.join("&")}`;
}

/** Query parameters that a key limited to some models may send: none that could choose another one. */
const ofAnswers: ReadonlySet<string> = new Set(["alt", "api-version", "beta", "prettyprint"]);

/** The same for such a key; what may choose more than the answer's form is left out. */
export function limitedQuery(url: string): string {
  const pairs = passedQuery(url)
    .slice(1)
    .split("&")
    .filter((pair) => ofAnswers.has(pair.split("=", 1)[0]!.toLowerCase()));
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

/** Headers of one connection, not of the call. Source: https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1 */
const hopByHop = [
  ...["connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer"],
  ...["transfer-encoding", "upgrade", "content-length"],
];

/** Headers that describe the caller, its browser and its path here. */
const callersOwn = ["cookie", "host", "expect", "accept-encoding", "origin", "referer", "forwarded", "via"];
const notSent: ReadonlySet<string> = new Set([
  ...[...hopByHop, ...callersOwn],
  ...["x-real-ip", "x-request-id", "true-client-ip", "cf-connecting-ip"],
]);

/** The operator's relation to the provider, and what is said of a connection or a host that is not the caller's. */
const providersOwn = [
  ...["set-cookie", "set-cookie2", "www-authenticate", "authentication-info", "proxy-authentication-info"],
  ...["authorization", "x-api-key", "x-goog-api-key", "api-key", "alt-svc", "strict-transport-security"],
  ...["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id", "date", "server"],
  ...["x-troupe-budget", "x-troupe-budget-remaining", "x-troupe-persona-version", "x-troupe-persona-variant"],
  ...upstreamHeaderNames,
];
const notReturned: ReadonlySet<string> = new Set([...hopByHop, ...providersOwn]);

const namedBy = (connection: string | null) =>
  new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));

const isSendable = (name: string): boolean =>
  !notSent.has(name) && !/^(?:x-forwarded-|sec-|access-control-)/.test(name) && !isAmong(noHeaders, name);

/** Verdicts by name, as callers send the same ones over and over; of a bounded number of short ones, as the names are theirs. */
const verdicts = new Map<string, boolean>();
const maxVerdicts = 256;

function maySend(name: string): boolean {
  const known = verdicts.get(name);
  if (known !== undefined) return known;
  const verdict = isSendable(name);
  if (verdicts.size < maxVerdicts && name.length <= 64) verdicts.set(name, verdict);
  return verdict;
}

export function rawHeaders(headers: Headers): Record<string, string> {
  const named = namedBy(headers.get("connection"));
  const sent: Record<string, string> = { "accept-encoding": "identity" };
  for (const [name, value] of headers) {
    if (!named.has(name) && maySend(name) && !holdsKey(value)) sent[name] = value;
  }
  return sent;
}

/** Headers that a key limited to some models may send: the formats' own, which choose no other model and no other path to one. */
const ofFormats =
  /^(?:accept|accept-encoding|content-type|user-agent|anthropic-(?:beta|version)|openai-beta|x-goog-api-client|idempotency-key|http-referer|x-title|x-client-request-id|traceparent|tracestate|x-stainless-[\w-]+)$/;

/** The same for such a key. */
export const limitedHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries(Object.entries(rawHeaders(headers)).filter(([name]) => ofFormats.test(name)));

/** They hold an address of the provider, where the call goes on. */
const addresses: ReadonlySet<string> = new Set([
  ...["location", "content-location", "operation-location", "x-goog-upload-url", "x-goog-upload-control-url"],
]);

/**
 * @param isSecret whether a value holds the account's key
 * @param own gives an address of the provider's as the caller may ask for it
 */
export function returnedHeaders(
  headers: HeaderFields,
  isSecret: (value: string) => boolean,
  own: (address: string) => string,
): Record<string, string> {
  const connection = headers.get("connection");
  const named = connection === null || connection === "keep-alive" ? undefined : namedBy(connection);
  const down: Record<string, string> = {};
  for (const [name, value] of headers.entries()) {
    if (notReturned.has(name) || named?.has(name) || name.startsWith("access-control-")) continue;
    // Known codings are undone on the way.
    if (name === "content-encoding" && /^\s*(?:x-)?(?:gzip|deflate|br|zstd)\s*$/i.test(value)) continue;
    if (!isSecret(value)) down[name] = addresses.has(name) ? own(value) : value;
  }
  return down;
}
