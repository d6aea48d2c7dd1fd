/**
 * Native endpoints: formats that an upstream speaks beside its own, as data of its row. A call whose client speaks one of them passes
 * untranslated, unless it says what the native endpoint is documented to drop and a translated call does not drop in silence.
 */
import { type TObject, Type } from "@sinclair/typebox";
import { isOf, type ModelRule } from "../facts/rules.ts";
import type { AnthropicRules } from "../facts/vocabulary/claude.ts";
import { isObject, type JsonObject, listOf, objectOf, saysNothing } from "../lib/json/json.ts";
import { specialWishes } from "../protocols/messages/ending.ts";
import { isChange, isReference } from "../protocols/responses/references.ts";
import { withoutSystemTurns } from "./anthropic/fit.ts";
import { messagesRoute } from "./anthropic/native.ts";
import { asOldest, versioned, withHeaders } from "./anthropic/on-cloud.ts";
import type { Account, Call, KeyPlace, NativeRoute } from "./provider.ts";
import { openaiResponses } from "./responses/quirks.ts";
import { nativeResponses, type ResponsesAddress } from "./responses/responses.ts";

/**
 * The parts of a format that an upstream drops or refuses, though a translated call carries them, or is refused here for them with words
 * of its own. What gets lost either way does not stand here.
 */
type Dropped = {
  /** Members of the body, by their paths: `output_config.format`; by a value, or one of a list: `tool_choice.type=any`. */
  readonly fields?: readonly string[];
  /** Parts and items, wherever they stand in the conversation, by their type; by a member of theirs: `image source.type=url`. */
  readonly parts?: readonly string[];
};

type NativeEndpoint = {
  /**
   * The base URL that clients of the format are given, as a path that takes the place of the row's own in the account's base URL. Absent: the
   * account's base URL.
   */
  readonly path?: string;
  /** Other endings of the account's base URL that `path` takes the place of. */
  readonly besides?: readonly string[];
  /** Default: the provider's own. */
  readonly keyPlace?: KeyPlace;
  /** The models that are to be had there. Absent: all are. */
  readonly models?: readonly Pick<ModelRule, "match" | "since">[];
  /**
   * Tools that it takes beside plain functions, by their type without its date, or by a member: `custom name=apply_patch`. A call with
   * any other is translated, where something may stand in for it. Absent: it takes all, or answers for itself.
   */
  readonly tools?: readonly string[];
  readonly drops?: Dropped;
  /** Members of the body that it does not know, and a translated call does not carry either: they are left out. */
  readonly leavesOut?: readonly string[];
};

type MessagesEndpoint = NativeEndpoint & {
  /** It counts the tokens of a prompt: `/v1/messages/count_tokens`. */
  readonly countsTokens?: true;
  /** The models behind it check signatures, as Claude does: thinking of other makers is left out. Absent: it goes back as it came. */
  readonly checksThinking?: true;
  /** `messages` may hold the role system. Absent: such turns, which Claude Code sends to names that it does not know, go as texts. */
  readonly systemTurns?: true;
  /** Its whole answers begin with the assistant's turn that ended the request: such a call is translated, which takes it away. */
  readonly repeatsPrefill?: true;
  /** The reading of what a persona sets, where it is not that of older Claude models. */
  readonly rules?: Partial<AnthropicRules>;
};

/** Answers are kept by this gateway alone. */
type ResponsesEndpoint = NativeEndpoint & {
  /** Its input may hold items that add tools, and change the configuration, as OpenAI's. Absent: a call with such is translated. */
  readonly takesChanges?: true;
};

export type NativeEndpoints = { readonly messages?: MessagesEndpoint; readonly responses?: ResponsesEndpoint };

type EndpointRoute = {
  readonly route: NativeRoute;
  /** @returns undefined where this call's account, or its model, has no such native endpoint */
  baseOf(call: Call): string | undefined;
};

/** @param row whose native endpoints they are */
export function nativeRoutes(row: {
  readonly name: string;
  readonly baseUrl: string;
  readonly nativeEndpoints?: NativeEndpoints;
}): Readonly<Record<string, EndpointRoute>> {
  const { messages, responses } = row.nativeEndpoints ?? {};
  const own = new URL(row.baseUrl || "http://localhost").pathname.replace(/\/$/, "");
  return {
    ...(messages !== undefined && { messages: messagesEndpoint(messages, own) }),
    ...(responses !== undefined && { responses: responsesEndpoint(responses, own, row.name) }),
  };
}

function messagesEndpoint(endpoint: MessagesEndpoint, own: string): EndpointRoute {
  const { keyPlace, rules, countsTokens, checksThinking, systemTurns } = endpoint;
  const placeIn = (account: Account) => ({ baseUrl: baseIn(account, "messages_base_url", own, endpoint)!, keyPlace });
  const { counter, ...route } = messagesRoute(placeIn, rules);
  const { takes } = taking(endpoint);
  return {
    baseOf: (call) => baseFor(call, "messages_base_url", own, endpoint),
    route: withHeaders(
      {
        ...route,
        ...(countsTokens === true && { counter }),
        takes: (body) =>
          specialWishes(body).length === 0 &&
          (endpoint.repeatsPrefill !== true || body["stream"] === true || !endsWithAnswer(body)) &&
          (checksThinking === true || !holds(body["messages"], [isCompaction])) &&
          (takes?.(body) ?? true),
        fit: (body) => without(systemTurns === true ? body : withoutSystemTurns(body, false), endpoint.leavesOut),
        keepsNothing: true,
        ...(checksThinking !== true && { takesAnyThinking: true }),
      },
      (headers, call) => versioned(headers, call, asOldest),
    ),
  };
}

const endsWithAnswer = ({ messages }: JsonObject): boolean =>
  objectOf(listOf(messages).at(-1))?.["role"] === "assistant";

function responsesEndpoint(endpoint: ResponsesEndpoint, own: string, provider: string): EndpointRoute {
  const { keyPlace, takesChanges } = endpoint;
  const { takes } = taking(endpoint);
  const addressOf: ResponsesAddress = (path, account) =>
    `${baseIn(account, "responses_base_url", own, endpoint)}/${path}`;
  const { encode, ...reading } = nativeResponses({ ...openaiResponses, provider }, addressOf);
  return {
    baseOf: (call) => baseFor(call, "responses_base_url", own, endpoint),
    route: {
      ...reading,
      encode: keyPlace === undefined ? encode : (body, call, headers) => ({ ...encode(body, call, headers), keyPlace }),
      takes: (body) =>
        !listOf(body["input"]).some((item) => isReference(item) || (takesChanges !== true && isChange(item))) &&
        (takes?.(body) ?? true),
      fit: (body) => without(body, endpoint.leavesOut),
      keepsNothing: true,
      takesAnyThinking: true,
    },
  };
}

/** The options by which an account moves or closes the native endpoints of its row. */
export function endpointOptions({ messages, responses }: NativeEndpoints = {}): TObject["properties"] {
  return {
    ...(messages !== undefined && { messages_base_url: address("Messages") }),
    ...(responses !== undefined && { responses_base_url: address("Responses") }),
  };
}

/** The option of an account's base URL of a format; false: there is none. */
export const address = (format: string) =>
  Type.Optional(
    Type.Union([Type.String({ pattern: "^https?://" }), Type.Literal(false)], {
      description: `The base URL of this server's ${format} format; false: it has none, and such calls are translated. Default: derived from base_url.`,
    }),
  );

function baseFor(call: Call, option: string, own: string, endpoint: NativeEndpoint): string | undefined {
  const isServed = endpoint.models?.some((rule) => isOf(rule, call.model)) ?? true;
  return isServed ? baseIn(call.account, option, own, endpoint) : undefined;
}

/** @param own path of the row's base URL: an account's that ends otherwise is no server of whose native endpoints anything is known */
function baseIn(
  { baseUrl, options }: Account,
  option: string,
  own: string,
  endpoint: NativeEndpoint,
): string | undefined {
  const named = options[option];
  if (typeof named === "string") return named.replace(/\/+$/, "");
  if (named === false) return undefined;
  const { path, besides = [] } = endpoint;
  if (path === undefined) return baseUrl;
  const ending = [...besides, own].find((one) => baseUrl.endsWith(one));
  return ending === undefined ? undefined : `${baseUrl.slice(0, baseUrl.length - ending.length)}${path}`;
}

/** @returns the body itself where it holds none of them */
function without(body: JsonObject, names: readonly string[] = []): JsonObject {
  if (!names.some((name) => Object.hasOwn(body, name))) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => !names.includes(name)));
}

/** A test of one object. */
type Says = (object: JsonObject) => boolean;

function taking({ drops: { fields = [], parts = [] } = {}, tools }: NativeEndpoint): Pick<NativeRoute, "takes"> {
  if (fields.length === 0 && parts.length === 0 && tools === undefined) return {};
  const dropped = fields.map(member);
  const droppedParts = parts.map(typed);
  const taken = tools?.map(typed);
  return {
    takes: (body) =>
      !dropped.some((says) => says(body)) &&
      (droppedParts.length === 0 ||
        ![body["system"], body["messages"], body["input"]].some((list) => holds(list, droppedParts))) &&
      (taken === undefined || listOf(body["tools"]).every((tool) => !isObject(tool) || isTaken(tool, taken))),
  };
}

/** Functions are taken everywhere; they have no type in one format, and `custom` means one there that has a schema. */
function isTaken(tool: JsonObject, taken: readonly Says[]): boolean {
  const isFunction = tool["type"] == null || tool["type"] === "function" || Object.hasOwn(tool, "input_schema");
  return isFunction || taken.some((says) => says(tool));
}

/** @param form `a.b` or `a.b=value`: the member says something, or this */
function member(form: string): Says {
  const [path = "", value] = form.split("=");
  const names = path.split(".");
  return (object) => {
    let found: unknown = object;
    for (const name of names) {
      if (!isObject(found) || !Object.hasOwn(found, name)) return false;
      found = found[name];
    }
    if (value !== undefined) return found === value || listOf(found).includes(value);
    return found !== false && !saysNothing(found);
  };
}

/** Claude's own: to other models its summary is said in words. */
const isCompaction: Says = ({ type }) => type === "compaction";

/** @param form a type, and what else it says behind a space */
function typed(form: string): Says {
  const [type, condition] = form.split(" ");
  const says = condition === undefined ? undefined : member(condition);
  return (object) => {
    const own = object["type"];
    if (typeof own !== "string" || own.replace(dated, "") !== type) return false;
    return says === undefined || says(object);
  };
}

const dated = /_20\d{6}$/;

function holds(list: unknown, types: readonly Says[]): boolean {
  return listOf(list).some(
    (one) =>
      isObject(one) && (types.some((says) => says(one)) || holds(one["content"], types) || holds(one["output"], types)),
  );
}
