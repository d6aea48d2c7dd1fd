/**
 * Keeps the state that continues the model's thoughts in the slot that this format has for it: `encrypted_content` of a
 * reasoning item. What comes from upstreams of this format untranslated stands there as it is, all else in an envelope
 * (`seal.ts`).
 */

import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { AssistantMessage } from "../chat/schema.ts";
import type { MessageState } from "../state/returned-state.ts";
import { ReturnedState } from "../state/returned-state.ts";
import { isSeal, seal } from "../state/seal.ts";
import { type Reasoning, reasoningOf, textsOf, thoughtsOf } from "./reasoning.ts";

/** A call's own state, as the inner form has it. */
type CallState = { extra_content?: Record<string, unknown> };

/** The ids of xAI's reasoning hold a UUID, OpenAI's do not. */
const xaiId = /^rs_[0-9a-f]{8}-[0-9a-f]{4}-/;
/** The providers whose reasoning needs no envelope here. */
const natives = ["openai", "xai"] as const;

/** Collects the state of one turn from the reasoning items that a caller sends back. */
export class TurnState {
  readonly #thoughts: string[] = [];
  readonly #state = new ReturnedState();
  readonly #native: Record<(typeof natives)[number], Reasoning[]> = { openai: [], xai: [] };
  /** Reasoning whose fruit has not come yet. */
  #pending: Reasoning[] = [];

  /** @param item a reasoning item, checked */
  add(item: JsonObject): void {
    this.#thoughts.push(...thoughtsOf(item));
    const encrypted = textOf(item["encrypted_content"]) ?? "";
    if (encrypted === "") return;
    if (isSeal(encrypted)) this.#open(encrypted);
    else {
      const id = textOf(item["id"]) ?? "";
      this.#addNative(xaiId.test(id) ? "xai" : "openai", {
        ...(id !== "" && { id }),
        encrypted_content: encrypted,
        summary: textsOf(item["summary"]),
      });
    }
  }

  /** @param id of a call that comes now @returns the state that stands on it */
  call(id: string): CallState {
    for (const one of this.#pending) one.call_id = id;
    this.#pending = [];
    const extra_content = this.#state.calls.get(id);
    return extra_content === undefined ? {} : { extra_content };
  }

  /** @param id of an image that comes now @returns the state that stands on it */
  image(id: string): CallState {
    this.#pending = [];
    const extra_content = this.#state.images.get(id);
    return extra_content === undefined ? {} : { extra_content };
  }

  /** A text comes now. */
  text(): void {
    this.#pending = [];
  }

  /** The members of the turn's message. */
  fields(): Pick<AssistantMessage, "reasoning_content" | "thinking_blocks" | "reasoning_details" | "extra_content"> {
    for (const name of natives) {
      if (this.#native[name].length > 0) this.#state.extra[name] = { reasoning: this.#native[name] };
    }
    return {
      ...(this.#thoughts.length > 0 && { reasoning_content: this.#thoughts.join("\n\n") }),
      ...this.#state.fields(),
    };
  }

  #open(text: string): void {
    const { family, content } = this.#state.open(text) ?? {};
    const maker = natives.find((one) => one === family);
    const [reasoning] = reasoningOf(content);
    if (maker !== undefined && reasoning !== undefined) this.#addNative(maker, reasoning);
  }

  /** Without the call that it led to, it leads to whatever comes next. */
  #addNative(maker: (typeof natives)[number], reasoning: Reasoning): void {
    this.#native[maker].push(reasoning);
    if (reasoning.call_id === undefined) this.#pending.push(reasoning);
  }
}

/**
 * @param isNew false for encrypted reasoning that was sealed already
 * @returns what has to come back, one for each reasoning item that is to carry it
 */
export function sealedState(
  { thinking_blocks, extra_content, reasoning_details }: MessageState,
  isNew: (part: string) => boolean,
): string[] {
  const sealed: string[] = [];
  const layout = objectOf(extra_content?.["anthropic"])?.["layout"];
  const blocks = thinking_blocks ?? [];
  if (blocks.length > 0 || layout !== undefined) {
    const content = { blocks, ...(layout !== undefined && { layout }) };
    sealed.push(seal("anthropic", content));
  }
  const details = listOf(reasoning_details);
  if (details.length > 0) sealed.push(seal("openrouter", { details }));
  const google = objectOf(extra_content?.["google"]);
  if (google !== undefined) sealed.push(seal("google", { message: google }));
  // Native reasoning too, as the item's id is ours, by which a caller may refer to it, and the maker wants its own back.
  for (const name of natives) {
    const entries = listOf(objectOf(extra_content?.[name])?.["reasoning"]).flatMap(reasoningOf);
    for (const entry of entries) if (isNew(entry.encrypted_content)) sealed.push(seal(name, entry));
  }
  return sealed;
}

/** @returns the state on a call, sealed; undefined where there is none */
export function sealedCall(id: string, extra_content: unknown): string | undefined {
  const google = objectOf(objectOf(extra_content)?.["google"]);
  return google && seal("google", { calls: { [id]: google } });
}

/** The same on an image. @param id its item's */
export function sealedImage(id: string, extra_content: unknown): string | undefined {
  const google = objectOf(objectOf(extra_content)?.["google"]);
  return google && seal("google", { images: { [id]: google } });
}
