/**
 * A conversation of the public format as system blocks and turns.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import type { ContentBlockParam, TextBlockParam, ToolResultBlockParam } from "@anthropic-ai/sdk/resources/messages";
import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import type { AssistantMessage, Message, SystemMessage, ToolMessage } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { cleanId, inputOf } from "../../protocols/messages/facts.ts";
import { uniqueCallIds } from "../call-ids.ts";
import { refuseType } from "../tool-types.ts";
import { type ContentBlock, cacheMarker, type PartBlocks, partBlocks, textBlocks } from "./parts.ts";
import { arrangeBlocks, replayedThinking } from "./replay.ts";

export type Turn = { role: "user" | "assistant" | "system"; content: ContentBlockParam[] };
type MessageTurns = { system: TextBlockParam[]; turns: Turn[] };

/** What formats that are built like this one write in their own way. */
type Wording = {
  readonly parts: PartBlocks;
  /** Gives an id of a call in the form that is taken. */
  readonly callId: (id: string) => string;
};

const ownWording: Wording = { parts: partBlocks, callId: cleanId };

/** @throws ApiError for parts that this provider can't take, and for a conversation without any content */
export function encodeConversation(
  messages: readonly Message[],
  rules: AnthropicRules,
  { parts, callId } = ownWording,
): MessageTurns {
  const builder = new ConversationBuilder(rules.system_turns, parts);
  const ids = uniqueCallIds(messages, callId);
  messages.forEach((message, at) => {
    builder.add(message, `messages[${at}]`, ids[at]!);
  });
  const { system, turns } = builder.finish();
  if (turns.length === 0 && system.length > 0) return { system: [], turns: [{ role: "user", content: system }] };
  if (turns.length === 0) throw ApiError.invalidValue("messages", "messages must hold some text or other content.");
  return { system, turns: withLegalEnd(turns.map(withResultsFirst), rules, messages.at(-1)?.role === "user") };
}

class ConversationBuilder {
  readonly #systemTurns: boolean;
  readonly #parts: PartBlocks;
  readonly #system: TextBlockParam[] = [];
  readonly #turns: Turn[] = [];
  /** Instructions that came later: a system turn may only follow a user turn, so they wait for its end. */
  #held: TextBlockParam[] = [];

  constructor(systemTurns: boolean, parts: PartBlocks) {
    this.#systemTurns = systemTurns;
    this.#parts = parts;
  }

  /** @param ids of the message's calls, or of its result */
  add(message: Message, path: string, ids: readonly string[]): void {
    switch (message.role) {
      case "developer":
      case "system":
        this.#instruct(instructionBlocks(message as SystemMessage));
        return;
      case "user":
        this.#append("user", marked(contentBlocks(message.content, path, this.#parts), message));
        return;
      case "assistant":
        this.#append("assistant", marked(assistantBlocks(message, ids, path), message));
        return;
      case "tool":
        this.#append("user", [toolResult(message, ids, path, this.#parts)]);
        return;
      case "function": // turned into a tool message before anything gets here
        return;
    }
  }

  finish(): MessageTurns {
    this.#release();
    return { system: this.#system, turns: this.#turns };
  }

  #instruct(blocks: TextBlockParam[]): void {
    if (this.#turns.length === 0) this.#system.push(...blocks);
    else if (this.#systemTurns) this.#held.push(...blocks);
    else this.#append("user", blocks);
  }

  #release(): void {
    const role = this.#turns.at(-1)?.role === "user" ? "system" : "user";
    this.#append(role, this.#held);
    this.#held = [];
  }

  /** Neighbours of one role are one turn: all results of a turn's calls must stand in the very next one. */
  #append(role: Turn["role"], blocks: readonly ContentBlockParam[]): void {
    if (blocks.length === 0) return;
    if (role === "assistant") this.#release();
    const last = this.#turns.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else this.#turns.push({ role, content: [...blocks] });
  }
}

function instructionBlocks({ content, ...message }: SystemMessage): TextBlockParam[] {
  const blocks =
    typeof content === "string" ? textBlocks(content) : content.flatMap((part) => textBlocks(part.text, part));
  return marked(blocks, message);
}

function contentBlocks(
  content: Extract<Message, { role: "user" | "tool" }>["content"],
  path: string,
  parts: PartBlocks,
): ContentBlock[] {
  if (typeof content === "string") return textBlocks(content);
  return content.flatMap((part, at) => parts(part, `${path}.content[${at}]`));
}

/** A marker on the message itself means its last block. */
function marked<B extends ContentBlockParam>(blocks: B[], message: object): B[] {
  const marker = cacheMarker(message);
  const last = blocks.at(-1);
  if (marker.cache_control === undefined || last === undefined || "signature" in last) return blocks;
  return [...blocks.slice(0, -1), { ...last, ...marker }];
}

function assistantBlocks(message: AssistantMessage, ids: readonly string[], path: string): ContentBlockParam[] {
  const calls = message.tool_calls ?? [];
  const blocks = arrangeBlocks(
    message,
    replayedThinking(message),
    assistantTexts(message),
    calls.map((call, at) => toolUse(call, ids[at]!, `${path}.tool_calls[${at}]`)),
  );
  // A turn may not end with a thought: one that was cut off there is worth nothing to the next turn.
  while (isThinking(blocks.at(-1))) blocks.pop();
  if (blocks.length === 0 && message.audio != null && message.content == null) {
    throw ApiError.unsupported(`${path}.audio`, `${path}.audio: audio answers can't be sent to this provider.`);
  }
  return blocks;
}

function isThinking(block: ContentBlockParam | undefined): boolean {
  return block?.type === "thinking" || block?.type === "redacted_thinking";
}

function assistantTexts({ content, refusal }: AssistantMessage): TextBlockParam[] {
  const texts =
    typeof content === "string"
      ? textBlocks(content)
      : (content ?? []).flatMap((part) => {
          if (part.type === "text") return textBlocks(part.text, part);
          return part.type === "refusal" ? textBlocks(part.refusal) : [];
        });
  return [...texts, ...textBlocks(refusal ?? "")];
}

type AnyToolCall = NonNullable<AssistantMessage["tool_calls"]>[number];

function toolUse(call: AnyToolCall, id: string, path: string): ContentBlockParam {
  if (call.type !== "function" && call.type !== "custom") return refuseType(call.type, path);
  const [name, input] =
    call.type === "custom"
      ? [call.custom.name, { input: call.custom.input }]
      : [call.function.name, inputOf(call.function.arguments)];
  return { type: "tool_use", id, name, input, ...cacheMarker(call) };
}

function toolResult(
  message: ToolMessage,
  [id = ""]: readonly string[],
  path: string,
  parts: PartBlocks,
): ToolResultBlockParam {
  const { content } = message;
  const blocks = typeof content === "string" ? [] : contentBlocks(content, path, parts);
  // The marker belongs on the outer block: https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-cannot-be-cached
  const last = blocks.findLast((block) => cacheMarker(block).cache_control);
  const marker = { ...(last && cacheMarker(last)), ...cacheMarker(message) };
  const result = typeof content === "string" ? content.trim() && content : blocks.map(withoutMarker);
  return {
    type: "tool_result",
    tool_use_id: id,
    // An empty list is refused; nothing at all is an empty result.
    ...(result.length > 0 && { content: result as ToolResultBlockParam["content"] & {} }),
    ...((message as JsonObject)["is_error"] === true && { is_error: true }),
    ...marker,
  };
}

function withoutMarker({ cache_control: _, ...block }: ContentBlock): ContentBlock {
  return block as ContentBlock;
}

function withResultsFirst(turn: Turn): Turn {
  const isResult = (block: ContentBlockParam) => block.type === "tool_result";
  if (turn.role !== "user" || !turn.content.some(isResult)) return turn;
  return { ...turn, content: [...turn.content.filter(isResult), ...turn.content.filter((block) => !isResult(block))] };
}

/** A last message of the assistant is the beginning of its answer, where the model allows that. */
/** @param isAsked the user has the last word, be it an empty one: what the model said before is no beginning of its answer */
function withLegalEnd(turns: Turn[], rules: AnthropicRules, isAsked: boolean): Turn[] {
  const last = turns.at(-1);
  if (last?.role !== "assistant") return turns;
  // https://platform.claude.com/docs/en/api/errors#prefill-not-supported
  if (isAsked || !rules.prefill) return [...turns, { role: "user", content: [{ type: "text", text: "Continue." }] }];
  return [...turns.slice(0, -1), { role: "assistant", content: withoutTrailingSpace(last.content) }];
}

/** "final assistant content cannot end with trailing whitespace" */
function withoutTrailingSpace(content: readonly ContentBlockParam[]): ContentBlockParam[] {
  return content.map((block, at) =>
    at === content.length - 1 && block.type === "text" ? { ...block, text: block.text.trimEnd() } : block,
  );
}
