/**
 * A provider's own API, as it is: any method, path, query and body goes up, with the account's key in place of the caller's, and the
 * answer comes down as it comes. Nothing of either is held.
 */
import { holdsKey } from "../../auth/key-secret.ts";
import { mayUseProvider } from "../../auth/keys.ts";
import { admit } from "../../call/admit/admit.ts";
import { isFree } from "../../call/admit/named.ts";
import { pathOf, type RequestContext } from "../../call/context.ts";
import { inputMeter } from "../../call/plan/bounds.ts";
import { contentLength, readWhole } from "../../call/read/request-body.ts";
import { RequestSource } from "../../call/read/request-source.ts";
import type { Services } from "../../call/services.ts";
import { maxRepeated } from "../../lib/http/client.ts";
import type { HeaderFields } from "../../lib/http/parser.ts";
import { parseJson } from "../../lib/json/json.ts";
import { decodedText } from "../../lib/text/percent.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { turnEnd } from "../../lib/time/turn-end.ts";
import { respell } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Account, RemoteProvider } from "../../providers/provider.ts";
import type { BoundAccount } from "../../upstream/accounts.ts";
import type { PassedRequest } from "../../upstream/client.ts";
import { upstreamRequestId } from "../../upstream/upstream-error.ts";
import type { TextMeter } from "../../usage/attempt.ts";
import { bodyMeter } from "../../usage/tokens/text-meter.ts";
import { describeRaw } from "../openapi/operations.ts";
import { type Method, nothingAt, type Route } from "../routes.ts";
import { respondBytes } from "./byte-body.ts";
import { uploadIdleSeconds } from "./forms.ts";
import { limitedHeaders, limitedQuery, passedQuery, rawHeaders, returnedHeaders } from "./raw-fields.ts";
import {
  checkLimited,
  decodedPath,
  isReading,
  modelInPath,
  modelTextOf,
  type ReadBody,
  rawBounds,
} from "./raw-judge.ts";
import { relayVia, sendVia } from "./relay.ts";

const methods: readonly Method[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const prefix = "/providers/";

export const rawRoutes: readonly Route[] = methods.map((method) => ({
  method,
  path: `${prefix}:name/*`,
  area: "gateway",
  describe: () => describeRaw(method),
  run: passRaw,
}));

async function passRaw(services: Services, context: RequestContext): Promise<Response> {
  const caller = await admit(services, context, "gateway", { permission: "raw" });
  const { request } = context;
  if (request.headers.has("service-request-id")) {
    throw ApiError.invalidValue("service-request-id", "service-request-id is not supported for a provider's own API.");
  }
  const { name, rest, path } = askedBy(context);
  const bound = services.live.accounts.find(name);
  if (bound === undefined || bound.provider.kind === "local" || !mayUseProvider(caller, name)) {
    throw ApiError.notFound(`No provider '${truncate(name)}' is set up here.`);
  }
  const { account, provider } = bound;
  const root = rootOf(provider as RemoteProvider, account);
  const inPath = modelInPath(path);
  const isHeld = services.budgets.holds(caller, context.tags);
  const isLimited = !isFree(caller, name);
  if (isLimited && !isJsonPost(request)) throw ApiError.modelNotAllowed(undefined);
  const judged = isLimited || (isHeld && isJsonPost(request)) ? await readBody(services, context, inPath) : undefined;
  const asPassed = isLimited ? checkLimited(caller, name, request, path, judged!) : rest;
  const url = join(root, asPassed) + (isLimited ? limitedQuery(request.url) : passedQuery(request.url));
  const opened = judged === undefined ? await openBody(context) : undefined;
  const model = inPath ?? (judged === undefined ? modelInText(opened?.beginning) : modelTextOf(judged.named[0]));
  const bounds = isHeld ? rawBounds(request, rest, path, judged) : undefined;
  const asked = `${name}/${model ?? "*"}`;
  const relay = relayVia({ services, context, caller }, { asked, bound, model: model ?? "" }, bounds, {
    isFree: isReading(request),
    input: estimated.test(path) && isJsonPost(request) ? meterOf(judged, opened) : undefined,
  });
  const body = judged?.body ?? opened?.body;
  const isStreamed = typeof body === "object" && "source" in body;
  context.setIdleTimeout(isStreamed ? uploadIdleSeconds(services) : 0);
  const sent: PassedRequest = {
    method: request.method,
    url,
    headers: (isLimited ? limitedHeaders : rawHeaders)(request.headers),
    isBare: true,
    ...(body !== undefined && { body }),
  };
  const answer = await sendVia(relay, sent, request.signal, () => {
    context.release();
    if (isStreamed) context.setIdleTimeout(0);
  });
  if (answer.status >= 400) {
    relay.observer.upstreamFailed(account.name, answer.status);
    context.logFields["upstream_status"] = answer.status;
  }
  const down = responseHeaders(answer.headers, bound, (address) => ownAddress(context, name, root, address));
  if (answer.status >= 400) down["x-troupe-error-source"] = "upstream";
  return respondBytes(relay, answer, down);
}

/** The provider that is asked, and the path there: as it was sent, and decoded. */
type Asked = { readonly name: string; readonly rest: string; readonly path: string };

/** @throws ApiError not_found, or invalid_value for a path that could lead elsewhere */
function askedBy(context: RequestContext): Asked {
  const { request, route, path: whole } = context;
  // The router has matched the path as it was sent; here its dot segments are resolved.
  const at = whole.indexOf(prefix);
  const base = route.slice(0, route.indexOf(prefix));
  if (at !== base.length || !whole.startsWith(base)) throw nothingAt(context);
  const [, segment = "", rest = ""] = /^([^/]*)\/(.*)$/s.exec(whole.slice(at + prefix.length)) ?? [];
  const name = decodedText(segment);
  const { params } = request as Request & { readonly params?: { readonly name?: string } };
  if (name === undefined || name === "" || (params?.name ?? name) !== name) throw nothingAt(context);
  const path = decodedPath(rest);
  if (path === undefined || holdsKey(rest))
    throw ApiError.invalidValue("path", "The path holds an empty segment, a dot segment, a backslash or an API key.");
  return { name, rest, path };
}

/** The address below which a provider's own paths begin. */
function rootOf(provider: RemoteProvider, account: Account): string {
  return provider.apiRoot?.(account) ?? account.baseUrl;
}

/** Puts a path below an address. What both say, as the version often is, stands once. */
function join(root: string, path: string): string {
  const own = pathOf(root)
    .split("/")
    .filter((segment) => segment !== "");
  const segments = path.split("/");
  for (let shared = Math.min(own.length, segments.length); shared > 0; shared -= 1) {
    if (own.slice(-shared).join("/") !== segments.slice(0, shared).join("/")) continue;
    return [root, ...segments.slice(shared)].join("/");
  }
  return `${root}/${path}`;
}

function responseHeaders(
  headers: HeaderFields,
  { credentials }: BoundAccount,
  own: (address: string) => string,
): Record<string, string> {
  const down = returnedHeaders(headers, (value) => credentials.isIn(value), own);
  const id = upstreamRequestId(headers);
  if (id !== undefined) down["x-upstream-request-id"] = id;
  return down;
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
  /** The beginning of a JSON body: as much as came first. */
  readonly beginning: string | undefined;
};

/**
 * The body: as it streams, or read where it is short, so that it can go by a connection that was used before; undefined where there is none.
 * @throws ApiError request_timeout, overloaded
 */
async function openBody(context: RequestContext): Promise<OpenedBody | undefined> {
  const { request } = context;
  const length = contentLength(request.headers);
  if (request.body === null || length === 0) return undefined;
  if (length !== undefined && length <= maxRepeated) {
    context.hold(length);
    const bytes = await context.arrival(request.bytes());
    await turnEnd();
    return { body: bytes, beginning: isJson(request) ? beginningOf(bytes) : undefined };
  }
  const reader = request.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const first = isJson(request) ? (await context.arrival(reader.read())).value : undefined;
  return {
    body: { source: new RequestSource(reader, first), length },
    beginning: first && beginningOf(first),
  };
}

/** Bytes of a body's beginning in which its model is looked for, for the log, the metrics and the ledger. */
const maxBeginning = 64 * 1024;

const beginningOf = (bytes: Uint8Array) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, maxBeginning)).toString();

function modelInText(text: string | undefined): string | undefined {
  return /"model"\s*:\s*"([^"\\]{1,256})"/.exec(text ?? "")?.[1];
}

const isJsonPost = (request: Request) => request.method === "POST" && isJson(request);

/** @throws ApiError as for any body */
async function readBody(
  services: Services,
  context: RequestContext,
  inPath: string | undefined,
): Promise<ReadBody & { readonly body: PassedRequest["body"] }> {
  const source = await readWhole(context, services.live.config.limits);
  const named = ["model", "models"].flatMap((field) => source.parsed[field] ?? []);
  if (inPath !== undefined) named.push(inPath);
  return { body: respell(source, source.parsed) ?? JSON.stringify(source.parsed), source, named };
}

/** Their answers have words or vectors, and cost what their tokens cost. */
const estimated =
  /(?:^|\/)(?:chat\/completions|completions|responses|messages|embeddings)$|\/models\/[^/]+:(?:generateContent|streamGenerateContent|embedContent|batchEmbedContents)$/;

/** By the whole body, or by as much as came first and how long it says to be. */
function meterOf(judged: ReadBody | undefined, opened: OpenedBody | undefined): TextMeter | undefined {
  if (judged !== undefined) return inputMeter(judged.source);
  const { beginning, body } = opened ?? {};
  if (beginning === undefined) return undefined;
  const whole = parseJson(beginning);
  if (whole !== undefined) return bodyMeter(whole);
  const length = typeof body === "object" && "length" in body ? body.length : undefined;
  return typeof length === "number" ? { length, sample: [beginning.slice(0, 1000)] } : undefined;
}
