/**
 * Doors: formats that an upstream speaks beside its own, as data of its row. A call whose client speaks one of them passes
 * untranslated, unless it says what the door is documented to drop and a translated call does not drop in silence.
 */
import { type TObject, Type } from "@sinclair/typebox";
import { isObject, type JsonObject, saysNothing } from "../lib/json/json.ts";
import { messagesRoute } from "./anthropic/native.ts";
import type { AnthropicRules } from "./anthropic/rules.ts";
import type { Account, KeyPlace, NativeRoute } from "./provider.ts";
import { openaiResponses } from "./responses/quirks.ts";
import { nativeResponses } from "./responses/responses.ts";

/**
 * The parts of a format that an upstream drops in silence, though a translated call carries them, or is refused for them. What is dropped
 * either way does not stand here.
 */
type Dropped = {
  /** Members of the body, by their paths: `top_k`, `output_config.format`. */
  readonly fields?: readonly string[];
  /** Types of parts and items, wherever they stand in the conversation. */
  readonly parts?: readonly string[];
  /** Types of tools, without their dates: `web_search`. */
  readonly tools?: readonly string[];
};

type Door = {
  /**
   * The base URL that clients of the format are given, as a path that takes the place of the row's own in the account's base URL. Absent: the
   * account's base URL.
   */
  readonly path?: string;
  /** Default: the provider's own. */
  readonly keyPlace?: KeyPlace;
  readonly drops?: Dropped;
};

export type MessagesDoor = Door & {
  /** It counts the tokens of a prompt: `/v1/messages/count_tokens`. */
  readonly countsTokens?: true;
  /** The models behind it check signatures, as Claude does: thinking of other makers is left out. Absent: it goes back as it came. */
  readonly checksThinking?: true;
  /** The reading of what a persona sets, where it is not that of older Claude models. */
  readonly rules?: Partial<AnthropicRules>;
};

/** Answers are kept by this gateway alone. */
export type ResponsesDoor = Door;

export type Doors = { readonly messages?: MessagesDoor; readonly responses?: ResponsesDoor };

export type DoorRoute = {
  readonly route: NativeRoute;
  /** @returns undefined where this account has no such door */
  baseOf(account: Account): string | undefined;
};

/** @param row whose doors they are */
export function doorRoutes(row: {
  readonly name: string;
  readonly baseUrl: string;
  readonly doors?: Doors;
}): Readonly<Record<string, DoorRoute>> {
  const { messages, responses } = row.doors ?? {};
  const own = new URL(row.baseUrl || "http://localhost").pathname.replace(/\/$/, "");
  const routes: Record<string, DoorRoute> = {};
  if (messages !== undefined) {
    const baseOf = (account: Account) => baseIn(account, "messages_base_url", own, messages.path);
    const route = messagesRoute(
      (account) => ({ baseUrl: baseOf(account)!, keyPlace: messages.keyPlace }),
      messages.rules,
    );
    const { counter, ...uncounted } = route;
    routes["messages"] = {
      baseOf,
      route: {
        ...(messages.countsTokens === true ? route : uncounted),
        ...taking(messages.drops),
        keepsNothing: true,
        ...(messages.checksThinking === true ? {} : { takesAnyThinking: true }),
      },
    };
  }
  if (responses !== undefined) {
    const baseOf = (account: Account) => baseIn(account, "responses_base_url", own, responses.path);
    const { encode, ...reading } = nativeResponses(
      { ...openaiResponses, provider: row.name },
      (path, account) => `${baseOf(account)}/${path}`,
    );
    const { keyPlace } = responses;
    routes["responses"] = {
      baseOf,
      route: {
        ...reading,
        encode:
          keyPlace === undefined ? encode : (body, call, headers) => ({ ...encode(body, call, headers), keyPlace }),
        ...taking(responses.drops),
        keepsNothing: true,
        takesAnyThinking: true,
      },
    };
  }
  return routes;
}

/** The options by which an account moves or closes the doors of its row. */
export function doorOptions({ messages, responses }: Doors = {}): TObject["properties"] {
  return {
    ...(messages !== undefined && { messages_base_url: address("Messages") }),
    ...(responses !== undefined && { responses_base_url: address("Responses") }),
  };
}

const address = (format: string) =>
  Type.Optional(
    Type.Union([Type.String({ pattern: "^https?://" }), Type.Literal(false)], {
      description: `The base URL of this server's ${format} format; false: it has none, and such calls are translated. Default: derived from base_url.`,
    }),
  );

/** @param own path of the row's base URL: an account's that ends otherwise is no server of whose doors anything is known */
function baseIn({ baseUrl, options }: Account, option: string, own: string, path = own): string | undefined {
  const named = options[option];
  if (typeof named === "string") return named.replace(/\/+$/, "");
  if (named === false) return undefined;
  if (path === own) return baseUrl;
  return baseUrl.endsWith(own) ? `${baseUrl.slice(0, baseUrl.length - own.length)}${path}` : undefined;
}

function taking(dropped: Dropped | undefined): Pick<NativeRoute, "takes"> {
  if (dropped === undefined) return {};
  const fields = (dropped.fields ?? []).map((field) => field.split("."));
  const parts = new Set<unknown>(dropped.parts);
  const tools = new Set<unknown>(dropped.tools);
  return {
    takes: (body) =>
      !fields.some((path) => says(body, path)) &&
      (parts.size === 0 || ![body["system"], body["messages"], body["input"]].some((list) => holds(list, parts))) &&
      (tools.size === 0 || !(Array.isArray(body["tools"]) && body["tools"].some((tool) => tools.has(kindOf(tool))))),
  };
}

function says(body: JsonObject, path: readonly string[]): boolean {
  let value: unknown = body;
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return false;
    value = value[name];
  }
  return value !== false && !saysNothing(value);
}

function holds(list: unknown, types: ReadonlySet<unknown>): boolean {
  if (!Array.isArray(list)) return false;
  return list.some(
    (one) => isObject(one) && (types.has(one["type"]) || holds(one["content"], types) || holds(one["output"], types)),
  );
}

const kindOf = (tool: unknown): unknown =>
  isObject(tool) && typeof tool["type"] === "string" ? tool["type"].replace(/_20\d{6}$/, "") : undefined;
