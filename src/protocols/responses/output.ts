/**
 * The output items of an answer, made from the inner form's fragments in the order in which they come; a plain answer is one
 * fragment. One item is open at a time. What happens is reported to an `Announce`, which a stream writes as events.
 * Source: https://platform.openai.com/docs/api-reference/responses-streaming
 */

import { isObject, type JsonObject, listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { wholeDetails } from "../chat/reasoning-details.ts";
import type { Annotation, Delta, FinishReason, Logprobs, TokenLogprob, ToolCallDelta } from "../chat/schema.ts";
import { refuseOtherKinds } from "../function-calls.ts";
import type { MessageState } from "../state/returned-state.ts";
import { isCut } from "./ending.ts";
import { itemId, type OutputType } from "./ids.ts";
import { sealedCall, sealedImage, sealedState } from "./state.ts";
import { type CallersTool, freeTextIn, type ToolNames } from "./tools.ts";

/** @param fields of the event, beside its type and its number */
type Announce = (type: string, fields: JsonObject) => void;

type TextPart = { type: "output_text"; text: string; annotations: JsonObject[]; logprobs: TokenLogprob[] };
type RefusalPart = { type: "refusal"; refusal: string };
type OpenMessage = {
  readonly kind: "message";
  readonly id: string;
  readonly at: number;
  readonly parts: (TextPart | RefusalPart)[];
  /** True where the last part goes on. */
  isPartOpen: boolean;
};
type OpenReasoning = { readonly kind: "reasoning"; readonly id: string; readonly at: number; text: string };
type OpenCall = {
  readonly kind: "call";
  readonly id: string;
  readonly at: number;
  readonly index: number;
  readonly callId: string;
  readonly tool: CallersTool;
  /** Arguments, or what a function that stands for a custom tool gets. */
  written: string;
  /** True where `written` is a custom tool's text itself. */
  readonly isFreeText: boolean;
};
type Open = OpenMessage | OpenReasoning | OpenCall;

export class Output {
  readonly items: JsonObject[] = [];
  /** True where a refusal is part of the answer. */
  hasRefused = false;
  readonly #answerId: string;
  readonly #names: ToolNames;
  readonly #announce: Announce;
  #open: Open | undefined;
  /** Indexes of calls that have ended. */
  readonly #closedCalls = new Set<number>();
  readonly #callIds = new Set<string>();
  /** Deltas that came while a call was not whole yet; they have to wait for its end. */
  #held: Delta[] = [];
  /** Pieces of another gateway's thinking state, which are one when all are there. */
  readonly #details: unknown[] = [];
  /** Thinking blocks and seals that were written already. */
  readonly #sealed = new Set<string>();
  readonly #counts: Partial<Record<OutputType, number>> = {};
  /** The length of all text before the last message, as annotations count from there. */
  #length = 0;

  constructor(answerId: string, names: ToolNames, announce: Announce) {
    this.#answerId = answerId;
    this.#names = names;
    this.#announce = announce;
  }

  /** The text part that a fragment of plain text would continue; undefined where it would begin another. */
  get openText(): { text: string } | undefined {
    const open = this.#open;
    if (open?.kind !== "message" || !open.isPartOpen || this.#held.length > 0) return undefined;
    const part = open.parts[open.parts.length - 1]!;
    return part.type === "output_text" ? part : undefined;
  }

  /** The place of the part that is open, as events name it. */
  get openPlace(): JsonObject {
    return inPart(this.#open as OpenMessage);
  }

  /** The state of the thought that is open, or that came without its text. */
  endThought(state: MessageState): void {
    if (this.#open?.kind !== "call" || this.#isWhole()) this.#seal(state);
  }

  push(delta: Delta, logprobs?: Logprobs | null): void {
    for (const one of separated(delta)) this.#take(one, logprobs);
  }

  /** Closes what is open. */
  finish(reason: FinishReason): void {
    while (this.#held.length > 0) {
      this.#close("completed");
      this.#release();
    }
    if (this.#details.length > 0) this.#seal({ reasoning_details: wholeDetails(this.#details) });
    this.#close(isCut(reason, this.hasRefused) ? "incomplete" : "completed");
  }

  /** @param delta of one kind */
  #take(delta: Delta, logprobs?: Logprobs | null): void {
    if (this.#mustWait(delta)) {
      this.#held.push(delta);
      return;
    }
    if (delta.reasoning_content) this.#reason(delta.reasoning_content);
    if (delta.thinking_blocks !== undefined || delta.extra_content !== undefined) this.#seal(delta);
    this.#details.push(...listOf(delta["reasoning_details"]));
    if (typeof delta.content === "string" && delta.content !== "") this.#text(delta.content, logprobs?.content ?? []);
    if (delta.refusal) this.#refuse(delta.refusal);
    if (delta.annotations !== undefined) this.#annotate(delta.annotations);
    for (const call of delta.tool_calls ?? []) this.#call(call);
    for (const image of listOf(delta["images"])) this.#image(image);
    if (this.#held.length > 0 && this.#isWhole()) this.#release();
  }

  #release(): void {
    const held = this.#held;
    this.#held = [];
    for (const one of held) this.#take(one);
  }

  /** True where the delta belongs behind the call that is open, of which more may come. */
  #mustWait(delta: Delta): boolean {
    if (this.#open?.kind !== "call") return false;
    const [call] = delta.tool_calls ?? [];
    if (call !== undefined && call.index === this.#open.index) return false;
    return this.#held.length > 0 || !this.#isWhole();
  }

  #isWhole(): boolean {
    const open = this.#open;
    return open?.kind !== "call" || (!open.isFreeText && isObject(parseJson(open.written)));
  }

  #reason(text: string): void {
    let open = this.#open;
    if (open?.kind !== "reasoning") open = this.#openReasoning();
    if (open.text === "") {
      const part = { type: "summary_text", text: "" };
      this.#announce("response.reasoning_summary_part.added", { ...placed(open), summary_index: 0, part });
    }
    open.text += text;
    this.#announce("response.reasoning_summary_text.delta", { ...placed(open), summary_index: 0, delta: text });
  }

  #openReasoning(): OpenReasoning {
    const at = this.#begin();
    const open: OpenReasoning = { kind: "reasoning", id: this.#id("reasoning"), at, text: "" };
    this.#added(open, { id: open.id, type: "reasoning", summary: [] });
    return open;
  }

  /** State goes into the reasoning that it belongs to, where that is still open, else into an item of its own. */
  #seal(state: MessageState): void {
    const isNew = (part: string) => this.#isNew(part);
    const blocks = (state.thinking_blocks ?? []).filter((block) => isNew(JSON.stringify(block)));
    for (const one of sealedState({ ...state, thinking_blocks: blocks }, isNew)) this.#addSeal(one);
  }

  #isNew(part: string): boolean {
    const isNew = !this.#sealed.has(part);
    this.#sealed.add(part);
    return isNew;
  }

  #addSeal(sealed: string): void {
    if (!this.#isNew(sealed)) return;
    const open = this.#open?.kind === "reasoning" ? this.#open : this.#openReasoning();
    this.#closeReasoning(open, "completed", sealed);
  }

  #text(text: string, given: readonly TokenLogprob[]): void {
    const logprobs = given.map(wholeLogprob);
    const open = this.#openPart("output_text");
    const part = open.parts.at(-1) as TextPart;
    part.text += text;
    part.logprobs.push(...logprobs);
    this.#announce("response.output_text.delta", { ...inPart(open), delta: text, logprobs });
  }

  #refuse(text: string): void {
    this.hasRefused = true;
    const open = this.#openPart("refusal");
    (open.parts.at(-1) as RefusalPart).refusal += text;
    this.#announce("response.refusal.delta", { ...inPart(open), delta: text });
  }

  #openPart(type: "output_text" | "refusal"): OpenMessage {
    let open = this.#open;
    if (open?.kind !== "message") {
      const at = this.#begin();
      open = { kind: "message", id: this.#id("message"), at, parts: [], isPartOpen: false };
      this.#added(open, { id: open.id, ...message("in_progress", []) });
    }
    if (open.isPartOpen && open.parts.at(-1)!.type !== type) this.#closePart(open);
    if (!open.isPartOpen) {
      const part = type === "refusal" ? { type, refusal: "" } : { type, text: "", annotations: [], logprobs: [] };
      open.parts.push(part);
      open.isPartOpen = true;
      this.#announce("response.content_part.added", { ...inPart(open), part: { ...part } });
    }
    return open;
  }

  /** Citations often come last of all: then the message that they belong to has been written already. */
  #annotate(annotations: readonly Annotation[]): void {
    const open = this.#open;
    const isOpen = open?.kind === "message" && open.parts.at(-1)?.type === "output_text";
    const parts = isOpen ? open.parts : listOf(this.items.findLast(({ type }) => type === "message")?.["content"]);
    const part = (parts as (TextPart | RefusalPart)[]).findLast(({ type }) => type === "output_text") as
      | TextPart
      | undefined;
    if (part === undefined) return;
    const offset = isOpen ? this.#length : this.#length - part.text.length;
    for (const { type, url_citation } of annotations) {
      if (url_citation === undefined) continue;
      const { start_index, end_index, ...cited } = url_citation;
      const at = (index: number) => Math.max(0, index - offset);
      const annotation = { type, start_index: at(start_index), end_index: at(end_index), ...cited };
      part.annotations.push(annotation);
      if (!isOpen || !open.isPartOpen) continue;
      const annotation_index = part.annotations.length - 1;
      this.#announce("response.output_text.annotation.added", { ...inPart(open), annotation_index, annotation });
    }
  }

  /** @throws InvalidAnswer for a tool of a kind that has no items here */
  #call(delta: ToolCallDelta): void {
    refuseOtherKinds(delta);
    if (this.#closedCalls.has(delta.index)) return;
    const open = this.#open?.kind === "call" && this.#open.index === delta.index ? this.#open : this.#openCall(delta);
    const text = delta.function?.arguments ?? delta.custom?.input ?? "";
    if (text === "") return;
    open.written += text;
    // Free text is known once the arguments that hold it are whole.
    if (open.tool.kind === "custom") return;
    this.#announce("response.function_call_arguments.delta", { ...placed(open), delta: text });
  }

  #openCall(delta: ToolCallDelta): OpenCall {
    const callId = this.#uniqueCallId(delta.id ?? `call_${this.#answerId}_${delta.index}`);
    const sealed = sealedCall(callId, delta.extra_content);
    if (sealed !== undefined) this.#addSeal(sealed);
    const at = this.#begin();
    const isFreeText = delta.custom !== undefined;
    const named = this.#names.callersTool(delta.function?.name ?? delta.custom?.name ?? "");
    const tool: CallersTool = isFreeText ? { ...named, kind: "custom" } : named;
    const type = tool.kind === "custom" ? "custom_tool_call" : "function_call";
    const id = this.#id(type);
    const open: OpenCall = { kind: "call", id, at, index: delta.index, callId, tool, written: "", isFreeText };
    this.#added(open, callItem(open, "in_progress", ""));
    return open;
  }

  /** Some servers give two calls one id, which clients of this format refuse. */
  #uniqueCallId(id: string): string {
    let unique = id;
    for (let count = 2; this.#callIds.has(unique); count += 1) unique = `${id}_${count}`;
    this.#callIds.add(unique);
    return unique;
  }

  /** https://platform.openai.com/docs/guides/tools-image-generation */
  #image(image: unknown): void {
    const { image_url, extra_content } = objectOf(image) ?? {};
    const url = textOf(objectOf(image_url)?.["url"]) ?? "";
    const [head, output_format] = imageForm.exec(url) ?? [];
    if (head === undefined) return;
    const type: OutputType = "image_generation_call";
    const id = this.#id(type);
    const sealed = sealedImage(id, extra_content);
    if (sealed !== undefined) this.#addSeal(sealed);
    const at = this.#begin();
    const item = { id, type, status: "completed", output_format, result: url.slice(head.length) };
    this.#announce("response.output_item.added", {
      output_index: at,
      item: { ...item, status: "in_progress", result: null },
    });
    this.items.push(item);
    this.#announce("response.output_item.done", { output_index: at, item });
  }

  #id(type: OutputType): string {
    const count = this.#counts[type] ?? 0;
    this.#counts[type] = count + 1;
    return itemId(type, this.#answerId, count);
  }

  /** Closes what is open. @returns the place of the next item */
  #begin(): number {
    this.#close("completed");
    return this.items.length;
  }

  #added(open: Open, item: JsonObject): void {
    this.#open = open;
    this.#announce("response.output_item.added", { output_index: open.at, item });
  }

  #close(status: "completed" | "incomplete"): void {
    const open = this.#open;
    switch (open?.kind) {
      case "message":
        this.#closePart(open);
        this.#length += open.parts.reduce((sum, part) => sum + (part.type === "output_text" ? part.text.length : 0), 0);
        this.#done(open, { id: open.id, ...message(status, open.parts) });
        return;
      case "reasoning":
        this.#closeReasoning(open, status);
        return;
      case "call":
        this.#closeCall(open, status);
    }
  }

  #closePart(open: OpenMessage): void {
    if (!open.isPartOpen) return;
    open.isPartOpen = false;
    const part = open.parts.at(-1)!;
    const place = inPart(open);
    if (part.type === "refusal") this.#announce("response.refusal.done", { ...place, refusal: part.refusal });
    else this.#announce("response.output_text.done", { ...place, text: part.text, logprobs: part.logprobs });
    this.#announce("response.content_part.done", { ...place, part });
  }

  #closeReasoning(open: OpenReasoning, status: string, encrypted_content?: string): void {
    const texts = open.text === "" ? [] : [open.text];
    if (open.text !== "") {
      const place = { ...placed(open), summary_index: 0 };
      this.#announce("response.reasoning_summary_text.done", { ...place, text: open.text });
      const part = { type: "summary_text", text: open.text };
      this.#announce("response.reasoning_summary_part.done", { ...place, part });
    }
    const item = {
      id: open.id,
      type: "reasoning",
      status,
      summary: texts.map((text) => ({ type: "summary_text", text })),
      ...(encrypted_content !== undefined && { encrypted_content }),
    };
    this.#done(open, item);
  }

  #closeCall(open: OpenCall, status: string): void {
    this.#closedCalls.add(open.index);
    if (open.tool.kind === "custom") {
      const input = open.isFreeText ? open.written : freeTextIn(open.written);
      if (input !== "") this.#announce("response.custom_tool_call_input.delta", { ...placed(open), delta: input });
      this.#announce("response.custom_tool_call_input.done", { ...placed(open), input });
      this.#done(open, callItem(open, status, input));
      return;
    }
    // A function without arguments; of one that was cut off nothing is made up.
    const isEmpty = open.written === "" && status === "completed";
    if (isEmpty) this.#announce("response.function_call_arguments.delta", { ...placed(open), delta: "{}" });
    const written = isEmpty ? "{}" : open.written;
    const { name } = open.tool;
    this.#announce("response.function_call_arguments.done", { ...placed(open), name, arguments: written });
    this.#done(open, callItem(open, status, written));
  }

  #done(open: Open, item: JsonObject): void {
    this.#open = undefined;
    this.items.push(item);
    this.#announce("response.output_item.done", { output_index: open.at, item });
  }
}

/** The beginning of an image's data URL, with its kind. */
const imageForm = /^data:image\/([a-z]{1,16})[^,]{0,64},/;

const placed = ({ id, at }: Open) => ({ item_id: id, output_index: at });
const inPart = (open: OpenMessage) => ({ ...placed(open), content_index: open.parts.length - 1 });

function message(status: string, content: readonly (TextPart | RefusalPart)[]): JsonObject {
  return { type: "message", status, role: "assistant", content };
}

function callItem({ id, callId, tool }: OpenCall, status: string, written: string): JsonObject {
  const { kind, name, namespace } = tool;
  const said =
    kind === "custom"
      ? { type: "custom_tool_call", status, call_id: callId, name, input: written }
      : { type: "function_call", status, call_id: callId, name, arguments: written };
  return { id, ...said, ...(namespace !== undefined && { namespace }) };
}

/** The kinds of what a delta may hold, in the order in which they are an answer's. */
const kinds = [
  ["reasoning_content"],
  ["thinking_blocks", "extra_content", "reasoning_details"],
  ["content"],
  ["refusal"],
  ["annotations"],
  ["images"],
] as const;

/** A delta as one for each kind, and for each call: the parts of an answer that may have to wait for each other. */
function separated(delta: Delta): Delta[] {
  const parts: Delta[] = [];
  for (const names of kinds) {
    const part: Delta = {};
    for (const name of names) if (delta[name] != null) Object.assign(part, { [name]: delta[name] });
    if (Object.keys(part).length > 0) parts.push(part);
  }
  for (const call of delta.tool_calls ?? []) parts.push({ tool_calls: [call] });
  return parts;
}

/** Bytes are no member that may be null here, as they may elsewhere. */
function wholeLogprob(logprob: TokenLogprob): TokenLogprob {
  const { bytes, top_logprobs: top } = logprob;
  return { ...logprob, bytes: bytes ?? [], top_logprobs: top.map((one) => ({ ...one, bytes: one.bytes ?? [] })) };
}
