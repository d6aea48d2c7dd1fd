/**
 * What continues the model's thoughts in the next turn, in the slot that this format has for it: `encrypted_content` of a
 * reasoning item. What comes from upstreams of this format untranslated stands there as it is, all else in an envelope
 * (`seal.ts`).
 */
import { isObject, type JsonObject, listOf, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { AnswerMessage, AssistantMessage, ThinkingBlock } from "../chat/schema.ts";
import { isSeal, type SealFamily, seal, unseal } from "../seal.ts";

/** A call's own state, as the inner form has it. */
export type CallState = { extra_content?: Record<string, unknown> };

/** A reasoning item's content as far as it is state. */
export type Sealed = { readonly encrypted_content: string };

type NativeReasoning = { id: string; encrypted_content: string; summary: string[]; call_id?: string };

/** The ids of xAI's reasoning hold a UUID, OpenAI's do not. */
const xaiId = /^rs_[0-9a-f]{8}-[0-9a-f]{4}-/;
/** The providers whose reasoning needs no envelope here. */
const natives = ["openai", "xai"] as const;

/** Collects the state of one turn from the reasoning items that a caller sends back. */
export class TurnState {
  readonly #thoughts: string[] = [];
  readonly #blocks: ThinkingBlock[] = [];
  #layout: unknown;
  #google: JsonObject | undefined;
  readonly #details: unknown[] = [];
  readonly #googleCalls = new Map<string, JsonObject>();
  readonly #googleImages = new Map<string, JsonObject>();
  readonly #native: Record<(typeof natives)[number], NativeReasoning[]> = { openai: [], xai: [] };
  /** Reasoning whose fruit has not come yet. */
  #pending: NativeReasoning[] = [];
  /** How the content of an envelope is read, by the family that made it. */
  readonly #open: Readonly<Record<SealFamily, (content: JsonObject) => void>> = {
    anthropic: ({ blocks, layout }) => {
      this.#blocks.push(...listOf(blocks).flatMap(thinkingBlock));
      this.#layout ??= layoutOf(layout);
    },
    google: ({ message, calls, images }) => {
      this.#google = objectOf(message) ?? this.#google;
      for (const [id, state] of Object.entries(objectOf(images) ?? {})) {
        if (isObject(state)) this.#googleImages.set(id, state);
      }
      for (const [id, state] of Object.entries(objectOf(calls) ?? {})) {
        if (isObject(state)) this.#googleCalls.set(id, state);
      }
    },
    openai: (content) => this.#openNative("openai", content),
    xai: (content) => this.#openNative("xai", content),
    openrouter: ({ details }) => void this.#details.push(...listOf(details).filter(isObject)),
  };

  /** @param item a reasoning item, checked */
  add(item: JsonObject): void {
    const summary = textsOf(item["summary"]);
    const thoughts = summary.length > 0 ? summary : textsOf(item["content"]);
    this.#thoughts.push(...thoughts);
    const encrypted = textOf(item["encrypted_content"]) ?? "";
    if (encrypted === "") return;
    if (isSeal(encrypted)) this.#unseal(encrypted);
    else {
      const id = textOf(item["id"]) ?? "";
      this.#addNative(xaiId.test(id) ? "xai" : "openai", id, encrypted, summary);
    }
  }

  /** @param id of a call that comes now @returns the state that stands on it */
  call(id: string): CallState {
    for (const one of this.#pending) one.call_id = id;
    this.#pending = [];
    const google = this.#googleCalls.get(id);
    return google === undefined ? {} : { extra_content: { google } };
  }

  /** @param id of an image that comes now @returns the state that stands on it */
  image(id: string): CallState {
    this.#pending = [];
    const google = this.#googleImages.get(id);
    return google === undefined ? {} : { extra_content: { google } };
  }

  /** A text comes now. */
  text(): void {
    this.#pending = [];
  }

  /** The members of the turn's message. */
  fields(): Pick<AssistantMessage, "reasoning_content" | "thinking_blocks" | "reasoning_details" | "extra_content"> {
    const extra: Record<string, unknown> = {};
    if (this.#layout !== undefined) extra["anthropic"] = { layout: this.#layout };
    if (this.#google !== undefined) extra["google"] = this.#google;
    for (const name of natives) if (this.#native[name].length > 0) extra[name] = { reasoning: this.#native[name] };
    return {
      ...(this.#thoughts.length > 0 && { reasoning_content: this.#thoughts.join("\n\n") }),
      ...(this.#blocks.length > 0 && { thinking_blocks: this.#blocks }),
      ...(this.#details.length > 0 && { reasoning_details: this.#details }),
      ...(Object.keys(extra).length > 0 && { extra_content: extra }),
    };
  }

  /** What can't be opened is left out: it is of no use to anybody. */
  #unseal(text: string): void {
    const { family, content } = unseal(text) ?? {};
    if (family !== undefined && isObject(content)) this.#open[family](content);
  }

  #openNative(family: (typeof natives)[number], { id, encrypted_content, summary, call_id }: JsonObject): void {
    if (typeof encrypted_content !== "string") return;
    const texts = listOf(summary).filter((one) => typeof one === "string");
    this.#addNative(family, textOf(id) ?? "", encrypted_content, texts, textOf(call_id));
  }

  /** @param call_id of the call that it led to; undefined: whatever comes next */
  #addNative(
    family: (typeof natives)[number],
    id: string,
    encrypted_content: string,
    summary: string[],
    call_id?: string,
  ): void {
    const reasoning: NativeReasoning = { id, encrypted_content, summary, ...(call_id !== undefined && { call_id }) };
    this.#native[family].push(reasoning);
    if (call_id === undefined) this.#pending.push(reasoning);
  }
}

function textsOf(parts: unknown): string[] {
  return listOf(parts)
    .map((part) => textOf(objectOf(part)?.["text"]) ?? "")
    .filter((text) => text !== "");
}

function thinkingBlock(block: unknown): ThinkingBlock[] {
  const { type, thinking, signature, data } = objectOf(block) ?? {};
  if (type === "thinking" && typeof thinking === "string" && typeof signature === "string") {
    return [{ type, thinking, signature }];
  }
  return type === "redacted_thinking" && typeof data === "string" ? [{ type, data }] : [];
}

function layoutOf(value: unknown): unknown {
  const entries = listOf(value);
  const isLayout = entries.every((one) => typeof one === "string" || numberOf(one) !== undefined);
  return isLayout && entries.length > 0 ? entries : undefined;
}

/** The state that stands on a message as a whole. */
export type MessageState = Pick<AnswerMessage, "thinking_blocks" | "extra_content"> & { reasoning_details?: unknown };

/** @returns what has to come back, one for each reasoning item that is to carry it */
export function sealedState({ thinking_blocks, extra_content, reasoning_details }: MessageState): Sealed[] {
  const sealed: Sealed[] = [];
  const layout = objectOf(extra_content?.["anthropic"])?.["layout"];
  const blocks = thinking_blocks ?? [];
  if (blocks.length > 0 || layout !== undefined) {
    const content = { blocks, ...(layout !== undefined && { layout }) };
    sealed.push({ encrypted_content: seal("anthropic", content) });
  }
  const details = listOf(reasoning_details);
  if (details.length > 0) sealed.push({ encrypted_content: seal("openrouter", { details }) });
  const google = objectOf(extra_content?.["google"]);
  if (google !== undefined) sealed.push({ encrypted_content: seal("google", { message: google }) });
  for (const name of natives) {
    const entries = listOf(objectOf(extra_content?.[name])?.["reasoning"]);
    sealed.push(...entries.flatMap((entry) => nativeSeal(name, entry)));
  }
  return sealed;
}

/** In an envelope too: the item's id is ours, by which a caller may refer to it, and the maker wants its own back. */
function nativeSeal(family: (typeof natives)[number], entry: unknown): Sealed[] {
  const { id, encrypted_content, summary, call_id } = objectOf(entry) ?? {};
  if (typeof id !== "string" || typeof encrypted_content !== "string") return [];
  const summaries = listOf(summary).map((part) => textOf(part) ?? textOf(objectOf(part)?.["text"]) ?? "");
  const content = { id, encrypted_content, summary: summaries.filter((text) => text !== ""), call_id };
  return [{ encrypted_content: seal(family, content) }];
}

/** @returns the state on a call, sealed; undefined where there is none */
export function sealedCall(id: string, extra_content: unknown): Sealed | undefined {
  const google = objectOf(objectOf(extra_content)?.["google"]);
  return google && { encrypted_content: seal("google", { calls: { [id]: google } }) };
}

/** The same on an image. @param id its item's */
export function sealedImage(id: string, extra_content: unknown): Sealed | undefined {
  const google = objectOf(objectOf(extra_content)?.["google"]);
  return google && { encrypted_content: seal("google", { images: { [id]: google } }) };
}
