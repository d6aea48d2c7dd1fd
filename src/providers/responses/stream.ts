/** The Responses format's events as bodies of the public format. */
import { isObject, type JsonObject, listOf, objectOf, parseJson, saysNothing, textOf } from "../../lib/json/json.ts";
import { type SseEvent, sseFraming } from "../../lib/streams/sse.ts";
import type { Annotation, ChunkBody, ChunkChoice, Delta, ToolCallDelta } from "../../protocols/chat/schema.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { saysNoArguments } from "../../protocols/chat/tools.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import { countsOf, finishReasonOf } from "../../protocols/responses/ending.ts";
import { thoughtsOf } from "../../protocols/responses/reasoning.ts";
import type { MakeId } from "../made-ids.ts";
import type { StreamDecoder } from "../provider.ts";
import {
  citationsOf,
  eventIn,
  isSignOfLife,
  logprobsOf,
  objectAt,
  objectsIn,
  plainWords,
  textAt,
  textIn,
} from "../reading.ts";
import { EventNumbers } from "./event-numbers.ts";
import { callOf, eventFault, imageParts, notesOf, Output, reasoningState } from "./output.ts";
import { type Part, type PartKind, partKey, placeOf } from "./parts.ts";
import type { ResponsesQuirks } from "./quirks.ts";

/** A call that has begun, and its input so far. */
type OpenCall = { readonly index: number; readonly custom: boolean; input: string; isWhole: boolean };

const none: ChunkBody[] = [];
/** The members in which a reasoning item has its texts. */
const reasoningParts = [
  ["summary", "summary"],
  ["raw", "content"],
] as const;
/** Types of the items that the replay state of the last chunk is made of. */
const replayedTypes = new Set<unknown>(["message", "reasoning", "function_call", "custom_tool_call"]);

/**
 * One stream. Items are identified by their place in the output: some servers give an item a new id with every event.
 * The `.done` events repeat what came in fragments; the two are compared, which detects fragments that were lost, repeated or
 * reordered.
 * Source: https://platform.openai.com/docs/api-reference/responses-streaming
 */
export class ResponsesStream implements StreamDecoder {
  readonly framing = sseFraming;
  finished = false;
  /** An end came with nothing before it: the whole answer, unless more follows. */
  closing = false;
  #onlyBodies = none;
  upstreamResponseId: string | undefined;
  readonly #quirks: ResponsesQuirks;
  readonly #makeId: MakeId;
  /** By place in the output. */
  readonly #calls = new Map<unknown, OpenCall>();
  /** Places of items that were announced. */
  readonly #announced = new Set<unknown>();
  /** Places of items of which content was emitted. */
  readonly #begun = new Set<unknown>();
  /** Places of items that came to their end. */
  readonly #ended = new Set<unknown>();
  readonly #parts = new Map<string, Part>();
  #part: Part | undefined;
  readonly #numbers = new EventNumbers();
  /** Ids of items as they were announced, by place. */
  readonly #itemIds = new Map<unknown, unknown>();
  /** One thing has another id with every event: https://github.com/lidge-jun/opencodex/issues/995 */
  #idsRotate = false;
  #created = false;
  readonly #items: JsonObject[] = [];
  readonly #annotations: Annotation[] = [];
  #images = 0;
  #hasText = false;
  #text = "";
  #refusal = "";
  #thoughts = "";
  /** The place in the text at which the current part begins: citations count from there. */
  #partStart = 0;
  #thought: { place: unknown; part: unknown; kind: PartKind } | undefined;

  constructor(quirks: ResponsesQuirks, makeId: MakeId) {
    this.#quirks = quirks;
    this.#makeId = makeId;
  }

  push({ data, event: name }: SseEvent): ChunkBody[] {
    if (this.finished || data === doneData) return none;
    if (name === "error" && !isObject(parseJson(data))) throw new UpstreamFault(plainWords(data), 500);
    // Anything else without data has lost what it said.
    if (data === "" && isSignOfLife(name)) return none;
    if (this.closing) throw new InvalidAnswer("more of the answer behind its end");
    const event = eventIn(data);
    const kind = name === "error" ? name : (textIn(event, "type") ?? name);
    if (kind === "error" || kind === "") return report(kind, event, data);
    this.#numbers.see(event["sequence_number"], kind === "response.created");
    switch (kind) {
      case "response.output_text.delta":
        return this.#textDelta("text", event, event["logprobs"]);
      case "response.refusal.delta":
        return this.#textDelta("refusal", event);
      // A thought that is no text is none; it never costs the answer.
      case "response.reasoning_summary_text.delta":
        return this.#emitThought(textOf(event["delta"]) ?? "", placeOf(event), event["summary_index"], "summary");
      case "response.reasoning_text.delta":
        return this.#emitThought(textOf(event["delta"]) ?? "", placeOf(event), event["content_index"], "raw");
      case "response.output_text.done":
        return this.#partDone("text", placeOf(event), event["content_index"], event["text"]);
      case "response.refusal.done":
        return this.#partDone("refusal", placeOf(event), event["content_index"], event["refusal"]);
      case "response.reasoning_summary_text.done":
        return this.#partDone("summary", placeOf(event), event["summary_index"], event["text"]);
      case "response.reasoning_text.done":
        return this.#partDone("raw", placeOf(event), event["content_index"], event["text"]);
      case "response.content_part.added":
        this.#partStart = this.#text.length;
        return none;
      case "response.output_text.annotation.added":
        this.#annotations.push(...citationsOf([event["annotation"]], this.#partStart));
        return none;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        return this.#input(this.#callAt(event), textAt(event, "delta"));
      case "response.function_call_arguments.done":
        return this.#whole(this.#callAt(event), textIn(event, "arguments"));
      case "response.custom_tool_call_input.done":
        return this.#whole(this.#callAt(event), textIn(event, "input"));
      case "response.output_item.added":
        return this.#itemAdded(objectAt(event, "item"), placeOf(event));
      case "response.output_item.done":
        return this.#itemDone(objectAt(event, "item"), placeOf(event));
      case "response.created":
        return this.#create(event);
      case "response.in_progress":
        this.#idsRotate ||= this.#isOther(objectOf(event["response"]));
        return none;
      case "response.completed":
      case "response.done":
      case "response.incomplete":
      case "response.failed":
      case "response.cancelled":
        return this.#finish(kind, event, data);
      default:
        return none;
    }
  }

  /** Nothing else is buffered, so that a stream that breaks off before its terminal event adds nothing. */
  end(): ChunkBody[] {
    this.finished ||= this.closing;
    return this.#onlyBodies;
  }

  #create(event: JsonObject): ChunkBody[] {
    if (this.#created) throw new InvalidAnswer("a second answer within one stream");
    this.#created = true;
    this.upstreamResponseId = textOf(objectOf(event["response"])?.["id"]);
    return none;
  }

  #textDelta(kind: "text" | "refusal", event: JsonObject, logprobs?: unknown): ChunkBody[] {
    const text = textAt(event, "delta");
    const place = placeOf(event);
    this.#grow(kind, place, event["content_index"], text);
    return this.#emitText(kind === "text" ? { content: text } : { refusal: text }, place, logprobs);
  }

  #emitText(delta: Delta, place: unknown, logprobs?: unknown): ChunkBody[] {
    this.#begun.add(place);
    this.#hasText = true;
    this.#text += delta.content ?? "";
    this.#refusal += delta.refusal ?? "";
    if (!Array.isArray(logprobs) || logprobs.length === 0) return fragment(delta);
    return fragment(delta, { logprobs: { content: logprobsOf(logprobs) } });
  }

  #grow(kind: PartKind, place: unknown, index: unknown, text: string): void {
    const part = this.#partAt(kind, place, index);
    if (part.isWhole || this.#hasEnded(place)) throw new InvalidAnswer("more of a text behind its end");
    part.text += text;
  }

  /** Most fragments are of the part that the last one was of. */
  #partAt(kind: PartKind, place: unknown, index: unknown): Part {
    const last = this.#part;
    if (last !== undefined && last.kind === kind && last.place === place && last.index === index) return last;
    const key = partKey(kind, place, index);
    const part = this.#parts.get(key) ?? { kind, place, index, text: "", isWhole: false };
    this.#parts.set(key, part);
    this.#part = part;
    return part;
  }

  #hasEnded(place: unknown): boolean {
    return place !== undefined && this.#ended.has(place);
  }

  /** Compares a whole text with its fragments. One without fragments is emitted with its item. */
  #partDone(kind: PartKind, place: unknown, index: unknown, text: unknown): ChunkBody[] {
    const part = this.#parts.get(partKey(kind, place, index));
    if (part === undefined) return none;
    if (typeof text === "string" && !part.isWhole && part.text !== text) throw lost();
    part.isWhole = true;
    // Freed: it is not compared again.
    part.text = "";
    return none;
  }

  /** Emits the one that came first, where an item has both its reasoning and a summary of it. */
  #emitThought(text: string, place: unknown, part: unknown, kind: "summary" | "raw"): ChunkBody[] {
    const last = this.#thought;
    if (text === "" || (last !== undefined && last.place === place && last.kind !== kind)) return none;
    this.#grow(kind, place, part, text);
    this.#begun.add(place);
    const isNext = last !== undefined && (last.place !== place || last.part !== part);
    const separated = isNext ? `\n\n${text}` : text;
    this.#thoughts += separated;
    this.#thought = { place, part, kind };
    return fragment({ reasoning_content: separated });
  }

  #itemAdded(item: JsonObject, place: unknown): ChunkBody[] {
    if (this.#announced.has(place) && place !== undefined) throw new InvalidAnswer("an item twice");
    if (this.#calls.has(place) || this.#hasEnded(place)) throw new InvalidAnswer("an item twice");
    this.#partStart = this.#text.length;
    this.#announced.add(place);
    this.#itemIds.set(place, item["id"]);
    return this.#announce(item, place);
  }

  #announce(item: JsonObject, place: unknown): ChunkBody[] {
    const call = callOf(item, this.#calls.size, this.#quirks, this.#makeId);
    if (call === undefined || this.#calls.has(place)) return none;
    const index = this.#calls.size;
    const custom = call.type === "custom";
    this.#calls.set(place, { index, custom, input: "", isWhole: false });
    this.#begun.add(place);
    const { id, type } = call;
    const opened: ToolCallDelta =
      call.type === "custom"
        ? { index, id, type, custom: { name: call.custom.name, input: "" } }
        : { index, id, type, function: { name: call.function.name, arguments: "" } };
    return fragment({ tool_calls: [opened] });
  }

  /** @returns undefined for calls of the server's own tools */
  #callAt(event: JsonObject): OpenCall | undefined {
    const place = placeOf(event);
    const call = this.#calls.get(place);
    const isOurs = this.#quirks.customTools || event["type"] !== "response.custom_tool_call_input.delta";
    if (call === undefined && "delta" in event && isOurs && !this.#announced.has(place)) {
      throw new InvalidAnswer("a part of a call that has not begun");
    }
    return call;
  }

  #input(call: OpenCall | undefined, text: string): ChunkBody[] {
    if (call === undefined || text === "") return none;
    if (call.isWhole) throw new InvalidAnswer("more of a call behind its end");
    if (call.input === "" && !call.custom && saysNoArguments(text)) return none;
    call.input += text;
    const written = call.custom ? { custom: { input: text } } : { function: { arguments: text } };
    return fragment({ tool_calls: [{ index: call.index, ...written }] });
  }

  /** A call's input at once, unless it came in fragments; a function without arguments gets an empty object. */
  #whole(call: OpenCall | undefined, given = ""): ChunkBody[] {
    if (call === undefined) return none;
    const text = !call.custom && saysNoArguments(given) ? "" : given;
    if (call.input !== "" && text !== "" && text !== call.input) throw lost();
    const rest = call.input === "" ? this.#input(call, text || (call.custom ? "" : "{}")) : none;
    call.isWhole = true;
    return rest;
  }

  #itemDone(item: JsonObject, place: unknown): ChunkBody[] {
    if (this.#hasEnded(place)) throw new InvalidAnswer("an item twice");
    if (this.#itemIds.has(place) && this.#itemIds.get(place) !== item["id"]) this.#idsRotate = true;
    this.#compare(item, place);
    if (isReplayed(item)) this.#items.push(item);
    const bodies = this.#emit(item, place);
    this.#ended.add(place);
    const state = reasoningState(item, this.#quirks);
    return state === undefined ? bodies : [...bodies, { choices: [], ended_thought: { extra_content: state } }];
  }

  /** Compares a message or a reasoning item with what was emitted of it. @throws InvalidAnswer when parts are missing */
  #compare(item: JsonObject, place: unknown): void {
    if (!this.#begun.has(place)) return;
    if (item["type"] === "reasoning") {
      for (const [kind, name] of reasoningParts) {
        this.#compareParts(kind, place, listOf(item[name]).filter(isObject), "text");
      }
    }
    if (item["type"] !== "message") return;
    const parts = objectsIn(item, "content");
    for (const kind of ["text", "refusal"] as const) this.#compareParts(kind, place, parts, kind);
  }

  #compareParts(kind: PartKind, place: unknown, parts: readonly JsonObject[], name: string): void {
    const known = parts.map((_, at) => this.#parts.get(partKey(kind, place, at)));
    // Servers that do not number their parts send only one.
    if (known.length > 0) known[0] ??= this.#parts.get(partKey(kind, place, undefined));
    if (known.every((part) => part === undefined)) return;
    for (const [at, part] of known.entries()) {
      const text = textIn(parts[at]!, name) ?? "";
      if (part === undefined ? text !== "" : !part.isWhole && part.text !== text) throw lost();
    }
  }

  /** The bodies of what was not yet emitted of an item. */
  #emit(item: JsonObject, place: unknown): ChunkBody[] {
    const opened = this.#announce(item, place);
    const call = this.#calls.get(place);
    if (call !== undefined) return [...opened, ...this.#whole(call, textIn(item, call.custom ? "input" : "arguments"))];
    if (this.#begun.has(place)) return none;
    if (item["type"] === "reasoning") {
      return thoughtsOf(item).flatMap((text, part) => this.#emitThought(text, place, part, "summary"));
    }
    const { text, refusal, logprobs, images } = new Output([item], this.#quirks, this.#makeId);
    if (images.length > 0) {
      this.#images += images.length;
      return fragment({ images: imageParts(images, this.#images - images.length) });
    }
    if (text === "" && refusal === "") return none;
    return this.#emitText(
      { ...(text !== "" && { content: text }), ...(refusal !== "" && { refusal }) },
      place,
      logprobs,
    );
  }

  #finish(kind: unknown, event: JsonObject, data: string): ChunkBody[] {
    report(kind, event, data);
    const cut = kind === "response.incomplete" ? { status: "incomplete" } : {};
    const response: JsonObject = { ...cut, ...objectAt(event, "response") };
    if (saysNothing(event["response"])) throw new InvalidAnswer("an end that says nothing");
    if (this.#isOther(response) && !this.#idsRotate) throw new InvalidAnswer("the end of another answer");
    const items = objectsIn(response, "output");
    if (items.length === 0 && kind !== "response.incomplete") this.#checkItemsEnded();
    this.#compareResponse(items);
    const isOnly = !this.#created && this.#begun.size === 0 && this.#announced.size === 0;
    const bodies = [...this.#emitMissing(items), ...[...this.#calls.values()].flatMap((call) => this.#whole(call, ""))];
    this.upstreamResponseId = textOf(response["id"]) ?? this.upstreamResponseId;
    const usage = countsOf(response);
    bodies.push({
      choices: [{ index: 0, delta: this.#lastDelta(items), finish_reason: finishReasonOf(response, this.#calls.size) }],
      ...(usage && { usage }),
      ...notesOf(response, this.#quirks),
    });
    this.finished = !isOnly;
    this.closing = isOnly;
    if (!isOnly) return bodies;
    this.#onlyBodies = bodies;
    return none;
  }

  /**
   * Checks, for a terminal event that lists no items, that each item ended: servers that report one beginning or end report each end.
   * @throws InvalidAnswer where one has not ended, or nothing has begun at all
   */
  #checkItemsEnded(): void {
    const begun = this.#ended.size > 0 ? this.#begun : this.#announced;
    const isOpen = begun.values().some((place) => !this.#ended.has(place));
    if (isOpen || (!this.#created && this.#begun.size === 0)) throw new InvalidAnswer("an end before the answer's own");
  }

  /** True if a response has another id than the one that began. */
  #isOther(response: JsonObject | undefined): boolean {
    const id = textOf(response?.["id"]) ?? this.upstreamResponseId;
    return this.#created && this.upstreamResponseId !== undefined && id !== this.upstreamResponseId;
  }

  /**
   * Compares the terminal event's output with what was emitted. It may be left out, unless the sequence numbers show that
   * events are missing.
   * @throws InvalidAnswer when they differ
   */
  #compareResponse(items: readonly JsonObject[]): void {
    const { text, refusal, calls, thoughts } = new Output(items, this.#quirks, this.#makeId);
    if (this.#text !== "" && text !== "" && text !== this.#text) throw lost();
    if (this.#refusal !== "" && refusal !== "" && refusal !== this.#refusal) throw lost();
    if (this.#calls.size > 0 && calls.length > 0 && calls.length !== this.#calls.size) throw lost();
    if (!this.#numbers.haveGaps) return;
    const isWhole =
      items.filter(isReplayed).length === this.#items.length &&
      calls.length === this.#calls.size &&
      this.#thoughts === thoughts.join("\n\n");
    if (items.length === 0 || !isWhole) throw new InvalidAnswer("a stream of which events are missing");
  }

  /** The bodies of items that only the terminal event has: those of types of which nothing was emitted. */
  #emitMissing(items: readonly JsonObject[]): ChunkBody[] {
    const emitted = new Set<unknown>([
      ...(this.#hasText ? ["message"] : []),
      ...(this.#thought === undefined ? [] : ["reasoning"]),
      ...(this.#calls.size > 0 ? ["function_call", "custom_tool_call"] : []),
      ...(this.#images > 0 ? ["image_generation_call"] : []),
    ]);
    return items.flatMap((item) => (emitted.has(item["type"]) ? [] : this.#emit(item, item)));
  }

  /** The delta of the last chunk, from the finished items or, failing them, from the terminal event's. */
  #lastDelta(reported: readonly JsonObject[]): Delta {
    // The terminal event may list items whose own `.done` event is missing.
    const isAll = reported.filter(isReplayed).length <= this.#items.length;
    const finished = new Output(isAll ? this.#items : [], this.#quirks, this.#makeId);
    const last = new Output(reported, this.#quirks, this.#makeId);
    const annotations = [finished.annotations, last.annotations, this.#annotations].find((some) => some.length > 0);
    const extra_content = finished.replayState(this.upstreamResponseId) ?? last.replayState(this.upstreamResponseId);
    return {
      ...(!this.#hasText && this.#calls.size === 0 && this.#images === 0 && { content: "" }),
      ...(annotations && { annotations }),
      ...(extra_content && { extra_content }),
    };
  }
}

function isReplayed(item: JsonObject): boolean {
  return replayedTypes.has(item["type"]);
}

/** @throws UpstreamFault when the event reports an error; InvalidAnswer when it has no type and is none */
function report(kind: unknown, event: JsonObject, data: string): ChunkBody[] {
  const fault = eventFault(kind, event, data);
  if (fault !== undefined) throw fault;
  if (kind === "") throw new InvalidAnswer("an event without a type");
  return none;
}

function lost(): InvalidAnswer {
  return new InvalidAnswer("an answer that is not what its fragments were");
}

function fragment(delta: Delta, more: Partial<ChunkChoice> = {}): ChunkBody[] {
  return [{ choices: [{ index: 0, delta, finish_reason: null, ...more }] }];
}
