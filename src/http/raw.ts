/**
 * A provider's own API, as it is: any method, path, query and body goes up, with the account's key in place of the caller's, and the
 * answer comes down as it comes. Nothing of either is held.
 */
import { type Caller, mayUseModel, mayUseProvider } from "../auth/keys.ts";
import type { HeaderFields } from "../lib/http/parser.ts";
import { isObject, type JsonObject } from "../lib/json/json.ts";
import { truncate } from "../lib/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import { respell, type Source } from "../protocols/source.ts";
import type { Account, RemoteProvider } from "../providers/provider.ts";
import type { BoundAccount } from "../upstream/accounts.ts";
import { visibleHeaders } from "../upstream/call.ts";
import type { PassedRequest } from "../upstream/client.ts";
import type { AttemptBounds } from "../usage/attempt.ts";
import { admit } from "./authenticate.ts";
import { isHeldToBudgets, operationBounds } from "./bounds.ts";
import type { RequestContext } from "./context.ts";
import { uploadIdleSeconds } from "./forms.ts";
import { describeRaw } from "./openapi/operations.ts";
import { relayVia, respondBytes, sendVia } from "./relay.ts";
import { readJson } from "./request-body.ts";
import { RequestSource } from "./request-source.ts";
import type { Finish } from "./respond.ts";
import type { Method, Route } from "./routes.ts";
import type { Services } from "./services.ts";

const methods: readonly Method[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const prefix = "/providers/";

export const rawRoutes: readonly Route[] = methods.map((method) => ({
  method,
  path: `${prefix}:name/*`,
  area: "gateway",
  detail: describeRaw(method),
  run: passRaw,
}));

async function passRaw(services: Services, context: RequestContext, finish: Finish): Promise<Response> {
  const caller = await admit(services, context, "gateway");
  const { request } = context;
  if (request.headers.has("upgrade")) throw ApiError.websocketsUnsupported();
  if (request.headers.has("service-request-id")) {
    throw ApiError.invalidValue("service-request-id", "service-request-id is not supported for a provider's own API.");
  }
  const { name, rest } = pathOf(context);
  const bound = services.live.accounts.find(name);
  if (bound === undefined || bound.provider.kind === "local" || !mayUseProvider(caller, name)) {
    throw ApiError.notFound(`No provider '${truncate(name)}' is set up here.`);
  }
  const { account, provider } = bound;
  const root = rootOf(provider as RemoteProvider, account);
  const url = join(root, rest) + queryOf(request.url);
  const inPath = modelInPath(rest);
  const isHeld = isHeldToBudgets(services, context, caller);
  const isLimited = !isFree(caller, name);
  const judged = isLimited || (isHeld && isJsonPost(request)) ? await readBody(services, context, inPath) : undefined;
  if (isLimited) checkModels(caller, name, judged?.named ?? []);
  const opened = judged === undefined ? await openBody(context) : undefined;
  const model = inPath ?? (judged === undefined ? modelInText(opened?.beginning) : textOf(judged.named[0]));
  const bounds = isHeld ? rawBounds(request, rest, judged) : undefined;
  const asked = `${name}/${model ?? "*"}`;
  const relay = relayVia(services, context, caller, asked, bound, model ?? "", bounds, isReading(request));
  const headers = joined(requestHeaders(request.headers), relay.provider.authorization(account));
  const body = judged?.body ?? opened?.body;
  context.setIdleTimeout(opened === undefined ? 0 : uploadIdleSeconds(services));
  const sent: PassedRequest = {
    method: request.method,
    url,
    headers,
    isBare: true,
    listHeaders,
    ...(body !== undefined && { body }),
  };
  const answer = await sendVia(services, context, relay, sent, request.signal, () => context.setIdleTimeout(0));
  if (answer.status >= 400) {
    relay.observer.upstreamFailed(account.name, answer.status);
    context.logFields["upstream_status"] = answer.status;
  }
  const down = responseHeaders(answer.headers, bound, (address) => ownAddress(context, name, root, address));
  if (answer.status >= 400) down["x-troupe-error-source"] = "upstream";
  return respondBytes(services, context, relay.observer, answer, down, finish);
}

/** What asks for something that is there, or takes it away: no provider bills that. */
const isReading = ({ method }: Request) => method === "GET" || method === "HEAD" || method === "DELETE";

/** @throws ApiError not_found, or invalid_value for a path that could lead elsewhere */
function pathOf(context: RequestContext): { readonly name: string; readonly rest: string } {
  const { path } = context;
  const nothing = () => ApiError.notFound(`There is nothing at ${context.request.method} ${truncate(path)}.`);
  // The router has matched the path as it was sent; here its dot segments are resolved.
  const at = path.indexOf(prefix);
  const base = context.route.slice(0, context.route.indexOf(prefix));
  if (at !== base.length || !path.startsWith(base)) throw nothing();
  const [, segment = "", rest = ""] = /^([^/]*)\/(.*)$/s.exec(path.slice(at + prefix.length)) ?? [];
  const name = decoded(segment);
  const { params } = context.request as Request & { readonly params?: { readonly name?: string } };
  if (name === undefined || name === "" || (params?.name ?? name) !== name) throw nothing();
  if (!isSafe(rest))
    throw ApiError.invalidValue("path", "The path holds an empty segment, a dot segment or a backslash.");
  return { name, rest };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** As often as a server in between may decode it. */
const maxDecoding = 4;

/** Whether a path stays below where it begins, however often it is decoded on its way. */
function isSafe(path: string): boolean {
  const segments = path.split("/");
  if (segments.slice(0, -1).includes("")) return false;
  let text: string | undefined = path;
  for (let times = 0; times <= maxDecoding; times += 1) {
    if (text === undefined || [...text].some((letter) => letter < " " || letter === "\\" || letter === "\x7f"))
      return false;
    // Some servers cut parameters off a segment: `..;x`.
    if (text.split("/").some((segment) => /^\.{1,2}(?:;|$)/.test(segment))) return false;
    const next: string | undefined = decoded(text);
    if (next === text) return true;
    text = next;
  }
  return false;
}

/** Where a provider's own paths begin. */
function rootOf(provider: RemoteProvider, account: Account): string {
  return provider.apiRoot?.(account) ?? account.baseUrl;
}

/** Puts a path below an address. What both say, as the version often is, stands once. */
function join(root: string, path: string): string {
  const own = new URL(root).pathname.split("/").filter((segment) => segment !== "");
  const segments = path.split("/");
  for (let shared = Math.min(own.length, segments.length); shared > 0; shared -= 1) {
    if (own.slice(-shared).join("/") !== segments.slice(0, shared).join("/")) continue;
    return [root, ...segments.slice(shared)].join("/");
  }
  return `${root}/${path}`;
}

const ownKey = /trp_[0-9A-Za-z]{20,}/;

/** The query as it was sent, without keys: Google's clients put theirs there, and ours must not go up. */
function queryOf(url: string): string {
  const at = url.indexOf("?");
  if (at < 0) return "";
  const kept = url
    .slice(at + 1)
    .split("&")
    .filter((pair) => decoded(pair.split("=", 1)[0]!)?.toLowerCase() !== "key" && !ownKey.test(pair));
  return kept.length === 0 || kept.join("") === "" ? "" : `?${kept.join("&")}`;
}

/** Of one connection, not of the call. Source: https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1 */
const hopByHop = [
  ...["connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer"],
  ...["transfer-encoding", "upgrade", "content-length"],
];

/** What tells of the caller, its key, its browser and the way that it came here. */
const callersOwn = [
  ...[
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
    "host",
    "expect",
    "accept-encoding",
    "origin",
  ],
  ...["referer", "forwarded", "via", "x-real-ip", "x-request-id", "true-client-ip", "cf-connecting-ip"],
];
const notSent: ReadonlySet<string> = new Set([...hopByHop, ...callersOwn]);

/** The operator's relation to the provider, and what is said of a connection or a host that is not the caller's. */
const providersOwn = [
  ...["set-cookie", "set-cookie2", "www-authenticate", "authentication-info", "proxy-authentication-info"],
  ...["authorization", "x-api-key", "x-goog-api-key", "api-key", "alt-svc", "strict-transport-security"],
  ...["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id", "date", "server"],
];
const notReturned: ReadonlySet<string> = new Set([...hopByHop, ...providersOwn]);

const namedBy = (connection: string | null) =>
  new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));

function requestHeaders(headers: Headers): Record<string, string> {
  const named = namedBy(headers.get("connection"));
  const sent: Record<string, string> = { "accept-encoding": "identity" };
  for (const [name, value] of headers) {
    if (notSent.has(name) || named.has(name) || /^(?:x-forwarded-|sec-|access-control-)/.test(name)) continue;
    if (!ownKey.test(value)) sent[name] = value;
  }
  return sent;
}

/** Headers that are lists: the operator's are added to the caller's. */
const listHeaders = ["anthropic-beta", "openai-beta"];

/** The caller's own credentials are gone: what both name is a list. */
function joined(headers: Record<string, string>, more: Readonly<Record<string, string>>): Record<string, string> {
  const all = { ...headers };
  for (const [name, value] of Object.entries(more))
    all[name] = Object.hasOwn(all, name) ? `${all[name]},${value}` : value;
  return all;
}

/** They hold an address of the provider, where the call goes on. */
const addresses: ReadonlySet<string> = new Set([
  ...["location", "content-location", "operation-location", "x-goog-upload-url", "x-goog-upload-control-url"],
]);

function responseHeaders(
  headers: HeaderFields,
  { account }: BoundAccount,
  own: (address: string) => string,
): Record<string, string> {
  const named = namedBy(headers.get("connection"));
  const { apiKey } = account;
  const down: Record<string, string> = {};
  for (const [name, value] of headers.entries()) {
    if (notReturned.has(name) || named.has(name) || name.startsWith("access-control-")) continue;
    // Known codings are undone on the way.
    if (name === "content-encoding" && /^\s*(?:x-)?(?:gzip|deflate|br|zstd)\s*$/i.test(value)) continue;
    if (apiKey !== undefined && apiKey !== "" && value.includes(apiKey)) continue;
    down[name] = addresses.has(name) ? own(value) : value;
  }
  const id = visibleHeaders(headers)["x-upstream-request-id"];
  return id === undefined ? down : { ...down, "x-upstream-request-id": id };
}

/** An address below the provider's as the caller may ask for it; others stay as they are. */
function ownAddress({ request, route }: RequestContext, name: string, root: string, address: string): string {
  const own = `${route.slice(0, route.indexOf(prefix))}${prefix}${encodeURIComponent(name)}`;
  if (!address.startsWith(`${root}/`)) return address;
  const origin = /^https?:\/\/[^/]+/.exec(request.url)?.[0] ?? "";
  return `${origin}${own}${address.slice(root.length)}`;
}

const isJson = ({ headers }: Request) =>
  /^\s*application\/(?:[\w.-]+\+)?json\b/i.test(headers.get("content-type") ?? "");

type OpenedBody = {
  readonly body: PassedRequest["body"];
  /** Of JSON: as much as came first. */
  readonly beginning: string | undefined;
};

/** The body as it streams; undefined where there is none. @throws ApiError request_timeout */
async function openBody(context: RequestContext): Promise<OpenedBody | undefined> {
  const { request } = context;
  const declared = request.headers.get("content-length");
  if (request.body === null || declared === "0") return undefined;
  const reader = request.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const first = isJson(request) ? (await context.arrival(reader.read())).value : undefined;
  return {
    body: { source: new RequestSource(reader, first), length: declared === null ? undefined : Number(declared) },
    beginning: first === undefined ? undefined : Buffer.from(first).toString("latin1", 0, maxBeginning),
  };
}

/** How far from a body's beginning its model is looked for, for the log, the metrics and the ledger. */
const maxBeginning = 64 * 1024;

function modelInText(text: string | undefined): string | undefined {
  return /"model"\s*:\s*"([^"\\]{1,256})"/.exec(text ?? "")?.[1];
}

/** Whether a key may use every model of the provider, so that nothing needs to be looked at. */
function isFree({ models }: Caller, name: string): boolean {
  return models.some((glob) => glob.indexOf("*") === glob.length - 1 && `${name}/`.startsWith(glob.slice(0, -1)));
}

/** A model in a path, as Google, Azure and Hugging Face name it there: `models/<name>:generateContent`, `deployments/<name>/…`. */
function modelInPath(path: string): string | undefined {
  const found = /(?:^|\/)(?:models|tunedModels|deployments)\/([^/:]+)/.exec(path)?.[1];
  return found === undefined ? undefined : decoded(found);
}

/** A body that was looked into. */
type ReadBody = {
  readonly body: PassedRequest["body"];
  readonly source: Source;
  /** All that the path and the body name as a model. */
  readonly named: readonly unknown[];
};

/** @throws ApiError model_not_allowed for a body that tells no model, and those of any body */
async function readBody(services: Services, context: RequestContext, inPath: string | undefined): Promise<ReadBody> {
  if (!isJsonPost(context.request)) throw ApiError.modelNotAllowed(undefined);
  const source = await readJson(context, services.live.config.limits);
  if (source.large !== undefined) await source.large.restore([source.parsed]);
  // Some servers read names whatever their letters' case.
  const named = Object.entries(source.parsed)
    .filter(([key]) => /^models?$/i.test(key))
    .flatMap(([, value]) => value);
  if (inPath !== undefined) named.push(inPath);
  // Written anew where a name might stand twice in it, as servers differ in which one counts.
  const plain = source.large === undefined ? respell(source, source.parsed) : undefined;
  return { body: plain ?? JSON.stringify(source.parsed), source, named };
}

/** A key that may use some models only has to name one of them, and none beside. @throws ApiError model_not_allowed */
function checkModels(caller: Caller, name: string, named: readonly unknown[]): void {
  if (named.length === 0) throw ApiError.modelNotAllowed(undefined);
  for (const model of named) {
    if (typeof model !== "string") throw ApiError.modelNotAllowed(undefined);
    const id = `${name}/${plainName(model)}`;
    if (!mayUseModel(caller, id)) throw ApiError.modelNotAllowed(id);
  }
}

const isJsonPost = (request: Request) => request.method === "POST" && isJson(request);
const plainName = (model: string) => model.replace(/^models\//, "");
const textOf = (model: unknown) => (typeof model === "string" ? plainName(model) : undefined);

/** Reading and deleting is free at all providers. */
const mayBill = ({ method }: Request) => method !== "GET" && method !== "DELETE";

/** They are answered at once, and billed by the tokens that the answer tells. */
const billedByTokens =
  /(?:^|\/)(?:chat\/completions|completions|responses|messages|embeddings|moderations|rerank|images\/generations|audio\/speech)$|\/models\/[^/]+:(?:generateContent|streamGenerateContent|embedContent|batchEmbedContents)$/;
const billedNothing =
  /(?:^|\/)(?:messages\/count_tokens|responses\/input_tokens|(?:responses|batches|jobs)\/[^/]+\/cancel)$|\/models\/[^/]+:countTokens$/;

/** What a call may cost is known only where it is known what it asks for, of one model, and that all of it is in its body. */
function rawBounds(request: Request, path: string, read: ReadBody | undefined): AttemptBounds {
  const declared = { inputBytes: Number(request.headers.get("content-length") ?? "0") };
  if (!mayBill(request) || billedNothing.test(path)) return { ...declared, billed: "nothing" };
  if (read === undefined) return { ...declared, billed: "unknown" };
  const isKnown = billedByTokens.test(path) && isOneModel(path, read.named) && isWhole(read.source.parsed);
  return { ...operationBounds(read.source, path), ...(!isKnown && { billed: "unknown" as const }) };
}

function isOneModel(path: string, named: readonly unknown[]): boolean {
  const names = new Set(named.map(textOf));
  return (
    names.size === 1 && !names.has(undefined) && path.split(/(?:^|\/)(?:models|tunedModels|deployments)\//).length <= 2
  );
}

/** Whether it is answered at once, and all of its input is in it. */
function isWhole(body: JsonObject): boolean {
  return body["background"] !== true && !isObject(body["prompt"]) && referring.every((name) => body[name] == null);
}

/** They stand for more input than the body has, as `prompt` does where it is no text. */
const referring = ["previous_response_id", "conversation", "cachedContent", "cached_content", "container"];
