/** The Responses format's events as bodies of the public format. */
import { type JsonObject, listOf, objectOf, parseJson, textOf } from "../lib/json.ts";
import type { SseEvent } from "../lib/sse.ts";
import type { Annotation, ChunkBody, ChunkChoice, Delta, ToolCallDelta } from "../wire/chat.ts";
import type { StreamDecoder } from "./provider.ts";
import {
  annotationsOf,
  callOf,
  eventFault,
  finishReasonOf,
  imageParts,
  logprobsOf,
  notesOf,
  Output,
  thoughtsOf,
  usageOf,
} from "./responses-output.ts";
import type { ResponsesQuirks } from "./responses-quirks.ts";

/** A call that was announced. */
type OpenCall = { readonly index: number; readonly custom: boolean; written: boolean };

const none: ChunkBody[] = [];
/** Items of which something rides on the last chunk. */
const keptItems = new Set<unknown>(["message", "reasoning", "function_call", "custom_tool_call"]);

/**
 * One stream. Items are told apart by their place in the output: some servers give an item a new id with every event.
 * What came in fragments is not taken again from the `.done` events that repeat it.
 * Source: https://platform.openai.com/docs/api-reference/responses-streaming
 */
export class ResponsesStream implements StreamDecoder {
  finished = false;
  upstreamResponseId: string | undefined;
  readonly #quirks: ResponsesQuirks;
  /** By place in the output. */
  readonly #calls = new Map<unknown, OpenCall>();
  /** Places of items of which something went out. */
  readonly #begun = new Set<unknown>();
  readonly #items: JsonObject[] = [];
  readonly #annotations: Annotation[] = [];
  #images = 0;
  #spoke = false;
  #textLength = 0;
  /** Where in the text the current part begins: citations count from there. */
  #partStart = 0;
  #thought: { place: unknown; part: unknown; kind: "summary" | "raw" } | undefined;

  constructor(quirks: ResponsesQuirks) {
    this.#quirks = quirks;
  }

  push({ data, event: name }: SseEvent): ChunkBody[] {
    const event = objectOf(parseJson(data)); // `[DONE]` is none
    if (event === undefined || this.finished) return none;
    const kind = event["type"] ?? name;
    switch (kind) {
      case "response.output_text.delta":
        return this.#say({ content: textOf(event["delta"]) ?? "" }, placeOf(event), event["logprobs"]);
      case "response.refusal.delta":
        return this.#say({ refusal: textOf(event["delta"]) ?? "" }, placeOf(event));
      case "response.reasoning_summary_text.delta":
        return this.#think(textOf(event["delta"]) ?? "", placeOf(event), event["summary_index"], "summary");
      case "response.reasoning_text.delta":
        return this.#think(textOf(event["delta"]) ?? "", placeOf(event), event["content_index"], "raw");
      case "response.content_part.added":
        this.#partStart = this.#textLength;
        return none;
      case "response.output_text.annotation.added":
        this.#annotations.push(...annotationsOf([event["annotation"]], this.#partStart));
        return none;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        return this.#input(this.#calls.get(placeOf(event)), textOf(event["delta"]) ?? "");
      case "response.function_call_arguments.done":
        return this.#whole(this.#calls.get(placeOf(event)), event["arguments"]);
      case "response.custom_tool_call_input.done":
        return this.#whole(this.#calls.get(placeOf(event)), event["input"]);
      case "response.output_item.added":
        this.#partStart = this.#textLength;
        return this.#announce(objectOf(event["item"]) ?? {}, placeOf(event));
      case "response.output_item.done":
        return this.#itemDone(objectOf(event["item"]) ?? {}, placeOf(event));
      case "response.created":
        this.upstreamResponseId = textOf(objectOf(event["response"])?.["id"]);
        return none;
      case "response.completed":
      case "response.done":
      case "response.incomplete":
      case "response.failed":
      case "response.cancelled":
        return this.#finish(kind, event, data);
      case "error":
      case "":
        return report(kind, event, data);
      default:
        return none;
    }
  }

  /** Nothing is held back: a stream that breaks off before its terminal event has no end to tell. */
  end(): ChunkBody[] {
    return none;
  }

  #say(delta: Delta, place: unknown, logprobs?: unknown): ChunkBody[] {
    this.#begun.add(place);
    this.#spoke = true;
    this.#textLength += delta.content?.length ?? 0;
    if (!Array.isArray(logprobs) || logprobs.length === 0) return fragment(delta);
    return fragment(delta, { logprobs: { content: logprobsOf(logprobs) } });
  }

  /** Where an item gives both its reasoning and a summary of it, what came first stands. */
  #think(text: string, place: unknown, part: unknown, kind: "summary" | "raw"): ChunkBody[] {
    const last = this.#thought;
    if (text === "" || (last !== undefined && last.place === place && last.kind !== kind)) return none;
    this.#begun.add(place);
    if (last !== undefined && last.place === place && last.part === part) return fragment({ reasoning_content: text });
    this.#thought = { place, part, kind };
    return fragment({ reasoning_content: last === undefined ? text : `\n\n${text}` });
  }

  #announce(item: JsonObject, place: unknown): ChunkBody[] {
    const call = callOf(item, this.#calls.size, this.#quirks);
    if (call === undefined || this.#calls.has(place)) return none;
    const index = this.#calls.size;
    const custom = call.type === "custom";
    this.#calls.set(place, { index, custom, written: false });
    this.#begun.add(place);
    const { id, type } = call;
    const opened: ToolCallDelta =
      call.type === "custom"
        ? { index, id, type, custom: { name: call.custom.name, input: "" } }
        : { index, id, type, function: { name: call.function.name, arguments: "" } };
    return fragment({ tool_calls: [opened] });
  }

  #input(call: OpenCall | undefined, text: string): ChunkBody[] {
    if (call === undefined || text === "") return none;
    call.written = true;
    const written = call.custom ? { custom: { input: text } } : { function: { arguments: text } };
    return fragment({ tool_calls: [{ index: call.index, ...written }] });
  }

  /** A call's input at once, unless it came in fragments; a function without arguments gets an empty object. */
  #whole(call: OpenCall | undefined, text: unknown): ChunkBody[] {
    if (call === undefined || call.written) return none;
    return this.#input(call, textOf(text) || (call.custom ? "" : "{}"));
  }

  #itemDone(item: JsonObject, place: unknown): ChunkBody[] {
    if (keptItems.has(item["type"])) this.#items.push(item);
    return this.#tell(item, place);
  }

  /** What of an item was not told yet. */
  #tell(item: JsonObject, place: unknown): ChunkBody[] {
    const opened = this.#announce(item, place);
    const call = this.#calls.get(place);
    if (call !== undefined) return [...opened, ...this.#whole(call, item[call.custom ? "input" : "arguments"])];
    if (this.#begun.has(place)) return none;
    if (item["type"] === "reasoning") {
      return thoughtsOf(item).flatMap((text, part) => this.#think(text, place, part, "summary"));
    }
    const { text, refusal, logprobs, images } = new Output([item], this.#quirks);
    if (images.length > 0) {
      this.#images += images.length;
      return fragment({ images: imageParts(images, this.#images - images.length) });
    }
    if (text === "" && refusal === "") return none;
    return this.#say({ ...(text !== "" && { content: text }), ...(refusal !== "" && { refusal }) }, place, logprobs);
  }

  #finish(kind: unknown, event: JsonObject, data: string): ChunkBody[] {
    report(kind, event, data);
    const cut = kind === "response.incomplete" ? { status: "incomplete" } : {};
    const response: JsonObject = { ...cut, ...objectOf(event["response"]) };
    const items = listOf(response["output"]);
    const bodies = [...this.#tellMissing(items), ...[...this.#calls.values()].flatMap((call) => this.#whole(call, ""))];
    this.finished = true;
    this.upstreamResponseId = textOf(response["id"]) ?? this.upstreamResponseId;
    const usage = usageOf(response["usage"]);
    bodies.push({
      choices: [{ index: 0, delta: this.#lastDelta(items), finish_reason: finishReasonOf(response, this.#calls.size) }],
      ...(usage && { usage }),
      ...notesOf(response, this.#quirks),
    });
    return bodies;
  }

  /** What only the terminal event holds: items of a kind of which nothing was told. */
  #tellMissing(items: readonly unknown[]): ChunkBody[] {
    const told = new Set<unknown>([
      ...(this.#spoke ? ["message"] : []),
      ...(this.#thought === undefined ? [] : ["reasoning"]),
      ...(this.#calls.size > 0 ? ["function_call", "custom_tool_call"] : []),
      ...(this.#images > 0 ? ["image_generation_call"] : []),
    ]);
    return items.flatMap((value) => {
      const item = objectOf(value) ?? {};
      return told.has(item["type"]) ? [] : this.#tell(item, item);
    });
  }

  /** What rides on the last chunk, from the finished items or, failing them, from the terminal event's. */
  #lastDelta(reported: readonly unknown[]): Delta {
    const finished = new Output(this.#items, this.#quirks);
    const last = new Output(reported, this.#quirks);
    const annotations = [finished.annotations, last.annotations, this.#annotations].find((some) => some.length > 0);
    const extra_content = finished.replayState(this.upstreamResponseId) ?? last.replayState(this.upstreamResponseId);
    return {
      ...(!this.#spoke && this.#calls.size === 0 && this.#images === 0 && { content: "" }),
      ...(annotations && { annotations }),
      ...(extra_content && { extra_content }),
    };
  }
}

/** @throws UpstreamFault when the event reports an error */
function report(kind: unknown, event: JsonObject, data: string): ChunkBody[] {
  const fault = eventFault(kind, event, data);
  if (fault !== undefined) throw fault;
  return none;
}

function placeOf(event: JsonObject): unknown {
  return event["output_index"] ?? event["item_id"] ?? objectOf(event["item"])?.["id"];
}

function fragment(delta: Delta, more: Partial<ChunkChoice> = {}): ChunkBody[] {
  return [{ choices: [{ index: 0, delta, finish_reason: null, ...more }] }];
}
