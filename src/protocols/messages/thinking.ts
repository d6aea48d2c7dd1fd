/**
 * Thinking across the formats: what a maker must get back is sealed into the slots that this format's clients keep and return
 * (`signature`, `redacted_thinking.data`), and opened again on the way in. Anthropic's own stands there as it is.
 */
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import type { AssistantMessage, ThinkingBlock, ToolCall } from "../chat/schema.ts";
import { ReturnedState } from "../returned-state.ts";
import { isSeal, type SealFamily, seal } from "../seal.ts";
import { effortOf } from "../translated-fields.ts";
import type { MessagesBody } from "./schema.ts";

/** State that an answer may carry for the next turn, in the inner form's fields. */
type Carrier = {
  readonly extra_content?: Record<string, unknown> | null;
  readonly reasoning_details?: unknown;
};

const sealedFields: readonly SealFamily[] = ["google", "openai", "xai", "openrouter"];

/** @returns the envelope of what its maker must get back; undefined where there is nothing */
export function sealOfMessage({ extra_content, reasoning_details }: Carrier): string | undefined {
  for (const family of sealedFields) {
    const message = objectOf(extra_content?.[family]);
    if (message !== undefined) return seal(family, { message });
  }
  const details = listOf(reasoning_details);
  return details.length === 0 ? undefined : seal("openrouter", { details });
}

/** The same of a call's own. @param id the call's, which clients give back */
export function sealOfCall(id: string, extra: Record<string, unknown> | undefined): string | undefined {
  for (const family of sealedFields) {
    const call = objectOf(extra?.[family]);
    if (call !== undefined) return seal(family, { calls: { [id]: call } });
  }
  return undefined;
}

/** Seals blocks that came too late for their place in a stream. */
export function sealOfBlocks(blocks: readonly ThinkingBlock[]): string {
  return seal("anthropic", { blocks });
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
    if (signature) return this.#take(signature, { type: "thinking", thinking, signature });
    if (thinking !== "") this.#texts.push(thinking);
    return false;
  }

  redacted(data: string): boolean {
    return data !== "" && this.#take(data, { type: "redacted_thinking", data });
  }

  /** The call with what its maker needs of it. */
  sign(call: ToolCall): ToolCall {
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

  /** Blocks in envelopes came behind their place, which means nothing. */
  #take(state: string, block: ThinkingBlock): boolean {
    if (isSeal(state)) this.#state.open(state);
    else this.#state.blocks.push(block);
    return !isSeal(state);
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
