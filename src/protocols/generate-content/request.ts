/** A parsed body, checked and translated: the inner form, or the one `ApiError` that names what is wrong and where. */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { checkedAt } from "../body/checked.ts";
import { withoutUnset } from "../body/judged.ts";
import type { ChatRequest } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import { NativeOnly } from "../native-only.ts";
import { variablesIn } from "../translated-fields.ts";
import { conversationOf } from "./conversation.ts";
import { generationFields } from "./generation.ts";
import { canonical } from "./leniency.ts";
import { FunctionNames } from "./names.ts";
import type { Places } from "./places.ts";
import { GenerateContentBody } from "./schema.ts";
import { inOneSpelling } from "./spelling.ts";
import { toolsOf } from "./tools.ts";

const maybeUnset = ["topP", "topK"];

/** @param body as it was sent @param nativeOnly takes what Google's own API judges @throws ApiError invalid_value or missing_field */
export function checkGenerateContent(body: JsonObject, nativeOnly: NativeOnly): GenerateContentBody {
  const { contents, systemInstruction, ...rest } = inOneSpelling(body);
  const { generationConfig: config } = rest;
  const whole = {
    ...rest,
    ...(isObject(config) && { generationConfig: withoutUnset(config, maybeUnset) }),
    ...(contents !== undefined && { contents: listed(contents).map(contentOf) }),
    ...(systemInstruction != null && { systemInstruction: contentOf(systemInstruction) }),
  };
  return checkedAt(GenerateContentBody, canonical(GenerateContentBody, whole), undefined, (error) =>
    nativeOnly.refuse(error),
  );
}

/** The prompt to be counted: a whole request, or contents alone. */
export function countedPrompt(body: JsonObject): JsonObject {
  const whole = body["generateContentRequest"] ?? body["generate_content_request"];
  return isObject(whole) ? whole : body;
}

/** One stands for a list of one. */
export const listed = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** A text, a part, or a content whose parts may be one: what Google's own server and its libraries take for a content. */
export function contentOf(value: unknown): unknown {
  if (typeof value === "string") return { parts: [{ text: value }] };
  if (!isObject(value)) return value;
  const { parts } = value;
  if (isObject(parts)) return { ...value, parts: [parts] };
  return parts === undefined && "text" in value ? { role: value["role"], parts: [{ text: value["text"] }] } : value;
}

export type Translated = {
  readonly request: ChatRequest;
  readonly nativeOnly: NativeOnly;
  readonly places: Places;
  /** The caller's own names of functions, by those that are asked for. */
  readonly names: ReadonlyMap<string, string>;
};

/** Tiers, and what they are in the inner form. Source: https://ai.google.dev/gemini-api/docs/flex-inference */
export const tiers: Readonly<Record<string, string>> = { standard: "default", flex: "flex", priority: "priority" };

/** @param body checked @param model as the path names it */
export function innerRequest(
  body: GenerateContentBody,
  model: string,
  stream: boolean,
  nativeOnly = new NativeOnly(),
): Translated {
  const names = new FunctionNames();
  // First the declarations: their names are kept as they are where they can be.
  const tools = toolsOf(body, { nativeOnly, names });
  const { messages, places } = conversationOf(body, { nativeOnly, names });
  if (body.cachedContent) nativeOnly.part("cachedContent", "contents that are cached there are known to Google alone.");
  if (messages.length === 0) nativeOnly.refuse(ApiError.invalidValue("contents", "contents must hold some content."));
  const { safetySettings } = body;
  // Also by the whole name of its enum: `SERVICE_TIER_FLEX`.
  const tier = body.serviceTier?.toLowerCase().replace(/^service_tier_/, "");
  const request = {
    model,
    messages,
    ...(stream && { stream }),
    ...tools.fields,
    ...generationFields(body.generationConfig ?? {}, nativeOnly),
    ...(safetySettings != null && safetySettings.length > 0 && { safety_settings: safetySettings }),
    ...(tier && tier !== "unspecified" && { service_tier: ownMember(tiers, tier) ?? tier }),
    ...variablesIn(body as JsonObject),
  };
  return {
    request: request as ChatRequest,
    nativeOnly,
    places: { messages: places, tools: tools.places },
    names: names.own,
  };
}
