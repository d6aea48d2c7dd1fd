/**
 * One stream of the Messages API, event by event.
 * Source: https://platform.claude.com/docs/en/build-with-claude/streaming
 */
import { type JsonObject, listOf, objectOf, parseJson, textOf } from "../lib/json.ts";
import type { SseEvent } from "../lib/sse.ts";
import type { ChunkBody, Delta, ToolCallDelta } from "../wire/chat.ts";
import {
  type AnswerReading,
  brokenStream,
  errorFault,
  finishReason,
  freeTextFromJson,
  isError,
  readingFor,
  refusalOf,
  servedTier,
  thoughtSeparator,
  usageOf,
} from "./anthropic-answer.ts";
import { ReplayTrace } from "./anthropic-replay.ts";
import type { Call, StreamDecoder } from "./provider.ts";

/** A block that has begun and not ended. Kinds without a place in the public format are not followed. */
type OpenBlock =
  | { readonly kind: "text"; length: number; readonly citations: unknown[] }
  | { readonly kind: "thinking"; text: string; signature: string }
  /** `input` is what the block began with; it counts only when no fragment comes. */
  | { readonly kind: "call"; readonly index: number; readonly input: unknown; begun: boolean }
  | { readonly kind: "custom"; readonly index: number; json: string }
  | { readonly kind: "answer"; readonly input: unknown; length: number };

export class AnthropicStream implements StreamDecoder {
  readonly #reading: AnswerReading;
  readonly #trace = new ReplayTrace();
  readonly #open = new Map<unknown, OpenBlock>();
  #usage: JsonObject = {};
  #calls = 0;
  #hasContent = false;
  #hasThoughts = false;
  #begun = false;
  #answered = false;
  /** The end that the beginning already told. */
  #stopReason: unknown;
  #finished = false;

  constructor(call: Call) {
    this.#reading = readingFor(call);
  }

  get finished(): boolean {
    return this.#finished;
  }

  push({ event, data }: SseEvent): ChunkBody[] {
    // Data lines are padded with spaces.
    const parsed = objectOf(parseJson(data)) ?? {};
    if (event === "error" || isError(parsed)) throw errorFault(parsed, data.trim());
    switch (parsed["type"] ?? event) {
      case "content_block_delta":
        return this.#delta(this.#open.get(parsed["index"]), objectOf(parsed["delta"]) ?? {});
      case "content_block_start":
        return this.#start(parsed["index"], objectOf(parsed["content_block"]) ?? {});
      case "content_block_stop":
        return this.#stop(parsed["index"]);
      case "message_start":
        return this.#begin(objectOf(parsed["message"]) ?? {});
      case "message_delta":
        return this.#update(objectOf(parsed["delta"]) ?? {}, objectOf(parsed["usage"]) ?? {});
      case "message_stop":
        this.#finished = true;
        return this.#answered ? [] : this.#finish({ stop_reason: this.#stopReason });
      default:
        return []; // ping, and whatever may be added: https://platform.claude.com/docs/en/build-with-claude/streaming#other-events
    }
  }

  end(): ChunkBody[] {
    return [];
  }

  #begin(message: JsonObject): ChunkBody[] {
    if (this.#begun) throw brokenStream("The upstream began a second answer within one stream.");
    this.#begun = true;
    this.#count(objectOf(message["usage"]) ?? {});
    this.#stopReason = message["stop_reason"];
    // Blocks stand here already when a server tool's code has called one of the caller's tools:
    // https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
    return listOf(message["content"]).flatMap((block, at) => {
      const place = `start ${at}`;
      return [...this.#start(place, objectOf(block) ?? {}), ...this.#stop(place)];
    });
  }

  /** Counts are cumulative, and what is not restated stays. */
  #count(usage: JsonObject): void {
    for (const [name, value] of Object.entries(usage)) if (value != null) this.#usage[name] = value;
  }

  #start(index: unknown, block: JsonObject): ChunkBody[] {
    switch (block["type"]) {
      case "text":
        return this.#startWith(index, { kind: "text", length: 0, citations: [] }, block["text"]);
      case "thinking": {
        const open: OpenBlock = { kind: "thinking", text: "", signature: textOf(block["signature"]) ?? "" };
        return this.#startWith(index, open, block["thinking"]);
      }
      case "redacted_thinking":
        this.#trace.redactedThinking(textOf(block["data"]) ?? "");
        return [];
      case "tool_use":
        return this.#startCall(index, block);
      default:
        return [];
    }
  }

  #startWith(index: unknown, open: OpenBlock & { kind: "text" | "thinking" }, first: unknown): ChunkBody[] {
    this.#open.set(index, open);
    if (typeof first !== "string" || first === "") return [];
    return open.kind === "text" ? this.#text(open, first) : this.#thought(open, first);
  }

  #startCall(index: unknown, block: JsonObject): ChunkBody[] {
    const name = textOf(block["name"]) ?? "";
    const input = block["input"];
    if (name === this.#reading.answerTool) {
      this.#open.set(index, { kind: "answer", input, length: 0 });
      return [];
    }
    const call = { index: this.#calls, id: textOf(block["id"]) ?? "" };
    this.#calls += 1;
    this.#trace.toolUse();
    if (this.#reading.customTools.has(name)) {
      this.#open.set(index, { kind: "custom", index: call.index, json: "" });
      return [callBody({ ...call, type: "custom", custom: { name, input: "" } })];
    }
    this.#open.set(index, { kind: "call", index: call.index, input, begun: false });
    return [callBody({ ...call, type: "function", function: { name, arguments: "" } })];
  }

  #delta(open: OpenBlock | undefined, delta: JsonObject): ChunkBody[] {
    switch (delta["type"]) {
      case "text_delta":
        return open?.kind === "text" ? this.#text(open, textOf(delta["text"]) ?? "") : [];
      case "input_json_delta":
        return open === undefined ? [] : this.#json(open, textOf(delta["partial_json"]) ?? "");
      case "thinking_delta":
        return open?.kind === "thinking" ? this.#thought(open, textOf(delta["thinking"]) ?? "") : [];
      case "signature_delta":
        if (open?.kind === "thinking") open.signature = textOf(delta["signature"]) ?? "";
        return [];
      case "citations_delta":
        if (open?.kind === "text") open.citations.push(delta["citation"]);
        return [];
      default:
        return [];
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
    if (json === "") return [];
    switch (open.kind) {
      case "call":
        open.begun = true;
        return [callBody({ index: open.index, function: { arguments: json } })];
      case "answer":
        return this.#text(open, json);
      case "custom":
        open.json += json;
        return [];
      default:
        return [];
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
        this.#trace.thinking(open.text, open.signature);
        return [];
      case "call":
        // A call without arguments has only empty fragments.
        return open.begun
          ? []
          : [callBody({ index: open.index, function: { arguments: JSON.stringify(open.input ?? {}) } })];
      case "custom":
        return [callBody({ index: open.index, custom: { input: freeTextFromJson(open.json) } })];
      case "answer": {
        const bodies = open.length > 0 ? [] : this.#text(open, JSON.stringify(open.input ?? {}));
        this.#trace.text(open.length, []);
        return bodies;
      }
      default:
        return [];
    }
  }

  #update(delta: JsonObject, usage: JsonObject): ChunkBody[] {
    this.#count(usage);
    if (delta["stop_reason"] != null && !this.#answered) return this.#finish(delta);
    const counts = usageOf(this.#usage);
    return counts === undefined ? [] : [{ choices: [], usage: counts }];
  }

  #finish(delta: JsonObject): ChunkBody[] {
    this.#answered = true;
    const bodies = [...this.#open.keys()].flatMap((index) => this.#stop(index));
    const last: Delta = {
      ...(!this.#hasContent && this.#calls === 0 && { content: "" }),
      ...refusalOf(delta),
      ...this.#trace.fields(),
    };
    if (Object.keys(last).length > 0) bodies.push(deltaBody(last));
    const finish_reason = finishReason(delta["stop_reason"], this.#calls > 0);
    const usage = usageOf(this.#usage);
    bodies.push({
      choices: [{ index: 0, delta: {}, finish_reason }],
      ...(usage !== undefined && { usage }),
      ...servedTier(this.#usage),
    });
    return bodies;
  }
}

function deltaBody(delta: Delta): ChunkBody {
  return { choices: [{ index: 0, delta, finish_reason: null }] };
}

function callBody(call: ToolCallDelta): ChunkBody {
  return deltaBody({ tool_calls: [call] });
}
