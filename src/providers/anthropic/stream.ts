/**
 * Answers of the Messages API, event by event; a whole one is read as a message that begins with all of its blocks.
 * Sources: https://platform.claude.com/docs/en/build-with-claude/streaming, https://platform.claude.com/docs/en/api/messages
 */
import { keepNumbers } from "../../lib/json/exact.ts";
import { type JsonObject, listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { type SseEvent, sseFraming } from "../../lib/streams/sse.ts";
import { StreamFold } from "../../protocols/chat/fold.ts";
import type {
  ChunkBody,
  CompletionBody,
  Delta,
  ThinkingBlock,
  ToolCallDelta,
  Usage,
} from "../../protocols/chat/schema.ts";
import { InvalidAnswer } from "../../protocols/errors.ts";
import { finishReason, laterCounts, servedTier, usageOf } from "../../protocols/messages/ending.ts";
import type { AnsweredCall, StreamDecoder } from "../provider.ts";
import { eventIn, isSignOfLife, objectAt, objectIn, objectsIn, plainWords, textAt, textIn } from "../reading.ts";
import {
  type AnswerReading,
  errorFault,
  freeText,
  freeTextFromJson,
  isError,
  readingFor,
  refusalOf,
  thoughtSeparator,
} from "./answer.ts";
import { plainCompletionOf } from "./plain-answer.ts";
import { ReplayTrace } from "./replay.ts";
import { servedBehind, servedBy } from "./served.ts";

/** A block that has begun and not ended. */
type OpenBlock =
  | { readonly kind: "text"; length: number; readonly citations: unknown[] }
  | { readonly kind: "thinking"; text: string; signature: string }
  /** `input` is what the block began with; it counts only when no fragment comes. */
  | { readonly kind: "call"; readonly index: number; readonly input: unknown; begun: boolean }
  | { readonly kind: "custom"; readonly index: number; readonly input: unknown; json: string }
  | { readonly kind: "answer"; readonly input: unknown; length: number }
  /** Without a place in the public format. */
  | { readonly kind: "other" };

const none: ChunkBody[] = [];

/**
 * Reads the events in the order that the format gives them: a message begins, its blocks begin, grow and end, each under a
 * number of its own, then comes the reason of the end. What is out of this order is a fault, since words may be missing.
 */
export class AnthropicStream implements StreamDecoder {
  readonly framing = sseFraming;
  readonly #reading: AnswerReading;
  readonly #trace = new ReplayTrace();
  /** By the block's number. */
  readonly #open = new Map<unknown, OpenBlock>();
  #lastIndex = -1;
  #usage: JsonObject = {};
  #calls = 0;
  #hasContent = false;
  #hasThoughts = false;
  #begun = false;
  #id: string | undefined;
  #answered = false;
  /** It may come with `message_start` already. */
  #stopReason: unknown;
  #finished = false;
  readonly #asked: string;
  #servedBy: string | undefined;
  /** Words came before another model took over. */
  #hasDeclined = false;
  readonly #passesTexts: boolean;
  isRepetition = false;

  /**
   * @param passesTexts fragments of text need not come by here. Then the places of texts among thoughts and calls are not known,
   * which a client that gets the events themselves has no need of
   */
  constructor(call: AnsweredCall, passesTexts = false) {
    this.#reading = readingFor(call);
    this.#asked = call.model;
    this.#passesTexts = passesTexts;
  }

  /** The id of the answer. */
  get upstreamResponseId(): string | undefined {
    return this.#passesTexts ? this.#id : undefined;
  }

  get finished(): boolean {
    return this.#finished;
  }

  push({ event, data }: SseEvent): ChunkBody[] {
    this.isRepetition = false;
    if (this.#finished) return none;
    if (event === "error") throw reportedError(data);
    // Anything else without data has lost what it said.
    if (data === "" && isSignOfLife(event)) return none;
    const parsed = eventIn(data);
    // Data lines are padded with spaces.
    if (isError(parsed)) throw errorFault(parsed, data.trim());
    // A call's input may stand where it begins.
    if (event === "content_block_start") keepNumbers(parsed, data);
    return this.read(textIn(parsed, "type") ?? event, parsed);
  }

  /** @param parsed an event that is no error */
  read(kind: string, parsed: JsonObject): ChunkBody[] {
    switch (kind) {
      case "content_block_delta":
      case "content_block_start":
      case "content_block_stop":
        if (!this.#begun || this.#answered) throw new InvalidAnswer("a part of the answer before or behind it");
        return this.#block(kind, parsed);
      case "message_start":
        return this.#begin(objectAt(parsed, "message"));
      case "message_delta":
        if (!this.#begun) throw new InvalidAnswer("an answer without its beginning");
        return this.#update(objectAt(parsed, "delta"), objectOf(parsed["usage"]) ?? {});
      case "message_stop":
        // Only its type distinguishes it from an event that lost its data.
        textAt(parsed, "type");
        return this.#end();
      case "":
        throw new InvalidAnswer("an event without a type");
      default:
        return none; // ping, and whatever may be added: https://platform.claude.com/docs/en/build-with-claude/streaming#other-events
    }
  }

  end(): ChunkBody[] {
    return none;
  }

  /**
   * Some gateways send the beginning of one message twice, the second time with all that is known of it:
   * https://github.com/maximhq/bifrost/issues/4556, https://github.com/BerriAI/litellm/issues/32478
   */
  #begin(message: JsonObject): ChunkBody[] {
    const id = textOf(message["id"]);
    if (this.#begun) {
      if (id === undefined || id !== this.#id) throw new InvalidAnswer("a second answer within one stream");
      this.isRepetition = true;
    }
    this.#count(objectOf(message["usage"]) ?? {});
    this.#servedBy ??= servedBy(this.#asked, message["model"]);
    if (this.#begun) return none;
    this.#begun = true;
    this.#id = id;
    this.#stopReason = textIn(message, "stop_reason");
    // Blocks stand here already when a server tool's code has called one of the caller's tools:
    // https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
    return this.#blocks(message);
  }

  /** @param message with all of its blocks */
  whole(message: JsonObject): CompletionBody {
    const fold = new StreamFold();
    this.#servedBy = servedBy(this.#asked, message["model"]);
    fold.push(this.#blocks(message));
    this.#count(objectOf(message["usage"]) ?? {});
    fold.push(this.#finish(message));
    const { choices, ...rest } = fold.result();
    const { message: folded, finish_reason } = choices[0]!;
    const { role, content, refusal, ...fields } = folded;
    return {
      choices: [{ index: 0, message: { role, content, ...(refusal && { refusal }), ...fields }, finish_reason }],
      ...rest,
    };
  }

  #blocks(message: JsonObject): ChunkBody[] {
    return objectsIn(message, "content").flatMap((block, at) => {
      const place = `start ${at}`;
      if (block["type"] === "text") textAt(block, "text");
      const started = this.#start(place, block);
      const open = this.#open.get(place);
      if (open?.kind === "text") open.citations.push(...listOf(block["citations"]));
      return [...started, ...this.#stop(place)];
    });
  }

  /** The end of the message, which must have been given a reason. */
  #end(): ChunkBody[] {
    if (!this.#answered && this.#stopReason === undefined) throw new InvalidAnswer("an end without a reason");
    this.#finished = true;
    return this.#answered ? none : this.#finish({ stop_reason: this.#stopReason });
  }

  #block(kind: string, event: JsonObject): ChunkBody[] {
    const { index } = event;
    if (kind === "content_block_start") {
      if (!Number.isInteger(index) || (index as number) <= this.#lastIndex) {
        throw new InvalidAnswer("a block twice, or without its number");
      }
      // Calls alone may go on side by side.
      for (const { kind } of this.#open.values()) {
        if (kind === "text" || kind === "thinking") throw new InvalidAnswer("a block within another one");
      }
      this.#lastIndex = index as number;
      return this.#start(index, objectAt(event, "content_block"));
    }
    const open = this.#open.get(index);
    if (open === undefined) throw new InvalidAnswer("a part of a block that is not open");
    return kind === "content_block_stop" ? this.#stop(index) : this.#delta(open, objectAt(event, "delta"));
  }

  /** The output's count in the stream's first event is no count of what follows: only the input is known from there. */
  get counted(): Usage | undefined {
    const usage = this.#counts;
    return this.#answered ? usage : usage && { ...usage, completion_tokens: 0, total_tokens: usage.prompt_tokens };
  }

  get #counts(): Usage | undefined {
    return usageOf(this.#usage, { servedBy: this.#servedBy, hasDeclined: this.#hasDeclined });
  }

  #count(usage: JsonObject): void {
    this.#usage = laterCounts(this.#usage, usage);
  }

  #start(index: unknown, block: JsonObject): ChunkBody[] {
    switch (textAt(block, "type")) {
      case "text":
        return this.#startWith(index, { kind: "text", length: 0, citations: [] }, textIn(block, "text"));
      case "thinking": {
        const open: OpenBlock = { kind: "thinking", text: "", signature: textOf(block["signature"]) ?? "" };
        return this.#startWith(index, open, textOf(block["thinking"]));
      }
      case "tool_use":
        return this.#startCall(index, block);
      case "redacted_thinking":
        this.#open.set(index, { kind: "other" });
        return endedThought(this.#trace.redactedThinking(textOf(block["data"]) ?? ""));
      case "fallback":
        this.#servedBy = servedBehind(block) ?? this.#servedBy;
        this.#hasDeclined ||= this.#hasContent || this.#hasThoughts || this.#calls > 0;
    }
    this.#open.set(index, { kind: "other" });
    return none;
  }

  #startWith(index: unknown, open: OpenBlock & { kind: "text" | "thinking" }, first = ""): ChunkBody[] {
    this.#open.set(index, open);
    return open.kind === "text" ? this.#text(open, first) : this.#thought(open, first);
  }

  #startCall(index: unknown, block: JsonObject): ChunkBody[] {
    const name = textAt(block, "name");
    const input = objectIn(block, "input");
    if (name === this.#reading.answerTool) {
      this.#open.set(index, { kind: "answer", input, length: 0 });
      return none;
    }
    const call = { index: this.#calls, id: textOf(block["id"]) || this.#reading.makeId("call", 0, this.#calls) };
    this.#calls += 1;
    this.#trace.toolUse();
    if (this.#reading.customTools.has(name)) {
      this.#open.set(index, { kind: "custom", index: call.index, input, json: "" });
      return [callBody({ ...call, type: "custom", custom: { name, input: "" } })];
    }
    this.#open.set(index, { kind: "call", index: call.index, input, begun: false });
    return [callBody({ ...call, type: "function", function: { name, arguments: "" } })];
  }

  /** Kinds of blocks and of fragments without a place in the public format are not followed. */
  #delta(open: OpenBlock, delta: JsonObject): ChunkBody[] {
    if (open.kind === "other") return none;
    switch (textAt(delta, "type")) {
      case "text_delta":
        if (open.kind !== "text") return misplaced();
        return this.#text(open, textAt(delta, "text"));
      case "input_json_delta":
        return this.#json(open, textAt(delta, "partial_json"));
      case "thinking_delta":
        return open.kind === "thinking" ? this.#thought(open, textOf(delta["thinking"]) ?? "") : misplaced();
      case "signature_delta":
        if (open.kind === "thinking") open.signature = textOf(delta["signature"]) ?? "";
        return none;
      case "citations_delta":
        if (open.kind === "text") open.citations.push(delta["citation"]);
        return none;
      default:
        return none;
    }
  }

  #text(open: { length: number }, text: string): ChunkBody[] {
    if (text === "") return [];
    open.length += text.length;
    this.#hasContent = true;
    return [deltaBody({ content: text })];
  }

  #thought(open: { text: string }, text: string): ChunkBody[] {
    if (text === "") return [];
    const separator = open.text === "" && this.#hasThoughts ? thoughtSeparator : "";
    open.text += text;
    this.#hasThoughts = true;
    return this.#reading.showsThoughts ? [deltaBody({ reasoning_content: separator + text })] : [];
  }

  #json(open: OpenBlock, json: string): ChunkBody[] {
    if (json === "" && (open.kind === "call" || open.kind === "answer")) return none;
    switch (open.kind) {
      case "call":
        open.begun = true;
        return [callBody({ index: open.index, function: { arguments: json } })];
      case "answer":
        return this.#text(open, json);
      case "custom":
        open.json += json;
        return none;
      default:
        return misplaced();
    }
  }

  #stop(index: unknown): ChunkBody[] {
    const open = this.#open.get(index);
    this.#open.delete(index);
    switch (open?.kind) {
      case "text":
        this.#trace.text(open.length, open.citations);
        return [];
      case "thinking":
        return endedThought(this.#trace.thinking(open.text, open.signature));
      case "call":
        // A call without arguments has only empty fragments.
        return open.begun
          ? []
          : [callBody({ index: open.index, function: { arguments: JSON.stringify(open.input ?? {}) } })];
      case "custom":
        return [
          callBody({
            index: open.index,
            custom: { input: open.json === "" ? freeText(open.input ?? {}) : freeTextFromJson(open.json) },
          }),
        ];
      case "answer": {
        const bodies = open.length > 0 ? [] : this.#text(open, JSON.stringify(open.input ?? {}));
        this.#trace.text(open.length, []);
        return bodies;
      }
      default:
        return [];
    }
  }

  #replay(): ReturnType<ReplayTrace["fields"]> {
    const { extra_content, ...fields } = this.#trace.fields();
    return this.#passesTexts || extra_content === undefined ? fields : { ...fields, extra_content };
  }

  #update(delta: JsonObject, usage: JsonObject): ChunkBody[] {
    this.#count(usage);
    const reason = textIn(delta, "stop_reason");
    if (reason !== undefined && reason !== (this.#stopReason ?? reason)) throw new InvalidAnswer("an end of two kinds");
    if (reason !== undefined && !this.#answered) return this.#finish(delta);
    const counts = this.#counts;
    return counts === undefined ? [] : [{ choices: [], usage: counts }];
  }

  #finish(delta: JsonObject): ChunkBody[] {
    this.#answered = true;
    this.#stopReason = textOf(delta["stop_reason"]);
    const finish_reason = finishReason(this.#stopReason, this.#calls > 0);
    const isCut = finish_reason === "length" || finish_reason === "content_filter";
    if (!isCut && this.#open.values().some(isBareCall))
      throw new InvalidAnswer("a call of which only the beginning came");
    const bodies = [...this.#open.keys()].flatMap((index) => this.#stop(index));
    const last: Delta = {
      ...(!this.#hasContent && this.#calls === 0 && { content: "" }),
      ...refusalOf(delta),
      ...this.#replay(),
    };
    if (Object.keys(last).length > 0) bodies.push(deltaBody(last));
    const usage = this.#counts;
    bodies.push({
      choices: [{ index: 0, delta: {}, finish_reason }],
      ...(usage !== undefined && { usage }),
      ...servedTier(this.#usage),
    });
    return bodies;
  }
}

/** Some gateways leave out a block's end, but not all of its input too. */
function isBareCall(open: OpenBlock): boolean {
  return (open.kind === "call" && !open.begun) || (open.kind === "custom" && open.json === "");
}

/** Its own words, where it has no other form. */
function reportedError(data: string): Error {
  const error = objectOf(parseJson(data));
  return errorFault(error ?? {}, error === undefined ? plainWords(data) : data.trim());
}

function endedThought(block: ThinkingBlock | undefined): ChunkBody[] {
  return block === undefined ? none : [{ choices: [], ended_thought: { thinking_blocks: [block] } }];
}

function misplaced(): never {
  throw new InvalidAnswer("a fragment of another kind than its block");
}

function deltaBody(delta: Delta): ChunkBody {
  return { choices: [{ index: 0, delta, finish_reason: null }] };
}

function callBody(call: ToolCallDelta): ChunkBody {
  return deltaBody({ tool_calls: [call] });
}

/** @throws UpstreamFault when the body is an error after all; InvalidAnswer when it is no answer of this format */
export function decodeAnswer(body: unknown, text: string, call: AnsweredCall): CompletionBody {
  const answer = objectOf(body) ?? {};
  if (isError(answer)) throw errorFault(answer, text);
  const content = objectsIn(answer, "content");
  if (!Array.isArray(answer["content"]) || (content.length === 0 && textOf(answer["stop_reason"]) === undefined)) {
    throw new InvalidAnswer("something that is no answer");
  }
  return plainCompletionOf(answer, call.model) ?? new AnthropicStream(call).whole(answer);
}
