/** Reads a response object of the Responses format: its output, its end, its usage, its errors. */
import type { ResponseError } from "openai/resources/responses/responses";
import { type JsonObject, listOf, objectOf, saysNothing, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import type {
  Annotation,
  AnswerMessage,
  ChunkBody,
  CompletionBody,
  CustomToolCall,
  TokenLogprob,
  ToolCall,
} from "../../protocols/chat/schema.ts";
import { writtenArguments } from "../../protocols/chat/tools.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import { countsOf, finishReasonOf, hasEnded } from "../../protocols/responses/ending.ts";
import { endError } from "../../protocols/responses/errors.ts";
import { thoughtsOf } from "../../protocols/responses/reasoning.ts";
import type { MakeId } from "../made-ids.ts";
import { citationsOf, logprobsOf, metadataOf, objectsIn, textAt, textIn } from "../reading.ts";
import type { ResponsesQuirks } from "./quirks.ts";

/** A reasoning item as the message carries it; `call_id` where it led to a call and not to the text. */
type ReasoningState = { id?: string; encrypted_content: string; summary: unknown; call_id?: string };

/** @returns undefined for an item without encrypted content, which nobody can continue */
function stateOf({ id, encrypted_content, summary }: JsonObject): ReasoningState | undefined {
  if (typeof encrypted_content !== "string" || encrypted_content === "") return undefined;
  return { ...(typeof id === "string" && { id }), encrypted_content, summary: listOf(summary) };
}

/** The same of one item, under the provider's name; undefined where it is no reasoning, or has no state. */
export function reasoningState(item: JsonObject, { provider }: ResponsesQuirks): JsonObject | undefined {
  const state = item["type"] === "reasoning" ? stateOf(item) : undefined;
  return state && { [provider]: { reasoning: [state] } };
}

/** One of several messages that were read as one: how much of the text it is. */
type PhaseState = { length: number; phase?: string };

/** The output items of a response, read as one message. */
export class Output {
  text = "";
  refusal = "";
  readonly thoughts: string[] = [];
  readonly calls: (ToolCall | CustomToolCall)[] = [];
  readonly annotations: Annotation[] = [];
  readonly logprobs: TokenLogprob[] = [];
  /** Images as data URLs. */
  readonly images: string[] = [];
  readonly #reasoning: ReasoningState[] = [];
  readonly #quirks: ResponsesQuirks;
  readonly #makeId: MakeId;
  /** Reasoning whose fruit has not come yet. */
  #pending: ReasoningState[] = [];
  /** The parts of the message, where the upstream gives it in several. */
  readonly #phases: PhaseState[] = [];

  /** @throws InvalidAnswer where an item is not of its kind's form */
  constructor(items: readonly JsonObject[], quirks: ResponsesQuirks, makeId: MakeId) {
    this.#quirks = quirks;
    this.#makeId = makeId;
    for (const item of items) this.#item(item);
  }

  /** The state that the next turn must bring back, under the provider's name; undefined when there is nothing. */
  replayState(responseId: unknown): Record<string, unknown> | undefined {
    const [first, ...others] = this.#phases;
    const isOne = others.every(({ phase }) => phase === first?.phase);
    if (this.#reasoning.length === 0 && isOne && first?.phase === undefined) return undefined;
    const state = {
      response_id: responseId,
      ...(this.#reasoning.length > 0 && { reasoning: this.#reasoning }),
      ...(isOne ? first?.phase !== undefined && { phase: first.phase } : { phases: this.#phases }),
    };
    return { [this.#quirks.provider]: state };
  }

  #item(item: JsonObject): void {
    if (item["type"] === "reasoning") this.#reason(item);
    else if (item["type"] === "message") this.#message(item);
    else if (item["type"] === "image_generation_call") this.#image(item);
    else this.#call(callOf(item, this.calls.length, this.#quirks, this.#makeId));
  }

  #call(call: ToolCall | CustomToolCall | undefined): void {
    if (call === undefined) return;
    this.calls.push(call);
    for (const state of this.#pending) state.call_id = call.id;
    this.#pending = [];
  }

  #message(item: JsonObject): void {
    this.#pending = [];
    const begin = this.text.length;
    for (const part of objectsIn(item, "content")) {
      this.refusal += textIn(part, "refusal") ?? "";
      // Offsets count from the start of their part; the message is all parts in a row.
      this.annotations.push(...citationsOf(part["annotations"], this.text.length));
      this.text += textIn(part, "text") ?? "";
      this.logprobs.push(...logprobsOf(part["logprobs"]));
    }
    const phase = textOf(item["phase"]);
    this.#phases.push({ length: this.text.length - begin, ...(phase !== undefined && { phase }) });
  }

  /** https://platform.openai.com/docs/guides/tools-image-generation */
  #image({ result, output_format }: JsonObject): void {
    if (typeof result !== "string" || result === "") return;
    this.images.push(`data:image/${textOf(output_format) ?? "png"};base64,${result}`);
  }

  #reason(item: JsonObject): void {
    this.thoughts.push(...thoughtsOf(item));
    const state = stateOf(item);
    if (state === undefined) return;
    this.#reasoning.push(state);
    this.#pending.push(state);
  }
}

/** A call that the caller has to make; undefined for what the upstream does by itself. */
export function callOf(
  item: JsonObject,
  position: number,
  quirks: ResponsesQuirks,
  makeId: MakeId,
): ToolCall | CustomToolCall | undefined {
  const id = textOf(item["call_id"]) || textOf(item["id"]) || makeId("call", 0, position);
  if (textAt(item, "type") === "function_call") {
    return {
      id,
      type: "function",
      function: { name: textAt(item, "name"), arguments: writtenArguments(textIn(item, "arguments") ?? "") },
    };
  }
  if (item["type"] !== "custom_tool_call" || !quirks.customTools) return undefined;
  return { id, type: "custom", custom: { name: textAt(item, "name"), input: textIn(item, "input") ?? "" } };
}

type Notes = Pick<ChunkBody, "service_tier" | "system_fingerprint" | "metadata">;

/** The members of a response that stand beside the answer. */
export function notesOf(response: JsonObject, quirks: ResponsesQuirks): Notes {
  const service_tier = textOf(response["service_tier"]);
  const metadata = metadataOf(response["metadata"]);
  const fingerprint = metadata?.["system_fingerprint"];
  return {
    ...(service_tier !== undefined && { service_tier }),
    ...(quirks.metadata === "upstream" && fingerprint !== undefined && { system_fingerprint: fingerprint }),
    ...(quirks.metadata === "caller" && metadata && { metadata }),
  };
}

/**
 * A plain answer.
 * @throws UpstreamFault when it is an error; InvalidAnswer when it is no response object, or one that has not ended
 */
export function completionOf(body: unknown, text: string, quirks: ResponsesQuirks, makeId: MakeId): CompletionBody {
  const response = objectOf(body) ?? {};
  const status = faultStatus(response);
  if (status !== undefined) throw new UpstreamFault(faultText(response, text), status, countsOf(response));
  const items = objectsIn(response, "output");
  if (!Array.isArray(response["output"]) || !hasEnded(response, items)) {
    throw new InvalidAnswer("something that is no answer");
  }
  const output = new Output(items, quirks, makeId);
  const usage = countsOf(response);
  const finish_reason = finishReasonOf(response, output.calls.length);
  return {
    choices: [{ index: 0, message: messageOf(output, response["id"]), finish_reason, ...logprobsIn(output) }],
    ...(usage && { usage }),
    ...notesOf(response, quirks),
  };
}

function messageOf(output: Output, responseId: unknown): AnswerMessage {
  const silent = output.calls.length > 0 || output.refusal !== "";
  const extra_content = output.replayState(responseId);
  return {
    role: "assistant",
    content: output.text === "" && silent ? null : output.text,
    ...(output.refusal !== "" && { refusal: output.refusal }),
    ...(output.thoughts.length > 0 && { reasoning_content: output.thoughts.join("\n\n") }),
    ...(output.calls.length > 0 && { tool_calls: output.calls }),
    ...(output.annotations.length > 0 && { annotations: output.annotations }),
    ...(output.images.length > 0 && { images: imageParts(output.images, 0) }),
    ...(extra_content && { extra_content }),
  };
}

/** Images have no field in the public format: they go where other gateways put them too. @param first their numbers begin there */
export function imageParts(urls: readonly string[], first: number): JsonObject[] {
  return urls.map((url, at) => ({ index: first + at, type: "image_url", image_url: { url } }));
}

function logprobsIn({ logprobs }: Output): { logprobs?: { content: TokenLogprob[] } } {
  return logprobs.length > 0 ? { logprobs: { content: logprobs } } : {};
}

/** Source: https://platform.openai.com/docs/api-reference/responses/object (error.code) */
const statusByDocumentedCode: Readonly<Record<ResponseError["code"], number>> = {
  server_error: 500,
  rate_limit_exceeded: 429,
  invalid_prompt: 400,
  data_residency_mismatch: 400,
  bio_policy: 400,
  misalignment_policy_violation: 400,
  vector_store_timeout: 504,
  invalid_image: 400,
  invalid_image_format: 400,
  invalid_base64_image: 400,
  invalid_image_url: 400,
  image_too_large: 400,
  image_too_small: 400,
  image_parse_error: 400,
  image_content_policy_violation: 400,
  invalid_image_mode: 400,
  image_file_too_large: 400,
  unsupported_image_media_type: 400,
  empty_image_file: 400,
  failed_to_download_image: 400,
  image_file_not_found: 400,
};

/** By code or, failing that, by type. Source: https://platform.openai.com/docs/guides/error-codes */
const statusByName: Readonly<Record<string, number>> = {
  ...statusByDocumentedCode,
  insufficient_quota: 429,
  server_is_overloaded: 503,
  slow_down: 503,
  context_length_exceeded: 400,
  invalid_api_key: 401,
  model_not_found: 404,
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  rate_limit_error: 429,
  service_unavailable_error: 503,
};

/** @param error may have the status itself, as Azure's filter writes it behind a 200 */
function errorStatus(error: JsonObject): number {
  const told = [error["status"], error["code"]]
    .map((one) => (typeof one === "string" || typeof one === "number" ? Number(one) : Number.NaN))
    .find((one) => Number.isInteger(one) && one >= 400 && one < 600);
  return (
    told ??
    ownMember(statusByName, textOf(error["code"]) ?? "") ??
    ownMember(statusByName, textOf(error["type"]) ?? "") ??
    500
  );
}

/**
 * The status of the error that a body is or holds; undefined when it is none. xAI's flat shape,
 * `{"code":"…","error":"…"}` beside a 200, says that the service is unavailable.
 */
function faultStatus(body: JsonObject): number | undefined {
  const { error, status } = body;
  if (typeof error === "string" && error !== "") return 503;
  const details = objectOf(error);
  if (details !== undefined && !saysNothing(details)) return errorStatus(details);
  return badEnds.has(status) ? 500 : undefined;
}

const badEnds: ReadonlySet<unknown> = new Set(["failed", "cancelled"]);

/** @param text of the response, which says nothing to people where its error has no words */
function faultText(response: JsonObject, text: string): string {
  const { error, status } = response;
  const isSaid = typeof error === "string" || textOf(objectOf(error)?.["message"]);
  return isSaid || !badEnds.has(status) ? text : JSON.stringify({ error: endError(response) });
}

/** What each of them says of its response. */
const faultEvents = new Map<unknown, string | undefined>([
  ["error", undefined],
  ["response.failed", "failed"],
  ["response.cancelled", "cancelled"],
]);

/**
 * The error that an event reports, in the place where clients look for one: `{"error":…}`. Three shapes are in use:
 * an object of that name beside `type`, its fields beside `type`, and a failed response.
 */
export function eventFault(kind: unknown, event: JsonObject, text: string): UpstreamFault | undefined {
  const given = objectOf(event["response"]);
  const status = faultStatus(given ?? event);
  if (status === undefined && !faultEvents.has(kind)) return undefined;
  const ended = faultEvents.get(kind);
  const isFlat = event["error"] != null || textOf(event["message"]);
  const response = ended !== undefined && !isFlat ? { status: ended, ...given } : given;
  const counted = response && countsOf(response);
  if (response !== undefined) {
    const said = response["error"] == null ? text : JSON.stringify({ error: response["error"] });
    return new UpstreamFault(faultText(response, said), status ?? 500, counted);
  }
  if (event["error"] != null) return new UpstreamFault(text, status ?? 500, counted);
  const { type: _type, sequence_number: _number, ...error } = event;
  return new UpstreamFault(JSON.stringify({ error }), errorStatus(error));
}
