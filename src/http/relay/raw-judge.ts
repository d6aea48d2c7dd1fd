/** Judges a call of a provider's own API by what the upstream will understand: what a key may ask there, and what that may cost. */
import { type Caller, mayUseModel } from "../../auth/keys.ts";
import { checkNamedModels } from "../../call/admit/named.ts";
import { operationBounds } from "../../call/plan/bounds.ts";
import { plainModel } from "../../call/read/body-names.ts";
import { contentLength } from "../../call/read/request-body.ts";
import { decodedText } from "../../lib/text/percent.ts";
import type { Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import { leadsElsewhere } from "../../protocols/model-id.ts";
import type { AttemptBounds } from "../../usage/attempt.ts";

/** @returns the path once it is decoded; undefined where it may lead elsewhere than below its beginning, however often it is decoded */
export function decodedPath(path: string): string | undefined {
  if (path.split("/").slice(0, -1).includes("")) return undefined;
  const text = decodedText(path);
  if (text === undefined || /[\\\p{Cc}]/u.test(text)) return undefined;
  const segments = text.split("/");
  // Some servers cut parameters off a segment: `..;x`.
  const isElsewhere = (segment: string) => /^\s*\.{1,2}\s*(?:;|$)/.test(segment);
  return segments.some(isElsewhere) || segments.slice(0, -1).includes("") ? undefined : text;
}

/** Matches the beginnings of providers' completion paths; with Azure's name of a deployment behind them. */
const root = String.raw`^(?:(?:[\w-]+/){0,2}v\d\w*/)?(?:openai/)?(?:deployments/[^/:;?#]+/)?`;
const counters = ["messages/count_tokens", "responses/input_tokens"];
const answeredByTokens = [
  ...["chat/completions", "completions", "responses", "messages", "embeddings", "moderations", "rerank"],
  ...["images/generations", "audio/speech"],
];
const atModel = String.raw`^v\d\w*/models/[^/:;?#]+:`;
const methods = "generateContent|streamGenerateContent|embedContent|batchEmbedContents";

/** They are answered at once, and billed by the tokens that the answer reports. */
const billedByTokens = [`${root}(?:${answeredByTokens.join("|")})$`, `${atModel}(?:${methods})$`].map(form);
const counting = [`${root}(?:${counters.join("|")})$`, `${atModel}countTokens$`].map(form);
const billedNothing = [...counting, /^(?:\w+\/)*(?:responses|batches|jobs)\/[^/]+\/cancel$/];

function form(pattern: string): RegExp {
  return new RegExp(pattern);
}

const isAmong = (forms: readonly RegExp[], path: string) => forms.some((one) => one.test(path));

/** A model in a path, as Google and Azure name it there: `models/<name>:generateContent`, `deployments/<name>/…`. */
export function modelInPath(path: string): string | undefined {
  return /(?:^|\/)(?:models|tunedModels|deployments)\/([^/:]+)/.exec(path)?.[1];
}

/** A body that was looked into. */
export type ReadBody = {
  readonly source: Source;
  /** The models that the path and the body itself name. */
  readonly named: readonly unknown[];
};

/**
 * A key that may use some models only gets the paths that ask one of them for an answer, and has to name it; every other path leads to what
 * names none.
 * @param path decoded
 * @returns the path as the upstream can understand it in one way alone
 * @throws ApiError model_not_allowed
 */
export function checkLimited(caller: Caller, name: string, request: Request, path: string, read: ReadBody): string {
  if (request.method !== "POST" || !isAmong([...billedByTokens, ...counting], path)) {
    throw ApiError.modelNotAllowed(undefined);
  }
  if (read.named.length === 0) throw ApiError.modelNotAllowed(undefined);
  for (const model of read.named) {
    if (typeof model !== "string") throw ApiError.modelNotAllowed(undefined);
    const id = `${name}/${plainModel(model)}`;
    if (leadsElsewhere(model) || !mayUseModel(caller, id)) throw ApiError.modelNotAllowed(id);
  }
  checkNamedModels(caller, name, "raw", read.source);
  return path.split("/").map(encoded).join("/");
}

const encoded = (segment: string) => encodeURIComponent(segment).replaceAll("%3A", ":");

export const modelTextOf = (model: unknown) => (typeof model === "string" ? plainModel(model) : undefined);

/** Reading and deleting is free at all providers. */
export const isReading = ({ method }: Request) => method === "GET" || method === "HEAD" || method === "DELETE";

/**
 * Bounds a call's cost, which is known only where it is known what it asks for, of one model, and that all of it is in its body.
 * @param rest the path as it was sent @param path the same, decoded
 * @throws ApiError invalid_value for what can be read in two ways
 */
export function rawBounds(request: Request, rest: string, path: string, read: ReadBody | undefined): AttemptBounds {
  const declared = { inputBytes: contentLength(request.headers) ?? 0 };
  // Free is only what is free however often the path is decoded.
  const isNothing = isAmong(billedNothing, rest) && isAmong(billedNothing, path);
  if (isReading(request) || isNothing) return { ...declared, billed: "nothing" };
  if (read === undefined) return { ...declared, billed: "unknown" };
  const isAtOnce = isAmong(billedByTokens, path) && read.source.parsed["background"] !== true;
  const isKnown = isAtOnce && isOneModel(read.named);
  return { ...operationBounds(read.source, path), ...(!isKnown && { billed: "unknown" as const }) };
}

function isOneModel(named: readonly unknown[]): boolean {
  const names = new Set(named.map(modelTextOf));
  return names.size === 1 && !names.has(undefined);
}
