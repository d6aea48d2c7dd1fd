/**
 * Keeps what a later turn needs to continue the model's thoughts: the thinking blocks themselves, unchanged, and their places among
 * texts and calls where these are not the usual ones.
 * Source: https://platform.claude.com/docs/en/build-with-claude/thinking#preserving-thinking-blocks
 */
import type { ContentBlockParam } from "@anthropic-ai/sdk/resources/messages";
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { wholeDetails } from "../../protocols/chat/reasoning-details.ts";
import type { Annotation, AnswerMessage, AssistantMessage, ThinkingBlock } from "../../protocols/chat/schema.ts";
import { orderOf } from "../../protocols/messages/facts.ts";
import { textBlocks } from "./parts.ts";

/** A text is given by its length within the whole content. */
type LayoutEntry = "thinking" | "tool_use" | number;

/** The name of these blocks in other gateways' in `reasoning_details`. */
const detailFormat = "anthropic-claude-v1";

/** Thoughts, then one text, then calls: what is assumed where nothing else is said. */
const usualOrder = /^t*x?u*$/;

/** Collects what an answer leaves for the next turn, block by block in the upstream's order. */
export class ReplayTrace {
  readonly #thinking: ThinkingBlock[] = [];
  readonly #annotations: Annotation[] = [];
  readonly #layout: LayoutEntry[] = [];
  #length = 0;

  /** A whole text block; only citations of web pages have a place in the public format. */
  text(length: number, citations: readonly unknown[]): void {
    for (const citation of citations) this.#annotate(objectOf(citation) ?? {}, length);
    this.#length += length;
    if (length > 0) this.#layout.push(length);
  }

  /** A thought without a signature can't be sent back. @returns what continues it */
  thinking(thinking: string, signature: string): ThinkingBlock | undefined {
    return signature === "" ? undefined : this.#add({ type: "thinking", thinking, signature });
  }

  redactedThinking(data: string): ThinkingBlock | undefined {
    return data === "" ? undefined : this.#add({ type: "redacted_thinking", data });
  }

  toolUse(): void {
    this.#layout.push("tool_use");
  }

  /** Empty when there is nothing to add to the message. */
  fields(): Pick<AnswerMessage, "annotations" | "thinking_blocks" | "extra_content"> {
    const blocks = this.#thinking;
    const unusual = blocks.length > 0 && !usualOrder.test(orderOf(this.#layout));
    return {
      ...(this.#annotations.length > 0 && { annotations: this.#annotations }),
      ...(blocks.length > 0 && { thinking_blocks: blocks }),
      ...(unusual && { extra_content: { anthropic: { layout: this.#layout } } }),
    };
  }

  #add(block: ThinkingBlock): ThinkingBlock {
    this.#thinking.push(block);
    this.#layout.push("thinking");
    return block;
  }

  #annotate({ url, title }: JsonObject, length: number): void {
    if (typeof url !== "string") return;
    const range = { start_index: this.#length, end_index: this.#length + length };
    this.#annotations.push({ type: "url_citation", url_citation: { ...range, url, title: textOf(title) ?? "" } });
  }
}

/** The thinking blocks that an assistant message carries, in whichever field its client sent them back. */
export function replayedThinking(message: AssistantMessage): ContentBlockParam[] {
  const places = [
    message.thinking_blocks,
    wholeDetails(message.reasoning_details),
    message.content,
    (message as JsonObject)["content_blocks"],
  ];
  for (const place of places) {
    if (!Array.isArray(place)) continue;
    const blocks = place.flatMap((entry) => thinkingBlock(objectOf(entry) ?? {}));
    if (blocks.length > 0) return blocks;
  }
  return [];
}

function thinkingBlock({ type, thinking, text, signature, data, format }: JsonObject): ContentBlockParam[] {
  const own = type === "thinking" || type === "redacted_thinking" || format === detailFormat;
  if (!own) return [];
  if (typeof signature === "string" && signature !== "") {
    return [{ type: "thinking", thinking: textOf(thinking) ?? textOf(text) ?? "", signature }];
  }
  return typeof data === "string" && data !== "" ? [{ type: "redacted_thinking", data }] : [];
}

/** The blocks of an assistant message in the order in which the model gave them, as far as the message still shows it. */
export function arrangeBlocks(
  message: AssistantMessage,
  thinking: readonly ContentBlockParam[],
  texts: readonly ContentBlockParam[],
  calls: readonly ContentBlockParam[],
): ContentBlockParam[] {
  const layout = listOf(objectOf(message.extra_content?.["anthropic"])?.["layout"]);
  const content = message.content ?? "";
  if (layout.length === 0 || typeof content !== "string") return [...thinking, ...texts, ...calls];
  const rest = { thinking: [...thinking], tool_use: [...calls] };
  let at = 0;
  const arranged = layout.flatMap((entry): ContentBlockParam[] => {
    if (typeof entry === "number") {
      at += entry;
      return textBlocks(content.slice(at - entry, at));
    }
    const block = entry === "thinking" || entry === "tool_use" ? rest[entry].shift() : undefined;
    return block === undefined ? [] : [block];
  });
  const fits = at === content.length && rest.thinking.length === 0 && rest.tool_use.length === 0;
  return fits ? arranged : [...thinking, ...texts, ...calls];
}
