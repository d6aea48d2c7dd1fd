/**
 * Thinking across the formats: what a maker must get back is sealed into the slots that this format's clients keep and return
 * (`signature`, `redacted_thinking.data`), and opened again on the way in. Anthropic's own stands there as it is.
 */
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { wholeDetails } from "../chat/reasoning-details.ts";
import type { AssistantMessage, ThinkingBlock, ToolCall } from "../chat/schema.ts";
import { ReturnedState } from "../state/returned-state.ts";
import { isSeal, type SealFamily, seal } from "../state/seal.ts";
import { effortOf } from "../translated-fields.ts";
import type { MessagesBody } from "./schema.ts";

/** State that an answer may carry for the next turn, in the inner form's fields. */
export type MessageState = {
  readonly thinking_blocks?: readonly ThinkingBlock[] | null;
  readonly extra_content?: Record<string, unknown> | null;
  readonly reasoning_details?: unknown;
};

const sealedFields: readonly SealFamily[] = ["google", "openai", "xai", "openrouter"];

/** An envelope without state: the thought that it stands on is known for one of a model's. @param answer the id of ours */
export const sealOfNothing = (answer: string): string => seal("troupe", { answer });

/**
 * The state of one answer as the blocks that carry it, each once: it may come with the thought that it belongs to, and again with
 * the end, with all that is known by then.
 */
export class EndedState {
  readonly #answer: string;
  readonly #taken = new Set<string>();
  #details: unknown[] = [];

  /** @param answer the id that its envelopes name it by */
  constructor(answer: string) {
    this.#answer = answer;
  }

  /** @returns blocks of what is new; details of another gateway wait until they are asked for, as they come in pieces */
  take({ thinking_blocks, extra_content, reasoning_details }: MessageState): ThinkingBlock[] {
    if (reasoning_details !== undefined) this.#details.push(...listOf(reasoning_details));
    const blocks = (thinking_blocks ?? []).filter((block) => this.#isNew(JSON.stringify(block)));
    if (extra_content == null) return blocks;
    for (const family of sealedFields) {
      const state = this.#newState(objectOf(extra_content[family]));
      if (state !== undefined) blocks.push(this.#sealed(family, { message: state }));
    }
    return blocks;
  }

  get hasDetails(): boolean {
    return this.#details.length > 0;
  }

  takeDetails(): ThinkingBlock | undefined {
    const details = wholeDetails(this.#details);
    this.#details = [];
    return details.length === 0 ? undefined : this.#sealed("openrouter", { details });
  }

  /** @param text of the thought that is open @returns what it is signed with; undefined where the block is none of its */
  signatureFor(block: ThinkingBlock, text: string): string | undefined {
    if (block.type === "redacted_thinking") return isSeal(block.data) ? block.data : undefined;
    // A signature holds for the very text that was signed.
    return block.thinking === text ? block.signature : seal("anthropic", { blocks: [block], answer: this.#answer });
  }

  /** Without reasoning that was sealed already; undefined where nothing is left that matters by itself. */
  #newState(state: JsonObject | undefined): JsonObject | undefined {
    if (state === undefined) return undefined;
    const { reasoning, ...rest } = state;
    if (!Array.isArray(reasoning)) return this.#isNew(JSON.stringify(state)) ? state : undefined;
    const isFirst = this.#taken.size === 0;
    const added = reasoning.filter((entry) => this.#isNew(String(objectOf(entry)?.["encrypted_content"])));
    return added.length === 0 ? undefined : { ...(isFirst && rest), reasoning: added };
  }

  #isNew(state: string): boolean {
    const isNew = !this.#taken.has(state);
    this.#taken.add(state);
    return isNew;
  }

  #sealed(family: SealFamily, content: JsonObject): ThinkingBlock {
    return { type: "redacted_thinking", data: seal(family, { ...content, answer: this.#answer }) };
  }
}

/** The same of a call's own. @param id the call's, which clients give back */
export function sealOfCall(id: string, extra: Record<string, unknown> | undefined): string | undefined {
  for (const family of sealedFields) {
    const call = objectOf(extra?.[family]);
    if (call !== undefined) return seal(family, { calls: { [id]: call } });
  }
  return undefined;
}

/** Anthropic's blocks in one of our envelopes; none in any other. */
export function sealedBlocks(text: string): readonly ThinkingBlock[] {
  const state = new ReturnedState();
  state.open(text);
  return state.blocks;
}

/** Collects the thinking of one assistant turn that came back. */
export class ReturnedThinking {
  readonly #state = new ReturnedState();
  readonly #texts: string[] = [];

  /** @returns whether it is a block of Anthropic's own */
  thinking(thinking: string, signature: string | null | undefined): boolean {
    if (signature && !isSeal(signature)) return this.#take({ type: "thinking", thinking, signature });
    const hasState = signature ? this.#open(signature) : false;
    if (!hasState && thinking !== "") this.#texts.push(thinking);
    return false;
  }

  redacted(data: string): boolean {
    if (data === "") return false;
    if (!isSeal(data)) return this.#take({ type: "redacted_thinking", data });
    this.#open(data);
    return false;
  }

  /** The answer of ours that the turn is. */
  get answer(): string | undefined {
    return this.#state.answer;
  }

  /** A text stands here. */
  text(): void {
    this.#state.spoke();
  }

  /** The call with what its maker needs of it. */
  sign(call: ToolCall): ToolCall {
    this.#state.spoke(call.id);
    const extra_content = this.#state.calls.get(call.id);
    return extra_content === undefined ? call : { ...call, extra_content };
  }

  /** @param layout where the blocks stood among texts and calls; absent: in the usual places */
  fields(layout?: readonly unknown[]): Partial<AssistantMessage> {
    if (this.#state.blocks.length > 0) this.#state.layout = layout;
    return {
      ...(this.#texts.length > 0 && { reasoning_content: this.#texts.join("\n\n") }),
      ...this.#state.fields(),
    };
  }

  #take(block: ThinkingBlock): boolean {
    this.#state.blocks.push(block);
    return true;
  }

  /** @returns whether the envelope holds more than the name of an answer. Blocks in it have no place of their own */
  #open(state: string): boolean {
    const { family } = this.#state.open(state) ?? {};
    return family !== undefined && family !== "troupe";
  }
}

/**
 * Asks the model to think: in the words of this format for the providers that know them, and as an effort for the others.
 * Leaves out all that is absent.
 */
export function thinkingOptions({ thinking, output_config }: MessagesBody): JsonObject {
  const effort = output_config?.effort ?? undefined;
  if (thinking == null) return effort === undefined ? {} : { reasoning_effort: effort };
  if (thinking.type === "disabled") return { thinking, reasoning_effort: "none" };
  const { budget_tokens, display } = thinking as JsonObject;
  const budget = typeof budget_tokens === "number" ? budget_tokens : undefined;
  const asked = effort ?? (budget === undefined ? undefined : effortOf(budget));
  return {
    thinking,
    include_thoughts: display !== "omitted",
    ...(asked !== undefined && { reasoning_effort: asked }),
  };
}

/** The thinking blocks that the client gets: with their text, without it, or none. */
export type ThinkingShown = "text" | "state" | "none";

export function thinkingShown({ thinking }: MessagesBody): ThinkingShown {
  if (thinking?.type === "disabled") return "none";
  return (thinking as JsonObject | undefined)?.["display"] === "omitted" ? "state" : "text";
}
