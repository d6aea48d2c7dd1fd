/** A parsed body, checked and translated: the inner form, or the one `ApiError` that names what is wrong and where. */
import type { JsonObject } from "../../lib/json/json.ts";
import { checkedAt } from "../body/checked.ts";
import { withoutUnset } from "../body/judged.ts";
import type { ChatRequest, ResponseFormat } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import { NativeOnly } from "../native-only.ts";
import { answerFormat, variablesIn } from "../translated-fields.ts";
import { conversationOf } from "./conversation.ts";
import { specialWishes } from "./ending.ts";
import { innerTier } from "./facts.ts";
import { marker } from "./parts.ts";
import { CountBody, MessagesBody } from "./schema.ts";
import { thinkingOptions } from "./thinking.ts";
import { toolFields } from "./tools.ts";

const maybeUnset = ["top_p", "top_k"];

/** @param nativeOnly takes what Anthropic's own API judges; absent: it is thrown @throws ApiError invalid_value or missing_field */
export const checkMessages = (body: JsonObject, nativeOnly?: NativeOnly): MessagesBody =>
  checkedAt(
    MessagesBody,
    withoutUnset(body, maybeUnset),
    undefined,
    nativeOnly && ((error) => nativeOnly.refuse(error)),
  );

/** A prompt to be counted, which needs no max_tokens. @throws as `checkMessages` does */
export function checkCount(body: JsonObject, nativeOnly?: NativeOnly): MessagesBody {
  const prompt: CountBody = checkedAt(CountBody, body, undefined, nativeOnly && ((error) => nativeOnly.refuse(error)));
  return { max_tokens: 1, ...prompt };
}

export type Translated = { readonly request: ChatRequest; readonly nativeOnly: NativeOnly };

/** @param body checked */
export function innerRequest(body: MessagesBody, nativeOnly = new NativeOnly()): Translated {
  const { model, max_tokens, temperature, top_p, top_k, stop_sequences, stream, service_tier } = body;
  // The official client's tool runner asks for one, and sends all turns itself where it is refused for just this.
  if (body.thread != null)
    nativeOnly.part("thread", "conversations that the provider keeps are known to Anthropic alone.");
  // Promises about the place and the speed: whoever can't keep one must not answer in silence.
  for (const name of specialWishes(body))
    nativeOnly.part(name, "it can be had of Anthropic's own API alone, and by its own format.");
  const messages = conversationOf(body, nativeOnly);
  if (messages.length === 0) nativeOnly.refuse(ApiError.invalidValue("messages", "messages must hold some content."));
  const request = {
    model,
    messages,
    max_completion_tokens: max_tokens,
    ...(temperature != null && { temperature }),
    ...(top_p != null && { top_p }),
    ...(top_k != null && { top_k }),
    ...(stop_sequences != null && stop_sequences.length > 0 && { stop: stop_sequences }),
    ...(stream != null && { stream }),
    ...toolFields(body, nativeOnly),
    ...thinkingOptions(body),
    ...responseFormat(body),
    ...userOf(body),
    ...(service_tier != null && { service_tier: innerTier(service_tier) }),
    ...variablesIn(body as JsonObject),
    ...marker(body),
  };
  return { request: request as ChatRequest, nativeOnly };
}

function responseFormat({ output_config, output_format }: MessagesBody): { response_format?: ResponseFormat } {
  const format = output_config?.format ?? output_format;
  return format == null ? {} : { response_format: answerFormat(format.schema as JsonObject) };
}

/** "Invalid 'user': string too long. Expected a string with maximum length 64": a longer one is named by its hash. */
const maxUser = 64;

function userOf({ metadata }: MessagesBody): { user?: string } {
  const id = metadata?.user_id;
  if (id == null || id === "") return {};
  return { user: id.length <= maxUser ? id : new Bun.CryptoHasher("sha256").update(id).digest("hex") };
}
