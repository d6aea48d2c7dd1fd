/**
 * Answers of Converse and ConverseStream, read as those of the Messages API, which they are built like: each event becomes one of its
 * events, in the same order, and `AnthropicStream` says what is out of it.
 * Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html,
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
 */

import { countOf, type JsonObject, listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { eventStreamFraming } from "../../lib/streams/aws-event-stream.ts";
import type { SseEvent } from "../../lib/streams/sse.ts";
import type { ChunkBody, CompletionBody, Metadata, Usage } from "../../protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import { servedTier } from "../../protocols/messages/ending.ts";
import { AnthropicStream } from "../anthropic/stream.ts";
import type { AnsweredCall, StreamDecoder } from "../provider.ts";
import { eventIn, objectAt, objectIn, objectsIn, textAt, textIn } from "../reading.ts";
import { withRules } from "./rules.ts";

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html#API_runtime_ConverseStream_Errors */
const statuses: Readonly<Record<string, number>> = {
  accessdeniedexception: 403,
  internalserverexception: 500,
  modelerrorexception: 424,
  modelnotreadyexception: 429,
  modelstreamerrorexception: 424,
  modeltimeoutexception: 408,
  resourcenotfoundexception: 404,
  servicequotaexceededexception: 400,
  serviceunavailableexception: 503,
  throttlingexception: 429,
  validationexception: 400,
};

/** Reasons that the Messages API has no word for. Those of its own keep theirs. */
const stopReasons: Readonly<Record<string, string>> = {
  guardrail_intervened: "refusal",
  content_filtered: "refusal",
  // What the model wrote of a call could not be read: nothing of it may be run.
  malformed_model_output: "max_tokens",
  malformed_tool_use: "max_tokens",
};

const stopReason = (reason: string): string => ownMember(stopReasons, reason) ?? reason;

/** The upstream's own word, where the public format has none. */
function noteOf(reason: string | undefined): { metadata?: Metadata } {
  return reason !== undefined && Object.hasOwn(stopReasons, reason) ? { metadata: { finish_reason: reason } } : {};
}

/** Counts in the words of the Messages API: there too the input leaves out what came from the cache, and what went into it. */
function usageIn(answer: JsonObject): JsonObject {
  const usage = objectOf(answer["usage"]) ?? {};
  const hour = listOf(usage["cacheDetails"])
    .map(objectOf)
    .find((one) => one?.["ttl"] === "1h");
  const tier = textOf(objectOf(answer["serviceTier"])?.["type"]);
  const latency = textOf(objectOf(answer["performanceConfig"])?.["latency"]);
  return {
    input_tokens: countOf(usage["inputTokens"]),
    output_tokens: countOf(usage["outputTokens"]),
    cache_read_input_tokens: countOf(usage["cacheReadInputTokens"]),
    cache_creation_input_tokens: countOf(usage["cacheWriteInputTokens"]),
    ...(hour !== undefined && { cache_creation: { ephemeral_1h_input_tokens: countOf(hour["inputTokens"]) } }),
    ...(tier !== undefined && { service_tier: tier === "default" ? "standard" : tier }),
    ...(latency !== undefined && { latency }),
  };
}

/** @throws UpstreamFault when the body is an error after all; InvalidAnswer when it is no answer of this format */
export function decodeConverse(body: unknown, text: string, call: AnsweredCall): CompletionBody {
  const answer = objectOf(body) ?? {};
  const message = objectOf(objectOf(answer["output"])?.["message"]);
  if (message === undefined) throw errorIn(answer, text);
  const reason = textAt(answer, "stopReason");
  const content = objectsIn(message, "content").flatMap(wholeBlock);
  const whole = { content, stop_reason: stopReason(reason), usage: usageIn(answer) };
  return { ...new AnthropicStream(withRules(call)).whole(whole), ...noteOf(reason) };
}

/** Errors have a message, and their type in a header, or in the body of older services. */
function errorIn(answer: JsonObject, text: string): Error {
  const message = textOf(answer["message"]) ?? textOf(answer["Message"]);
  if (message === undefined) return new InvalidAnswer("something that is no answer");
  return new UpstreamFault(text, statusOf(textOf(answer["__type"]) ?? ""));
}

/** @param type with or without its namespace: `com.amazonaws.bedrock#ThrottlingException` */
function statusOf(type: string): number {
  return ownMember(statuses, type.slice(type.lastIndexOf("#") + 1).toLowerCase()) ?? 500;
}

/** A block of the other format; of a kind without a place there, one that is left out. */
function wholeBlock(block: JsonObject): JsonObject[] {
  const text = textIn(block, "text");
  if (text !== undefined) return [{ type: "text", text }];
  const call = objectIn(block, "toolUse");
  if (call !== undefined) return [toolUse(call, objectIn(call, "input"))];
  const reasoning = objectIn(block, "reasoningContent");
  if (reasoning !== undefined) return thoughtIn(reasoning);
  const cited = objectIn(block, "citationsContent");
  return cited === undefined ? [{ type: "other" }] : [citedText(cited)];
}

/** A tool that the service itself ran has a type: its call is not the caller's to answer. */
function toolUse(call: JsonObject, input: JsonObject | undefined): JsonObject {
  const type = textIn(call, "type") === "server_tool_use" ? "other" : "tool_use";
  return { type, id: textAt(call, "toolUseId"), name: textAt(call, "name"), ...(input !== undefined && { input }) };
}

function thoughtIn(reasoning: JsonObject): JsonObject[] {
  const thought = objectOf(reasoning["reasoningText"]);
  if (thought !== undefined) {
    return [
      { type: "thinking", thinking: textOf(thought["text"]) ?? "", signature: textOf(thought["signature"]) ?? "" },
    ];
  }
  const data = textOf(reasoning["redactedContent"]);
  return data === undefined ? [] : [{ type: "redacted_thinking", data }];
}

function citedText(cited: JsonObject): JsonObject {
  const text = objectsIn(cited, "content")
    .map((part) => textIn(part, "text") ?? "")
    .join("");
  return { type: "text", text, citations: listOf(cited["citations"]).map(citationOf) };
}

/** Only web pages have a place in the public format: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CitationLocation.html */
function citationOf(value: unknown): JsonObject {
  const citation = objectOf(value) ?? {};
  const url = objectOf(objectOf(citation["location"])?.["web"])?.["url"];
  return { ...(url !== undefined && { url }), title: citation["title"] };
}

/** Reads the events in the order that the format gives them; the last one has the counts. */
export class ConverseStream implements StreamDecoder {
  readonly framing = eventStreamFraming;
  readonly #stream: AnthropicStream;
  #lastIndex = -1;
  /** Encrypted thoughts, by their block's number: they have to be whole. */
  readonly #redacted = new Map<unknown, string>();
  #finished = false;

  constructor(call: AnsweredCall) {
    this.#stream = new AnthropicStream(withRules(call));
  }

  get finished(): boolean {
    return this.#finished;
  }

  get counted(): Usage | undefined {
    return this.#stream.counted;
  }

  push({ event, data, id }: SseEvent): ChunkBody[] {
    if (id !== "event") throw exception(event, data);
    const body = eventIn(data);
    switch (event) {
      case "messageStart":
        textAt(body, "role");
        return this.#pass("message_start", { message: {} });
      case "contentBlockStart":
        return this.#begin(body["contentBlockIndex"], objectAt(body, "start"));
      case "contentBlockDelta":
        return this.#delta(body["contentBlockIndex"], objectAt(body, "delta"));
      case "contentBlockStop":
        return this.#stop(body["contentBlockIndex"]);
      case "messageStop": {
        const reason = textAt(body, "stopReason");
        const bodies = this.#pass("message_delta", { delta: { stop_reason: stopReason(reason) } });
        const last = bodies.at(-1);
        if (last !== undefined) Object.assign(last, noteOf(reason));
        return bodies;
      }
      case "metadata":
        return this.#end(body);
      case "":
        throw new InvalidAnswer("an event without a type");
      default:
        return []; // whatever may be added
    }
  }

  end(): ChunkBody[] {
    return [];
  }

  #pass(type: string, members: JsonObject): ChunkBody[] {
    return this.#stream.read(type, { ...members, type });
  }

  #start(index: unknown, content_block: JsonObject): ChunkBody[] {
    this.#lastIndex = Math.max(this.#lastIndex, Number(index));
    return this.#pass("content_block_start", { index, content_block });
  }

  /** Some models announce a text by a start that says nothing: it begins with its first fragment, as where there is none. */
  #begin(index: unknown, start: JsonObject): ChunkBody[] {
    return Object.keys(start).length === 0 ? [] : this.#start(index, startedBlock(start));
  }

  /** Blocks of text and of thoughts begin with their first fragment. */
  #delta(index: unknown, delta: JsonObject): ChunkBody[] {
    const reasoning = objectIn(delta, "reasoningContent");
    const redacted = textOf(reasoning?.["redactedContent"]);
    const isNew = this.#isNew(index);
    if (redacted !== undefined) return this.#redact(index, redacted, isNew);
    if (this.#redacted.has(index)) throw new InvalidAnswer("a fragment of another kind than its block");
    const began = isNew ? this.#start(index, reasoning === undefined ? openText : openThought) : [];
    const fragment = reasoning === undefined ? fragmentOf(delta) : thoughtFragment(reasoning);
    if (fragment === undefined) return began;
    return [...began, ...this.#pass("content_block_delta", { index, delta: fragment })];
  }

  #redact(index: unknown, data: string, isNew: boolean): ChunkBody[] {
    const before = this.#redacted.get(index);
    if (before === undefined && !isNew) throw new InvalidAnswer("a fragment of another kind than its block");
    if (isNew) this.#lastIndex = index as number;
    this.#redacted.set(index, joinedBase64(before ?? "", data));
    return [];
  }

  #stop(index: unknown): ChunkBody[] {
    const data = this.#redacted.get(index);
    this.#redacted.delete(index);
    if (data !== undefined) {
      const content_block = { type: "redacted_thinking", data };
      return [
        ...this.#pass("content_block_start", { index, content_block }),
        ...this.#pass("content_block_stop", { index }),
      ];
    }
    // A block without fragments had no beginning either.
    const began = this.#isNew(index) ? this.#start(index, openText) : [];
    return [...began, ...this.#pass("content_block_stop", { index })];
  }

  #isNew(index: unknown): boolean {
    return Number.isInteger(index) && (index as number) > this.#lastIndex;
  }

  #end(body: JsonObject): ChunkBody[] {
    const usage = usageIn(body);
    const bodies = this.#pass("message_delta", { delta: {}, usage }).map((one) => ({ ...one, ...servedTier(usage) }));
    // Throws where there was no end of the message before.
    bodies.push(...this.#pass("message_stop", {}));
    this.#finished = true;
    return bodies;
  }
}

const openText = { type: "text", text: "" };
const openThought = { type: "thinking", thinking: "", signature: "" };

function startedBlock(start: JsonObject): JsonObject {
  const call = objectIn(start, "toolUse");
  return call === undefined ? { type: "other" } : toolUse(call, undefined);
}

function fragmentOf(delta: JsonObject): JsonObject | undefined {
  const text = textIn(delta, "text");
  if (text !== undefined) return { type: "text_delta", text };
  const call = objectIn(delta, "toolUse");
  if (call !== undefined) return { type: "input_json_delta", partial_json: textAt(call, "input") };
  const citation = objectIn(delta, "citation");
  return citation && { type: "citations_delta", citation: citationOf(citation) };
}

function thoughtFragment(reasoning: JsonObject): JsonObject | undefined {
  const thinking = textOf(reasoning["text"]);
  if (thinking !== undefined) return { type: "thinking_delta", thinking };
  const signature = textOf(reasoning["signature"]);
  return signature === undefined ? undefined : { type: "signature_delta", signature };
}

/** Bytes that came in two pieces, each as base64 of its own. */
function joinedBase64(first: string, second: string): string {
  if (first === "") return second;
  return Buffer.concat([Buffer.from(first, "base64"), Buffer.from(second, "base64")]).toString("base64");
}

/** A model that broke off says why with a status of its own. */
function exception(type: string, data: string): UpstreamFault {
  const original = countOf(objectOf(parseJson(data))?.["originalStatusCode"]);
  const isError = original !== undefined && original >= 400 && original <= 599;
  return new UpstreamFault(data, isError ? original : statusOf(type));
}
