/**
 * Thinking across the formats: what a maker must get back is sealed into the slots that this format's clients keep and return
 * (`signature`, `redacted_thinking.data`), and opened again on the way in. Anthropic's own stands there as it is.
 */
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import type { AssistantMessage, ThinkingBlock, ToolCall } from "../chat/schema.ts";
import { isSeal, type SealFamily, seal, unseal } from "../seal.ts";
import type { MessagesBody } from "./schema.ts";

/** What an answer may carry for the next turn, in the inner form's fields. */
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

/** Of blocks that came too late for their place in a stream. */
export function sealOfBlocks(blocks: readonly ThinkingBlock[]): string {
  return seal("anthropic", { blocks });
}

/** Anthropic's blocks in one of our envelopes; undefined in any other. */
export function sealedBlocks(text: string): ThinkingBlock[] | undefined {
  const blocks = objectOf(unseal(text)?.content)?.["blocks"];
  return blocks === undefined ? undefined : listOf(blocks).filter(isThinkingBlock);
}

function isThinkingBlock(value: unknown): value is ThinkingBlock {
  const { type, signature, data } = objectOf(value) ?? {};
  return (
    (type === "thinking" && typeof signature === "string") || (type === "redacted_thinking" && typeof data === "string")
  );
}

/** Collects the thinking of one assistant turn that came back. */
export class ReturnedThinking {
  readonly #blocks: ThinkingBlock[] = [];
  readonly #extra: Record<string, unknown> = {};
  readonly #calls = new Map<string, Record<string, unknown>>();
  readonly #texts: string[] = [];
  #details: unknown[] = [];

  /** @returns whether it is a block of Anthropic's own */
  thinking(thinking: string, signature: string | null | undefined): boolean {
    if (signature && !isSeal(signature)) {
      this.#blocks.push({ type: "thinking", thinking, signature });
      return true;
    }
    if (signature) return this.#open(signature);
    if (thinking !== "") this.#texts.push(thinking);
    return false;
  }

  redacted(data: string): boolean {
    if (isSeal(data)) return this.#open(data);
    if (data !== "") this.#blocks.push({ type: "redacted_thinking", data });
    return data !== "";
  }

  /** The call with what its maker needs of it. */
  sign(call: ToolCall): ToolCall {
    const extra_content = this.#calls.get(call.id);
    return extra_content === undefined ? call : { ...call, extra_content };
  }

  /** @param layout where the blocks stood among texts and calls; absent: in the usual places */
  fields(layout?: readonly unknown[]): Partial<AssistantMessage> {
    const hasBlocks = this.#blocks.length > 0;
    const extra = { ...this.#extra, ...(hasBlocks && layout !== undefined && { anthropic: { layout } }) };
    return {
      ...(this.#texts.length > 0 && { reasoning_content: this.#texts.join("\n\n") }),
      ...(hasBlocks && { thinking_blocks: this.#blocks }),
      ...(Object.keys(extra).length > 0 && { extra_content: extra }),
      ...(this.#details.length > 0 && { reasoning_details: this.#details }),
    };
  }

  /** An envelope that can't be opened is left out with its block. */
  #open(text: string): boolean {
    const opened = unseal(text);
    const content = objectOf(opened?.content) ?? {};
    const family = opened?.family;
    if (family === undefined) return false;
    // They came behind their place, so that it tells nothing.
    this.#blocks.push(...listOf(content["blocks"]).filter(isThinkingBlock));
    this.#details.push(...listOf(content["details"]));
    const message = objectOf(content["message"]);
    if (message !== undefined) this.#extra[family] = message;
    for (const [id, state] of Object.entries(objectOf(content["calls"]) ?? {}))
      this.#calls.set(id, { [family]: state });
    return false;
  }
}

/** The budget from which on an effort is meant, the highest first. */
const thresholds = [
  [4096, "high"],
  [2048, "medium"],
  [1024, "low"],
  [0, "minimal"],
] as const;

/**
 * How the model is asked to think: in the words of this format for the providers that know them, and as an effort for the others.
 * What is absent stays absent.
 */
export function thinkingOptions({ thinking, output_config }: MessagesBody): JsonObject {
  const effort = output_config?.effort ?? undefined;
  if (thinking == null) return effort === undefined ? {} : { reasoning_effort: effort };
  if (thinking.type === "disabled") return { thinking, reasoning_effort: "none" };
  const { budget_tokens, display } = thinking as JsonObject;
  const budget = typeof budget_tokens === "number" ? budget_tokens : undefined;
  const implied = budget === undefined ? undefined : thresholds.find(([least]) => budget >= least)?.[1];
  const asked = effort ?? implied;
  return {
    thinking,
    include_thoughts: display !== "omitted",
    ...(asked !== undefined && { reasoning_effort: asked }),
  };
}

/** Whether the client gets thinking blocks, and whether with their text. */
export type ThinkingShown = "text" | "state" | "none";

export function thinkingShown({ thinking }: MessagesBody): ThinkingShown {
  if (thinking?.type === "disabled") return "none";
  return (thinking as JsonObject | undefined)?.["display"] === "omitted" ? "state" : "text";
}
