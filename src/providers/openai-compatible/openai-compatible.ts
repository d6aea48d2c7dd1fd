/** Providers that speak chat completions themselves: one factory, and their differences as data. */
import { type TObject, Type } from "@sinclair/typebox";
import { following, rowsOf } from "../../facts/facts.ts";
import { type ModelRule, rulesFor } from "../../facts/rules.ts";
import { Quirks } from "../../facts/vocabulary/chat.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { patchBody } from "../../protocols/body/patched-body.ts";
import { respell } from "../../protocols/body/source.ts";
import { idsFor } from "../made-ids.ts";
import { chatModelList } from "../model-lists.ts";
import { endpointOptions, type NativeEndpoints, nativeRoutes } from "../native-endpoints.ts";
import type {
  Account,
  Call,
  KeyPlace,
  ModelListFormat,
  Operation,
  ProviderEnvironment,
  RemoteMedia,
  RemoteProvider,
  UpstreamRequest,
} from "../provider.ts";
import type { ResponsesQuirks } from "../responses/quirks.ts";
import { type ResponsesAddress, type Rules, withResponses } from "../responses/responses.ts";
import { asksForThoughts, thinkingOptions } from "../thinking-options.ts";
import { completionOf } from "./answer.ts";
import { callerNames, requestBody } from "./request.ts";
import { servedAmong, servedAnswer } from "./served.ts";
import { ChatStream } from "./stream.ts";
import { textCompletions } from "./text-completions.ts";

type CompatibleSpec = {
  readonly name: string;
  /** "" where every account has its own: then the config or the environment must name it. */
  readonly baseUrl: string;
  readonly environment: ProviderEnvironment;
  readonly keyOptional?: boolean;
  readonly models?: readonly string[];
  readonly quirks?: Quirks;
  /** Quirks of single models; the first row to name a key wins, and all of them over `quirks`. What the facts say of a model goes before. */
  readonly modelRules?: readonly (Rules & ModelRule)[];
  /** The provider whose rows of facts count here. Default: its own. */
  readonly maker?: string;
  /** Default: OpenAI's, at `/models` below the base URL. null: it is not documented to have one. */
  readonly modelList?: ModelListFormat | null;
  /** Extra options beside those that every such provider takes. */
  readonly extras?: TObject;
  /** Settings of an account. */
  readonly options?: TObject;
  /** Default: below the account's base URL. */
  readonly url?: (operation: string, model: string, account: Account) => string;
  /** Operations that it is known not to have. */
  readonly lacks?: readonly Operation[];
  readonly operationFields?: RemoteProvider["operationFields"];
  readonly keyPlace?: KeyPlace;
  readonly maxTools?: number;
  /** The differences of its Responses format, where it speaks it. */
  readonly responses?: ResponsesQuirks;
  /** Default: below the account's base URL. */
  readonly responsesAddress?: ResponsesAddress;
  /** The option by which an account has none of it, where it is false. Default: every account has it. */
  readonly responsesOption?: string;
  /** Formats that it speaks beside chat completions. */
  readonly nativeEndpoints?: NativeEndpoints;
};

const thinking = Type.Optional(
  Type.Object(
    { type: Type.String() },
    { additionalProperties: true, description: "Switches thinking where the upstream has a switch." },
  ),
);

export function openAiCompatible(spec: CompatibleSpec): RemoteProvider {
  const { name, baseUrl, environment, quirks = {}, modelRules = [], maker = name, responses } = spec;
  const routes = nativeRoutes(spec);
  const options = optionsOf(spec);
  const known = rowsOf("chat", maker);
  const rows = following<Rules & ModelRule>(() => [...known, ...modelRules, { ...quirks, match: "*" }]);
  const quirksOf = ({ model, account, learned }: Call): Rules =>
    rulesFor<Rules>(model, learned ?? account.modelRules, rows);
  const { keyPlace, url = below, lacks = [], operationFields, modelList = chatModelList } = spec;
  const legacy = textCompletions(url);
  const chat: RemoteProvider = {
    kind: "remote",
    format: "chat",
    name,
    baseUrl,
    environment,
    keyOptional: spec.keyOptional ?? false,
    models: spec.models ?? [],
    extras: Type.Object({ ...thinkingOptions, thinking, ...spec.extras?.properties }),
    modelRules: Quirks,
    ...(maker === name ? {} : { rowsFor: () => [{ format: "chat", provider: maker }] }),
    ...(options === undefined ? {} : { options }),
    wantsThoughts: asksForThoughts,
    ...(keyPlace === undefined ? {} : { keyPlace }),
    ...(spec.maxTools === undefined ? {} : { maxTools: spec.maxTools }),
    endpoint: (operation, model, account) => (lacks.includes(operation) ? undefined : url(operation, model, account)),
    ...(operationFields === undefined ? {} : { operationFields }),
    ...(modelList === null ? {} : { modelList }),
    native(format, call) {
      if (format === "completions") return quirksOf(call).completions === true ? legacy : undefined;
      const endpoint = ownMember(routes, format);
      return endpoint?.baseOf(call) === undefined ? undefined : endpoint.route;
    },
    remoteMedia: (call) => (quirksOf(call).inline_images === true ? remoteImages(call) : []),
    encode: (call) => ({
      url: url("chat/completions", call.model, call.account),
      body: written(call, quirksOf(call)),
    }),
    decode(body, text, call) {
      const quirks = quirksOf(call);
      const repeats = quirks.echoes_last_answer === true || quirks.repeats_prefill === true;
      const answer = completionOf(body, text, quirks, idsFor(call), repeats ? lastAnswerOf(call) : undefined);
      return Object.hasOwn(call.request, "models") ? servedAnswer(answer, body, servedAmong(call)) : answer;
    },
    streamDecoder(call) {
      const quirks = quirksOf(call);
      const echo = quirks.echoes_last_answer === true ? lastAnswerOf(call) : undefined;
      return new ChatStream(quirks, idsFor(call), echo, servedAmong(call));
    },
  };
  return responses === undefined ? chat : withResponses(chat, responses, quirksOf, spec);
}

function optionsOf({ options, nativeEndpoints }: CompatibleSpec): TObject | undefined {
  const properties = { ...options?.properties, ...endpointOptions(nativeEndpoints) };
  return Object.keys(properties).length === 0 ? undefined : Type.Object(properties);
}

/** Copied from what the caller sent, as far as that did not change. */
function written(call: Call, quirks: Quirks): NonNullable<UpstreamRequest["body"]> {
  const body = requestBody(call, quirks);
  const { source } = call;
  if (source === undefined) return JSON.stringify(body);
  return respell(source, body) ?? patchBody(source, body, namesUnder(quirks));
}

const namesUnder = (quirks: Quirks) => (name: string) => callerNames(name, quirks);

const below = (operation: string, _model: string, { baseUrl }: Account) => `${baseUrl}/${operation}`;

/** @returns the text of a final assistant message, which some upstreams repeat before their answer */
function lastAnswerOf({ request }: Call): string | undefined {
  const last = request.messages.at(-1);
  return last?.role === "assistant" && typeof last.content === "string" ? last.content || undefined : undefined;
}

function remoteImages({ request }: Call): RemoteMedia[] {
  return request.messages.flatMap(({ content }, at) => {
    if (!Array.isArray(content)) return [];
    return content.flatMap((part, partAt) => {
      if (part.type !== "image_url" || part.image_url.url.startsWith("data:")) return [];
      return [{ url: part.image_url.url, param: `messages[${at}].content[${partAt}].image_url.url` }];
    });
  });
}
