/**
 * Gemini's answers in the public format. A stream's events are partial answers of the same form as a whole one, so one
 * reader serves both.
 * Source: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
 */
import { type JsonObject, listOf, numberOf, objectOf, parseJson, textOf } from "../lib/json.ts";
import type { SseEvent } from "../lib/sse.ts";
import type {
  AnswerMessage,
  ChunkBody,
  ChunkChoice,
  CompletionBody,
  Delta,
  FinishReason,
  ToolCallDelta,
  Usage,
} from "../wire/chat.ts";
import { UpstreamFault } from "../wire/errors.ts";
import { citationsOf } from "./google-citations.ts";
import { logprobsOf, usageOf } from "./google-counts.ts";
import { PartialArguments } from "./google-partial-arguments.ts";
import { thoughtsWanted } from "./google-thinking.ts";
import type { Call, StreamDecoder } from "./provider.ts";

/**
 * Every other reason is an end of which nothing more can be said here: "stop", with the reason itself in `metadata`.
 * Source: https://ai.google.dev/api/generate-content#FinishReason
 */
const finishReasons: Readonly<Record<string, FinishReason>> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  // The answer is unfinished, and `continuation_token` continues it.
  CONTINUATION: "length",
  SAFETY: "content_filter",
  RECITATION: "content_filter",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  SPII: "content_filter",
  LANGUAGE: "content_filter",
  IMAGE_SAFETY: "content_filter",
  IMAGE_PROHIBITED_CONTENT: "content_filter",
  IMAGE_RECITATION: "content_filter",
  MODEL_ARMOR: "content_filter",
};
const selfEvident = new Set(["STOP", "MAX_TOKENS"]);

/** Source: https://ai.google.dev/gemini-api/docs/troubleshooting#error-codes */
const statusByName: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ABORTED: 409,
  ALREADY_EXISTS: 409,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
};

/** @throws UpstreamFault when the answer is an error, or holds neither candidates nor the reason why there are none */
export function decodeAnswer(body: unknown, text: string, call: Call): CompletionBody {
  const reader = new AnswerReader(call, true);
  const { choices, usage: _, ...rest } = reader.read(body, text);
  if (choices.length === 0) throw new UpstreamFault(text, 503);
  const usage = reader.takeUsage();
  return { ...rest, choices: choices.map(choiceOf), ...(usage !== undefined && { usage }) };
}

function choiceOf({ index, delta, finish_reason, ...rest }: ChunkChoice): CompletionBody["choices"][number] {
  const { tool_calls, content, ...fields } = delta;
  const message: AnswerMessage = { ...fields, role: "assistant", content: content ?? null };
  if (tool_calls !== undefined) {
    message.tool_calls = tool_calls.map(({ index: _, ...one }) => one) as NonNullable<AnswerMessage["tool_calls"]>;
  }
  return { ...rest, index, message, finish_reason: finish_reason ?? "stop" };
}

/** There is no terminal event: the end of the stream is the end of the connection, and it must come after a reason. */
export class GoogleStreamDecoder implements StreamDecoder {
  readonly finished = false;
  readonly #reader: AnswerReader;

  constructor(call: Call) {
    this.#reader = new AnswerReader(call, false);
  }

  push({ data }: SseEvent): ChunkBody[] {
    const body = this.#reader.read(parseJson(data), data);
    const usage = this.#reader.complete ? this.#reader.takeUsage() : undefined;
    if (usage !== undefined) body.usage = usage;
    return body.choices.length === 0 && usage === undefined ? [] : [body];
  }

  end(): ChunkBody[] {
    const usage = this.#reader.takeUsage();
    return usage === undefined ? [] : [{ choices: [], usage }];
  }
}

class AnswerReader {
  readonly #call: Call;
  readonly #whole: boolean;
  readonly #candidates = new Map<number, CandidateReader>();
  #usage: JsonObject | undefined;

  /** @param whole whether what is read is all there is: then a missing reason is none to doubt the answer */
  constructor(call: Call, whole: boolean) {
    this.#call = call;
    this.#whole = whole;
  }

  /** @throws UpstreamFault when the body is an error */
  read(body: unknown, text: string): ChunkBody {
    const answer = Array.isArray(body) ? joined(body, text) : objectOf(body);
    if (answer === undefined) return { choices: [] };
    throwIfError(answer, text);
    const { candidates, promptFeedback, usageMetadata, responseId } = answer;
    // Running totals: the last ones count.
    this.#usage = objectOf(usageMetadata) ?? this.#usage;
    const chunk: ChunkBody = { choices: [] };
    for (const [at, value] of listOf(candidates).entries()) {
      const candidate = objectOf(value);
      if (candidate === undefined) continue;
      const index = indexOf(candidate["index"]) ?? at;
      const choice = this.#candidate(index).read(candidate, textOf(responseId), this.#whole);
      if (choice !== undefined) chunk.choices.push(choice);
      const note = finishNote(candidate, index);
      if (note !== undefined) chunk.metadata = { ...chunk.metadata, ...note };
    }
    const refusal = blockOf(objectOf(promptFeedback));
    if (refusal !== undefined && this.#candidates.size === 0) {
      chunk.choices.push({ index: 0, delta: { refusal }, finish_reason: "content_filter" });
    }
    return chunk;
  }

  get complete(): boolean {
    return this.#candidates.size > 0 && this.#candidates.values().every(({ finished }) => finished);
  }

  /** The counts, once for each time that they changed. */
  takeUsage(): Usage | undefined {
    const usage = this.#usage === undefined ? undefined : usageOf(this.#usage);
    this.#usage = undefined;
    return usage;
  }

  #candidate(index: number): CandidateReader {
    let candidate = this.#candidates.get(index);
    if (candidate === undefined) {
      candidate = new CandidateReader(index, this.#call);
      this.#candidates.set(index, candidate);
    }
    return candidate;
  }
}

/** A call whose arguments are still coming, piece by piece. */
type OpenCall = { readonly call: ToolCallDelta; readonly pieces: PartialArguments };

/** What lasts from one event of a candidate to its next. */
class CandidateReader {
  readonly #index: number;
  readonly #call: Call;
  readonly #withThoughts: boolean;
  #toolCalls = 0;
  #images = 0;
  #open: OpenCall | undefined;
  #signature: string | undefined;
  #continuation: string | undefined;
  #grounding: JsonObject | undefined;
  #text = "";
  finished = false;

  constructor(index: number, call: Call) {
    this.#index = index;
    this.#call = call;
    this.#withThoughts = thoughtsWanted(call) === true;
  }

  read(candidate: JsonObject, responseId: string | undefined, whole: boolean): ChunkChoice | undefined {
    const delta: Delta = {};
    for (const part of listOf(objectOf(candidate["content"])?.["parts"])) {
      if (typeof part === "object" && part !== null) this.#part(part as JsonObject, delta, responseId);
    }
    this.#text += delta.content ?? "";
    this.#grounding = objectOf(candidate["groundingMetadata"]) ?? this.#grounding;
    this.#continuation = textOf(candidate["continuationToken"]) ?? this.#continuation;
    const reason = reasonOf(candidate["finishReason"]) ?? (whole ? "STOP" : undefined);
    const finish_reason = reason === undefined ? null : this.#finish(reason, delta);
    const logprobs = logprobsOf(objectOf(candidate["logprobsResult"]));
    if (finish_reason === null && logprobs === undefined && isEmpty(delta)) return undefined;
    return { index: this.#index, delta, finish_reason, ...(logprobs !== undefined && { logprobs }) };
  }

  #part(part: JsonObject, delta: Delta, responseId: string | undefined): void {
    const { text, thought, thoughtSignature, functionCall, inlineData } = part;
    if (typeof functionCall === "object" && functionCall !== null) {
      this.#functionCall(functionCall as JsonObject, textOf(thoughtSignature), delta, responseId);
    } else if (typeof inlineData === "object" && inlineData !== null) {
      this.#inlineData(inlineData as JsonObject, thought === true, textOf(thoughtSignature), delta, responseId);
    } else if (thought === true) {
      if (this.#withThoughts && typeof text === "string")
        delta.reasoning_content = (delta.reasoning_content ?? "") + text;
    } else {
      if (typeof text === "string" && text !== "") delta.content = (delta.content ?? "") + text;
      if (typeof thoughtSignature === "string") this.#signature = thoughtSignature;
    }
  }

  /** Calls arrive whole, or, where streamed arguments were asked for, as a name, pieces of arguments, and an empty call. */
  #functionCall(given: JsonObject, signature: string | undefined, delta: Delta, responseId: string | undefined): void {
    const name = textOf(given["name"]);
    if (name !== undefined) {
      this.#closeCall(delta);
      const id = textOf(given["id"]) || this.#makeId("call", responseId, this.#toolCalls);
      const call: ToolCallDelta = {
        index: this.#toolCalls++,
        id,
        type: "function",
        function: { name, arguments: JSON.stringify(objectOf(given["args"]) ?? {}) },
        ...(signature && { extra_content: { google: { thought_signature: signature } } }),
      };
      this.#open = { call, pieces: new PartialArguments() };
    }
    if (this.#open === undefined) return;
    for (const piece of listOf(given["partialArgs"])) this.#open.pieces.add(objectOf(piece) ?? {});
    if (given["willContinue"] !== true) this.#closeCall(delta);
  }

  #closeCall(delta: Delta): void {
    if (this.#open === undefined) return;
    const { call, pieces } = this.#open;
    if (!pieces.empty) call.function = { ...call.function, arguments: JSON.stringify(pieces.value) };
    delta.tool_calls = [...(delta.tool_calls ?? []), call];
    this.#open = undefined;
  }

  /** Images have no field in the public format: they go where other gateways put them too. Draft images are thoughts. */
  #inlineData(
    { mimeType, data }: JsonObject,
    isThought: boolean,
    signature: string | undefined,
    delta: Delta,
    responseId: string | undefined,
  ): void {
    if (typeof mimeType !== "string" || typeof data !== "string" || isThought) return;
    if (mimeType.startsWith("audio/")) {
      delta["audio"] = { id: this.#makeId("audio", responseId, 0), data, transcript: "", expires_at: 0 };
      return;
    }
    const image = {
      index: this.#images++,
      type: "image_url",
      image_url: { url: `data:${mimeType};base64,${data}` },
      ...(signature && { extra_content: { google: { thought_signature: signature } } }),
    };
    delta["images"] = [...listOf(delta["images"]), image];
  }

  #finish(reason: string, delta: Delta): FinishReason {
    this.finished = true;
    this.#closeCall(delta);
    const state = {
      ...(this.#signature && { thought_signature: this.#signature }),
      ...(reason === "CONTINUATION" && this.#continuation && { continuation_token: this.#continuation }),
    };
    if (!isEmpty(state)) delta.extra_content = { google: state };
    const annotations = citationsOf(this.#grounding, this.#text);
    if (annotations.length > 0) delta.annotations = annotations;
    const finish = finishReasons[reason] ?? "stop";
    return finish === "stop" && reason === "STOP" && this.#toolCalls > 0 ? "tool_calls" : finish;
  }

  /** The same for the same answer, and another for every other: many models name none. */
  #makeId(kind: string, responseId: string | undefined, count: number): string {
    const { messages } = this.#call.request;
    const answer = responseId ?? JSON.stringify(messages);
    const digest = Bun.SHA256.hash(`${answer}\n${messages.length}\n${this.#index}\n${count}`, "hex");
    return `${kind}_${digest.slice(0, 24)}`;
  }
}

/**
 * A stream's answers in one list, as they come where `alt=sse` got lost on the way.
 * @throws UpstreamFault when one of them is an error
 */
function joined(list: readonly unknown[], text: string): JsonObject {
  const answers = list.map((value) => objectOf(value) ?? {});
  const candidates = new Map<number, JsonObject>();
  for (const answer of answers) {
    throwIfError(answer, text);
    for (const [at, value] of listOf(answer["candidates"]).entries()) {
      const candidate = objectOf(value) ?? {};
      const index = indexOf(candidate["index"]) ?? at;
      const parts = [candidates.get(index), candidate].flatMap((one) => listOf(objectOf(one?.["content"])?.["parts"]));
      candidates.set(index, { ...candidates.get(index), ...candidate, index, content: { parts } });
    }
  }
  return { ...Object.assign({}, ...answers), candidates: [...candidates.values()] };
}

function throwIfError(body: JsonObject, text: string): void {
  const error = objectOf(body["error"]);
  if (error === undefined) return;
  const code = numberOf(error["code"]);
  const known =
    code !== undefined && Number.isInteger(code) && code >= 400 && code <= 599
      ? code
      : statusByName[textOf(error["status"]) ?? ""];
  throw new UpstreamFault(text, known ?? 500);
}

/** Why no answer was made, in words; undefined when the prompt was not blocked. */
function blockOf(feedback: JsonObject | undefined): string | undefined {
  const reason = textOf(feedback?.["blockReason"]);
  if (reason === undefined) return undefined;
  const message = textOf(feedback?.["blockReasonMessage"]);
  return `The prompt was blocked: ${reason}${message === undefined ? "." : ` (${message})`}`;
}

function reasonOf(reason: unknown): string | undefined {
  return typeof reason === "string" && reason !== "" && reason !== "FINISH_REASON_UNSPECIFIED" ? reason : undefined;
}

/** The upstream's own words where the public format has none. Those of choice 0 are plain, of others numbered. */
function finishNote(candidate: JsonObject, index: number): Record<string, string> | undefined {
  const reason = reasonOf(candidate["finishReason"]);
  if (reason === undefined || selfEvident.has(reason)) return undefined;
  const message = textOf(candidate["finishMessage"]);
  const suffix = index === 0 ? "" : `.${index}`;
  return {
    [`finish_reason${suffix}`]: reason,
    ...(message !== undefined && { [`finish_message${suffix}`]: message }),
  };
}

function indexOf(value: unknown): number | undefined {
  return Number.isInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}
