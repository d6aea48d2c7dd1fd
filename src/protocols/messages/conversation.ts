/** System text and turns of this format as messages of the inner form. */
import { type JsonObject, listOf, textOf } from "../../lib/json/json.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { AssistantMessage, Message, ToolCall, UserPart } from "../chat/schema.ts";
import { fittingName } from "../long-names.ts";
import type { NativeOnly } from "../native-only.ts";
import { nameAnswer } from "../state/returned-state.ts";
import { summaryText } from "../summary-text.ts";
import { orderOf } from "./facts.ts";
import { documentParts, imagePart, marker, searchResultPart, textPart } from "./parts.ts";
import type { ContentBlock, MessagesBody, TextBlock, ToolResultBlock, ToolUseBlock, Turn } from "./schema.ts";
import { ReturnedThinking } from "./thinking.ts";

/** @param nativeOnly takes what no other provider can be sent */
export function conversationOf({ system, messages }: MessagesBody, nativeOnly: NativeOnly): Message[] {
  const compaction = compactionIn(messages);
  const opening = compaction === undefined ? [] : [openingOf(compaction, nativeOnly)];
  const said = messages.flatMap((turn, at) => {
    if (compaction !== undefined && at < compaction.turn) return [];
    const rest = compaction?.turn === at ? { ...turn, content: compaction.rest } : turn;
    return messagesOf(rest, `messages[${at}]`, nativeOnly);
  });
  return [...systemMessage(system), ...opening, ...said];
}

type Compaction = {
  readonly summary: string;
  readonly block: ContentBlock & JsonObject;
  readonly path: string;
  /** The number of its turn. */
  readonly turn: number;
  /** The blocks of its turn that count, in their places: those before are empty texts. */
  readonly rest: ContentBlock[];
};

const nothing: TextBlock = { type: "text", text: "" };

/**
 * Finds what stands in place of all that was said before it. One without a summary has failed, and what it was made of still counts.
 * Source: https://platform.claude.com/docs/en/build-with-claude/compaction
 */
function compactionIn(messages: MessagesBody["messages"]): Compaction | undefined {
  for (const [turn, { content }] of [...messages.entries()].reverse()) {
    if (content == null || typeof content === "string") continue;
    const at = content.findLastIndex((block) => isCompaction(block) && summaryOf(block) !== "");
    if (at < 0) continue;
    const block = content[at] as Compaction["block"];
    const rest = content.map((one, index) => (index <= at ? nothing : one));
    return { summary: summaryOf(block), block, path: `messages[${turn}].content[${at}]`, turn, rest };
  }
  return undefined;
}

const isCompaction = (block: ContentBlock): boolean => (block.type as string) === "compaction";
const summaryOf = (block: JsonObject): string => textOf(block["content"])?.trim() ?? "";

function openingOf({ summary, block, path }: Compaction, nativeOnly: NativeOnly): Message {
  if (listOf(block["tool_changes"]).length > 0)
    nativeOnly.part(`${path}.tool_changes`, "tools that change on the way are known to Anthropic alone.");
  const parts = [textPart({ ...block, type: "text", text: summaryText(summary) })];
  return { role: "user", content: contentOf(parts) };
}

function systemMessage(content: MessagesBody["system"]): Message[] {
  if (typeof content === "string") return content === "" ? [] : [{ role: "system", content }];
  const parts = (content ?? []).filter(({ text }) => text !== "").map(textPart);
  return parts.length === 0 ? [] : [{ role: "system", content: contentOf(parts) } as Message];
}

function messagesOf({ role, content }: Turn, path: string, nativeOnly: NativeOnly): Message[] {
  if (content == null) return [];
  if (role === "system") return laterSystem(content, path, nativeOnly);
  if (typeof content === "string") return content === "" && role === "assistant" ? [] : [{ role, content }];
  return role === "user" ? userMessages(content, path, nativeOnly) : assistantMessages(content);
}

/** Takes the texts alone: all else that a system turn may hold changes the tools of the provider's own conversation. */
function laterSystem(content: NonNullable<Turn["content"]>, path: string, nativeOnly: NativeOnly): Message[] {
  if (typeof content === "string") return systemMessage(content);
  for (const [at, block] of content.entries())
    if (!isText(block)) refuseBlock(block, `${path}.content[${at}]`, nativeOnly);
  return systemMessage(content.filter(isText));
}

const isText = (block: ContentBlock): block is TextBlock => block.type === "text";

/** Results stand first, right behind the calls that they answer; what was said beside them follows. */
function userMessages(content: readonly ContentBlock[], path: string, nativeOnly: NativeOnly): Message[] {
  const results: Message[] = [];
  const parts: UserPart[] = [];
  for (const [at, block] of content.entries()) {
    const place = `${path}.content[${at}]`;
    if (block.type === "tool_result") results.push(toolMessage(block, place, nativeOnly));
    else parts.push(...partsOf(block, place, nativeOnly));
  }
  if (parts.length > 0) return [...results, { role: "user", content: contentOf(parts) }];
  // The user said nothing, which is a turn, too.
  const isSilent = results.length === 0 && content.some((block) => isText(block) && block !== nothing);
  return isSilent ? [{ role: "user", content: "" }] : results;
}

/** One text is a string, as all upstreams take it; several, and marked ones, stay parts. */
function contentOf(parts: UserPart[]): string | UserPart[] {
  const [only] = parts;
  const isText = parts.length === 1 && only?.type === "text" && !("cache_control" in only);
  return isText ? only.text : parts;
}

function partsOf(block: ContentBlock, path: string, nativeOnly: NativeOnly): UserPart[] {
  switch (block.type) {
    case "text":
      return block.text === "" ? [] : [textPart(block)];
    case "image":
      return imagePart(block, path, nativeOnly);
    case "document":
      return documentParts(block, path, nativeOnly);
    case "search_result":
      return [searchResultPart(block)];
    // Misplaced: only an assistant thinks and calls.
    case "thinking":
    case "redacted_thinking":
    case "tool_use":
    case "tool_result":
      return [];
    default:
      if (isCompaction(block)) return [];
      refuseBlock(block, path, nativeOnly);
      return [];
  }
}

function refuseBlock({ type }: ContentBlock, path: string, nativeOnly: NativeOnly): void {
  nativeOnly.part(`${path}.type`, `a block of type '${truncate(type)}' is known to Anthropic alone.`);
}

/** `is_error` has no field in the public format: it is the inner form's own, and providers that have a place for it take it. */
function toolMessage(block: ToolResultBlock, path: string, nativeOnly: NativeOnly): Message {
  const { tool_use_id, content, is_error } = block;
  const parts =
    typeof content === "string"
      ? []
      : (content ?? []).flatMap((one, at) => partsOf(one as ContentBlock, `${path}.content[${at}]`, nativeOnly));
  return {
    role: "tool",
    tool_call_id: tool_use_id,
    content: typeof content === "string" ? content : parts.length === 0 ? "" : contentOf(parts),
    ...(is_error === true && { is_error: true }),
    ...marker(block),
  } as Message;
}

/** Blocks of server tools record what the provider did by itself: they mean nothing to another one, and are left out. */
function assistantMessages(content: readonly ContentBlock[]): Message[] {
  const thinking = new ReturnedThinking();
  const layout: (string | number)[] = [];
  const texts: TextBlock[] = [];
  const tool_calls: ToolCall[] = [];
  for (const block of content) {
    if (block.type === "text" && block.text !== "") {
      texts.push(block);
      thinking.text();
      layout.push(block.text.length);
    } else if (block.type === "tool_use") {
      tool_calls.push(thinking.sign(toolCall(block)));
      layout.push("tool_use");
    } else if (
      block.type === "thinking" ? thinking.thinking(block.thinking, block.signature) : isRedacted(block, thinking)
    ) {
      layout.push("thinking");
    }
  }
  // Thoughts, then texts, then calls.
  const unusual = !/^t*x*u*$/.test(orderOf(layout));
  const said = unusual ? texts.map(({ text }) => text).join("") : spoken(texts);
  const fields = thinking.fields(unusual ? layout : undefined);
  if (said === undefined && tool_calls.length === 0 && Object.keys(fields).length === 0) return [];
  const message = {
    role: "assistant",
    content: said ?? (tool_calls.length > 0 ? null : ""),
    ...fields,
    ...(tool_calls.length > 0 && { tool_calls }),
  };
  return [nameAnswer(message as AssistantMessage, thinking.answer)];
}

function isRedacted(block: ContentBlock, thinking: ReturnedThinking): boolean {
  return block.type === "redacted_thinking" && thinking.redacted(block.data);
}

const spoken = (texts: readonly TextBlock[]): AssistantMessage["content"] | undefined =>
  texts.length === 0 ? undefined : (contentOf(texts.map(textPart)) as AssistantMessage["content"]);

function toolCall({ id, name, input, ...block }: ToolUseBlock): ToolCall {
  const called = { name: fittingName(name), arguments: JSON.stringify(input ?? {}) };
  return { id, type: "function", function: called, ...marker(block) } as ToolCall;
}
