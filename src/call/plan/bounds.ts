/** Bounds of what a call may use, for the budgets that reserve it before. */
import type { Caller } from "../../auth/keys.ts";
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { formatPath } from "../../lib/json/schema-errors.ts";
import { refuseDoubledWithin } from "../../protocols/body/doubled-names.ts";
import { bodyBytes, type Source } from "../../protocols/body/source.ts";
import type { ChatRequest, Message } from "../../protocols/chat/schema.ts";
import type { Call, Operation } from "../../providers/provider.ts";
import type { AttemptBounds, BilledTool, TextMeter } from "../../usage/attempt.ts";
import { inputTokensOf } from "../../usage/prices/cost-estimate.ts";
import { bodyMeter } from "../../usage/tokens/text-meter.ts";
import type { KeptSize } from "../admit/named.ts";
import type { RequestContext } from "../context.ts";
import {
  type BodyNames,
  isOwnModel,
  type Kept,
  type KeptKind,
  namesIn,
  plainModel,
  type Renamed,
} from "../read/body-names.ts";
import { contentLength } from "../read/request-body.ts";
import type { Services } from "../services.ts";
import { countIn, hostedToolsIn } from "./hosted-tools.ts";

/** The call as it goes to one of its targets. `isNative`: the upstream gets the client's own body. */
export type Sent = {
  readonly call: Call;
  readonly isNative: boolean;
  /** The format in which the upstream is called; absent: this program answers. */
  readonly format: string | undefined;
  /** What it names of its own at the provider. */
  readonly kept: KeptSize;
  /** Tokens of earlier turns that the upstream holds, as it told them: more than is kept here, with what its tools had found. */
  readonly heldTokens: number;
};

/**
 * @param source the request as it was sent @param request the same in the inner form
 * @param sent with a persona, and with earlier turns of its conversation
 * @throws ApiError invalid_value for what can be read in two ways
 */
export function chatBounds(source: Source, request: ChatRequest, sent: Sent): AttemptBounds {
  const { call, isNative, format, kept, heldTokens } = sent;
  refuseDoubledWithin(source);
  const added = addedTo(request, call.request);
  const own = isNative ? namesIn(source) : undefined;
  const whole: JsonObject = isNative ? { ...call.request, messages: added } : call.request;
  const rest = namesIn({ ...source, parsed: whole });
  const server = { tools: call.extras["server_tools"] };
  const tools = [...hostedToolsIn(rest, whole), ...hostedToolsIn(namesIn({ parsed: server }), server)];
  if (own !== undefined) tools.push(...hostedToolsIn(own, source.parsed));
  // Chat completions are the inner form, of which such an upstream gets what nobody here knows.
  const passed = own ?? (call.clientFormat === undefined && format === "chat" ? rest : undefined);
  const addedBytes = jsonBytes(added);
  const beyond = heldTokens - inputTokensOf(inputOf(addedBytes, 0, [rest]));
  const bytes = bodyBytes(source) + addedBytes + kept.bytes;
  return {
    ...inputOf(bytes, kept.tokens + Math.max(0, beyond), own === undefined ? [rest] : [own, rest]),
    ...outputIn(call.request, isNative ? source.parsed : undefined),
    ...tierIn([source.parsed, call.request]),
    ...hosted(tools, isNative && format === "responses" ? source.parsed : undefined),
    ...(passed && othersIn(passed)),
    ...(own && unboundedIn(own.kept.filter(({ kind }) => !measured.has(kind)))),
  };
}

/** Measured by `keptUpstream`, or said again with the conversation that is kept here. */
const measured: ReadonlySet<KeptKind> = new Set(["response", "cache", "item", "reasoning", "image"]);

/** What is of unknown size can't be held to a budget. */
function unboundedIn([first]: readonly Kept[]): Pick<AttemptBounds, "billed" | "unbounded"> {
  return first === undefined ? {} : { billed: "unknown", unbounded: formatPath(first.path) };
}

/**
 * Models of the same provider that may answer in place of the one that is asked, and those that its tools ask. A provider's own choice costs
 * as much as that.
 */
function othersIn(
  { models }: BodyNames,
  isRenamed: Renamed = isOwnModel,
): Pick<AttemptBounds, "otherModels" | "toolModels"> {
  const others = new Set<string>();
  const ofTools = new Set<string>();
  for (const { name, path, mayAnswer } of models) {
    if (isOwnModel(path) || isRenamed(path) || name === "default") continue;
    if (mayAnswer) others.add(plainModel(name));
    else if (path[0] === "tools") ofTools.add(plainModel(name));
  }
  return {
    ...(others.size > 0 && { otherModels: [...others] }),
    ...(ofTools.size > 0 && { toolModels: [...ofTools] }),
  };
}

/** @param body that may bound the uses of all of them together, in the format of Responses alone */
function hosted(tools: readonly BilledTool[], body?: JsonObject): Pick<AttemptBounds, "hosted"> {
  if (tools.length === 0) return {};
  // https://platform.openai.com/docs/api-reference/responses/create#responses-create-max_tool_calls
  return { hosted: { tools, maxUses: countIn(body, "max_tool_calls") || undefined } };
}

const dearTiers: ReadonlySet<string> = new Set(["priority", "fast", "ultrafast"]);

/**
 * Finds tiers and surcharges that cost more: others cost less, or may cost as much as the usual one. Anthropic's region and speed are
 * named as prices name them.
 * @param bodies each a form of the same request
 */
function tierIn(bodies: readonly JsonObject[]): Pick<AttemptBounds, "serviceTier" | "surcharges"> {
  let serviceTier: string | undefined;
  const surcharges = new Set<string>();
  for (const { service_tier, serviceTier: spelt = service_tier, inference_geo, speed, fallbacks } of bodies) {
    const tier = typeof spelt === "string" ? spelt.toLowerCase() : "";
    if (dearTiers.has(tier)) serviceTier = tier;
    if (typeof inference_geo === "string" && inference_geo !== "global")
      surcharges.add(`inference_geo_${inference_geo}`);
    if (speed === "fast" || listOf(fallbacks).some((one) => objectOf(one)?.["speed"] === "fast"))
      surcharges.add("speed_fast");
  }
  return {
    ...(serviceTier !== undefined && { serviceTier }),
    ...(surcharges.size > 0 && { surcharges: [...surcharges] }),
  };
}

/** Names of the longest answer and of the number of answers, in all formats. */
const lengths = ["max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample", "maxOutputTokens"];
/** https://platform.openai.com/docs/api-reference/completions/create: all of `best_of` are made, and one prompt of several has as many. */
const numbers = ["n", "best_of", "candidateCount", "candidate_count"];
const configs = ["generationConfig", "generation_config"];

/**
 * Finds the longest answer that a request asks for, and the most answers: upstreams differ in which of several names they heed.
 * @param passed what goes up beside it, as it came
 */
function outputIn(body: JsonObject, passed = body): Pick<AttemptBounds, "maxOutputTokens" | "choices"> {
  const asked = [body, ...configs.flatMap((name) => objectOf(body[name]) ?? [])];
  const longest = mostOf(asked, lengths);
  // One that answers in place of another may have an answer of its own length.
  const others = mostOf(listOf(passed["fallbacks"]), lengths) ?? 0;
  const prompts = listOf(passed["prompt"]).filter((one) => typeof one !== "number").length;
  return {
    maxOutputTokens: longest === undefined ? longest : Math.max(longest, others),
    choices: Math.max(1, mostOf([...asked, { best_of: passed["best_of"] }], numbers) ?? 1) * Math.max(1, prompts),
  };
}

function mostOf(values: readonly unknown[], names: readonly string[]): number | undefined {
  let most: number | undefined;
  for (const value of values)
    for (const name of names) {
      const count = countIn(value, name);
      if (count !== undefined && (most === undefined || count > most)) most = count;
    }
  return most;
}

/** Messages that did not come with the request. */
function addedTo({ messages: own }: ChatRequest, { messages }: ChatRequest): readonly Message[] {
  if (messages === own) return [];
  const came = new Set<Message>(own);
  return messages.filter((message) => !came.has(message));
}

function jsonBytes(messages: readonly Message[]): number {
  let bytes = 0;
  for (const message of messages) bytes += Buffer.byteLength(JSON.stringify(message));
  return bytes;
}

/** A large image, as https://platform.claude.com/docs/en/build-with-claude/vision has it; and of what is there by its address or id, a book. */
const imageTokens = 5_000;
const linkedFileTokens = 100_000;
/** Bytes of base64 for each token: a page of a PDF has some 50 KB, and takes up to 3,000 tokens. */
const bytesPerFileToken = 25;

/** @param bytes of all that is said, media in base64 among it, which is no text @param tokens known beside */
function inputOf(bytes: number, tokens: number, all: readonly BodyNames[]) {
  let inputBytes = bytes;
  let inputTokens = tokens;
  for (const { images, linkedFiles, imageBytes, fileBytes } of all) {
    inputBytes -= imageBytes + fileBytes;
    inputTokens += images * imageTokens + linkedFiles * linkedFileTokens + Math.ceil(fileBytes / bytesPerFileToken);
  }
  return { inputBytes: Math.max(0, inputBytes), inputTokens };
}

/**
 * Bounds a JSON body that is passed on, in the format of any provider.
 * @param path of the operation that it asks for
 * @param isRenamed the places that are named anew on their way up, beside the body's own `model`
 * @throws ApiError invalid_value for what can be read in two ways
 */
export function operationBounds(source: Source, path: Operation | string, isRenamed?: Renamed): AttemptBounds {
  const { parsed } = source;
  refuseDoubledWithin(source);
  const names = namesIn(source);
  const size = bodyBytes(source);
  // Thinking that is kept was an answer, and is not longer than one can be; what else is kept may be of any size.
  const thoughts = names.kept.filter(({ kind }) => kind === "reasoning").length;
  const pictures = names.kept.filter(({ kind }) => kind === "image").length;
  const { maxOutputTokens, choices = 1 } = outputIn(parsed);
  return {
    ...inputOf(size, thoughts * linkedFileTokens + pictures * imageTokens, [names]),
    maxOutputTokens: answersWithoutTokens.test(path) ? 0 : maxOutputTokens,
    choices,
    ...mediaBounds(path, size, choices),
    ...tierIn([parsed]),
    ...hosted(hostedToolsIn(names, parsed), /(?:^|\/)responses$/.test(path) ? parsed : undefined),
    ...othersIn(names, isRenamed),
    ...unboundedIn(names.kept.filter(({ kind }) => kind !== "reasoning" && kind !== "image")),
  };
}

/** The same of a call that a budget applies to; of any other undefined. */
export const heldBounds = (
  services: Services,
  context: RequestContext,
  caller: Caller,
  ...asked: Parameters<typeof operationBounds>
): AttemptBounds | undefined => (services.budgets.holds(caller, context.tags) ? operationBounds(...asked) : undefined);

/** Measures a body that is passed on, for an estimate of its tokens. */
export const inputMeter = (source: Source): TextMeter =>
  source.large === undefined ? bodyMeter(source.parsed) : { length: bodyBytes(source), sample: [] };

/** Their answers are numbers, and their models have no price for answers. */
const answersWithoutTokens = /(?:^|[/:])(?:embeddings|rerank|moderations|embedContent|batchEmbedContents)$/;

/** More images no provider makes in one call: https://platform.openai.com/docs/api-reference/images/createEdit */
const mostImages = 10;
/** The fewest bytes of a second that can be understood: half of what Opus needs at its lowest rate. */
const leastBytesPerSecond = 375;

/** Bounds a form that streams through, by its size. */
export function formBounds({ request }: RequestContext, operation: Operation): AttemptBounds {
  const inputBytes = contentLength(request.headers);
  if (inputBytes === undefined) return { inputBytes: 0, billed: "unknown" };
  return { inputBytes, choices: mostImages, ...mediaBounds(operation, inputBytes, mostImages) };
}

function mediaBounds(path: string, bytes: number, images: number): AttemptBounds | object {
  if (/(?:^|\/)images\/\w+$/.test(path)) return { images };
  if (/(?:^|\/)audio\/trans\w+$/.test(path)) return { audioSeconds: Math.ceil(bytes / leastBytesPerSecond) };
  return {};
}
