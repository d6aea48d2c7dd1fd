/** A parsed body, checked and translated: the inner form, or the one `ApiError` that names what is wrong and where. */
import type { JsonObject } from "../../lib/json/json.ts";
import type { ChatRequest, ResponseFormat } from "../chat/schema.ts";
import { checked } from "../checked.ts";
import { ApiError } from "../errors.ts";
import { NativeOnly } from "../native-only.ts";
import { type Ranges, withinRanges } from "../sampling-ranges.ts";
import { answerFormat, variablesIn } from "../translated-fields.ts";
import { conversationOf } from "./conversation.ts";
import { specialWishes } from "./ending.ts";
import { innerTier } from "./facts.ts";
import { marker } from "./parts.ts";
import { CountBody, MessagesBody } from "./schema.ts";
import { thinkingOptions } from "./thinking.ts";
import { toolFields } from "./tools.ts";

/** @throws ApiError invalid_value or missing_field */
export const checkMessages = (body: JsonObject): MessagesBody => checked(MessagesBody, body) as MessagesBody;

/** A prompt to be counted, which needs no max_tokens. @throws ApiError invalid_value or missing_field */
export function checkCount(body: JsonObject): MessagesBody {
  return { max_tokens: 1, ...(checked(CountBody, body) as CountBody) };
}

export type Translated = { readonly request: ChatRequest; readonly nativeOnly: NativeOnly };

const ranges: Ranges = { temperature: [0, 1], top_p: [0, 1], top_k: [0] };

/** @param body checked */
export function innerRequest(body: MessagesBody): Translated {
  const nativeOnly = new NativeOnly();
  const { model, max_tokens, stop_sequences, stream, service_tier } = body;
  const { temperature, top_p, top_k } = withinRanges(body, ranges, nativeOnly);
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
