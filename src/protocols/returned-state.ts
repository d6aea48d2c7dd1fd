/** Opens the state that continues the model's thoughts, which clients of other formats give back in envelopes (`seal.ts`). */
import { isObject, type JsonObject, listOf, numberOf, objectOf } from "../lib/json/json.ts";
import type { AssistantMessage, ThinkingBlock } from "./chat/schema.ts";
import { type SealFamily, unseal } from "./seal.ts";

type ExtraContent = Record<string, unknown>;

/** Collects the state of one turn. */
export class ReturnedState {
  readonly blocks: ThinkingBlock[] = [];
  /** The places of the blocks among texts and calls. Undefined: the usual ones. */
  layout: readonly unknown[] | undefined;
  readonly details: JsonObject[] = [];
  /** The message's `extra_content`. */
  readonly extra: ExtraContent = {};
  /** The `extra_content` of calls and images, by their ids. */
  readonly calls = new Map<string, ExtraContent>();
  readonly images = new Map<string, ExtraContent>();

  /**
   * An envelope that can't be opened is left out: it is of no use to anybody.
   * @returns what it holds, and who made that; undefined where it can't be opened
   */
  open(text: string): { readonly family: SealFamily; readonly content: JsonObject } | undefined {
    const { family, content } = unseal(text) ?? {};
    if (family === undefined || !isObject(content)) return undefined;
    const { blocks, layout, details, message, calls, images } = content;
    this.blocks.push(...listOf(blocks).filter(isThinkingBlock));
    this.layout ??= layoutOf(layout);
    this.details.push(...listOf(details).filter(isObject));
    if (isObject(message)) this.extra[family] = message;
    for (const [id, state] of statesIn(calls)) this.calls.set(id, { [family]: state });
    for (const [id, state] of statesIn(images)) this.images.set(id, { [family]: state });
    return { family, content };
  }

  /** The members of the turn's message. */
  fields(): Pick<AssistantMessage, "thinking_blocks" | "extra_content" | "reasoning_details"> {
    const extra = { ...(this.layout !== undefined && { anthropic: { layout: this.layout } }), ...this.extra };
    return {
      ...(this.blocks.length > 0 && { thinking_blocks: this.blocks }),
      ...(Object.keys(extra).length > 0 && { extra_content: extra }),
      ...(this.details.length > 0 && { reasoning_details: this.details }),
    };
  }
}

const statesIn = (states: unknown) => Object.entries(objectOf(states) ?? {}).filter(([, state]) => isObject(state));

function isThinkingBlock(value: unknown): value is ThinkingBlock {
  const { type, thinking, signature, data } = objectOf(value) ?? {};
  if (type === "redacted_thinking") return typeof data === "string";
  return type === "thinking" && typeof thinking === "string" && typeof signature === "string";
}

function layoutOf(value: unknown): readonly unknown[] | undefined {
  const entries = listOf(value);
  const isLayout = entries.every((one) => typeof one === "string" || numberOf(one) !== undefined);
  return isLayout && entries.length > 0 ? entries : undefined;
}
