/**
 * A client's own body for an upstream that speaks this format: with another model's name, a persona's text and limits, and without
 * the seals of other makers, which Anthropic refuses. All else stays as it came.
 */
import { parseExact } from "../../lib/json/exact.ts";
import {
  derive,
  isObject,
  type JsonObject,
  keepSame,
  listOf,
  objectOf,
  parseJson,
  textOf,
  withEach,
} from "../../lib/json/json.ts";
import type { SseEvent } from "../../lib/streams/sse.ts";
import { putInsertions } from "../body/insertion.ts";
import { saidBefore } from "../body/said-before.ts";
import type { FunctionTool } from "../chat/schema.ts";
import { eventType } from "../event-type.ts";
import type { NativeChange, NativeEncoder } from "../protocol.ts";
import { emptySeal, isSeal } from "../state/seal.ts";
import { yieldingMark } from "./cache-marks.ts";
import { withoutForeignCitations } from "./citations.ts";
import { errorEvent } from "./stream.ts";
import { sealedBlocks } from "./thinking.ts";

/** @returns undefined where the change has no words in this format */
export function patchMessages(
  body: JsonObject,
  { model, before, within = [], fields, members, anyThinking }: NativeChange,
): JsonObject | undefined {
  // A thread is kept by the provider.
  if (fields["store"] === false && body["thread"] != null) return undefined;
  const said = saidBefore(before);
  if (said === undefined) return undefined;
  const next: JsonObject = { ...body, model };
  if ("variables" in next) delete next["variables"];
  if (!patchMembers(next, fields, members)) return undefined;
  putSystem(next, said.system, fields["system_cache_control"]);
  const given = withEach(listOf(body["messages"]), unsigned);
  // What a translated turn sealed comes back to its maker by translation alone.
  if (anyThinking === true && given.some(holdsSeal)) return undefined;
  const turns = putInsertions(anyThinking === true ? given : withoutForeignSeals(given), within, isOfUser, preceded);
  if (turns === undefined) return undefined;
  if (said.examples.length > 0) next["messages"] = derive(turns, [...said.examples, ...turns]);
  else if (turns !== body["messages"]) next["messages"] = turns;
  return next;
}

const isResult = (block: unknown): boolean => isObject(block) && block["type"] === "tool_result";

/** Results of tools alone are no message of the user. */
function isOfUser({ role, content }: JsonObject): boolean {
  return role === "user" && (typeof content === "string" || listOf(content).some((block) => !isResult(block)));
}

/** Results of tools have to stand first: https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use */
function preceded(turn: JsonObject, text: string): JsonObject {
  const { content } = turn;
  if (typeof content === "string") return derive(turn, { ...turn, content: `${text}\n\n${content}` });
  const blocks = listOf(content);
  const at = blocks.findIndex((block) => !isResult(block));
  return derive(turn, { ...turn, content: [...blocks.slice(0, at), { type: "text", text }, ...blocks.slice(at)] });
}

/** A prompt to be counted, which takes nothing that shapes the answer alone. */
export function patchPrompt(body: JsonObject, change: NativeChange): JsonObject | undefined {
  const patched = patchMessages(body, change);
  if (patched === undefined) return undefined;
  for (const name of answerFields) if (!Object.hasOwn(body, name)) delete patched[name];
  return patched;
}

const answerFields = ["max_tokens", "temperature", "top_p", "stop_sequences"];

/** Fields that have no place here, or were said as members. */
const unsaid: ReadonlySet<string> = new Set([
  ...["store", "variables", "metadata", "seed", "presence_penalty", "frequency_penalty", "verbosity"],
  ...["temperature", "top_p", "max_tokens", "max_completion_tokens", "reasoning_effort", "response_format"],
  ...["thinking", "thinking_budget", "include_thoughts", "system_cache_control", "parallel_tool_calls"],
]);

/** @returns false for a field that nobody can say */
function patchMembers(next: JsonObject, fields: NativeChange["fields"], members: JsonObject = {}): boolean {
  for (const [name, value] of Object.entries(members)) {
    next[name] = isObject(value) && isObject(next[name]) ? { ...next[name], ...value } : value;
    if (next[name] === undefined) delete next[name];
  }
  for (const [name, value] of Object.entries(fields)) {
    if (name === "stop") next["stop_sequences"] = value;
    else if (name === "tools") {
      if (!putTools(next, listOf(value) as FunctionTool[])) return false;
    } else if (!unsaid.has(name) && value !== undefined && isOurs(name)) return false;
  }
  return true;
}

/** Options of other providers mean nothing to this one. */
const isOurs = (name: string): boolean => name === "tool_choice" || name === "modalities" || name === "n";

/** Those of the persona stand before the caller's, which stay as they came. */
function putTools(next: JsonObject, joined: readonly FunctionTool[]): boolean {
  const own = listOf(next["tools"]);
  const named = new Set(own.map((tool) => (isObject(tool) ? tool["name"] : undefined)));
  const added = joined.filter(({ function: { name } }) => !named.has(name));
  const tools = added.map(({ function: { name, description, parameters, strict } }) => ({
    name,
    ...(description != null && { description }),
    input_schema: parameters ?? { type: "object", properties: {} },
    ...(strict === true && { strict }),
  }));
  next["tools"] = derive(own, [...tools, ...own]);
  return added.every(({ type }) => type === "function");
}

/** The persona's text stands before the caller's, as blocks, which keeps the caller's cache marks where they are. */
function putSystem(next: JsonObject, texts: readonly string[], cache_control: unknown): void {
  const said = next["system"];
  const own = typeof said === "string" ? (said.trim() === "" ? [] : [{ type: "text", text: said }]) : listOf(said);
  const blocks = texts.map((text): JsonObject => ({ type: "text", text }));
  const last = blocks.at(-1);
  if (last !== undefined && isObject(cache_control) && markersIn(next) < maxMarkers)
    last["cache_control"] = yieldingMark(cache_control, listOf(next["tools"]), own, next);
  if (blocks.length > 0) next["system"] = derive(own, [...blocks, ...own]);
}

/** A fifth one is refused: https://platform.claude.com/docs/en/build-with-claude/prompt-caching */
const maxMarkers = 4;

function markersIn({ system, tools, messages, cache_control }: JsonObject): number {
  const turns = listOf(messages).flatMap((turn) => (isObject(turn) ? listOf(turn["content"]) : []));
  const marked = [...listOf(system), ...listOf(tools), ...turns].filter(
    (one) => isObject(one) && one["cache_control"] != null,
  );
  return marked.length + (cache_control == null ? 0 : 1);
}

/**
 * Without thinking that Anthropic did not make, or that nobody signed, and citations of other makers; its own thinking in an
 * envelope of ours is taken out of it. A turn that held nothing else goes too.
 * @returns the list itself where there was none
 */
function withoutForeignSeals(turns: readonly unknown[]): readonly unknown[] {
  const kept = turns.flatMap((turn) => {
    if (!isObject(turn) || !Array.isArray(turn["content"])) return [turn];
    const content = ownBlocks(turn["content"]);
    if (content === turn["content"]) return [turn];
    return content.length === 0 ? [] : [derive(turn, { ...turn, content })];
  });
  return keepSame(turns, kept);
}

function ownBlocks(content: readonly unknown[]): readonly unknown[] {
  const own = withEach(content, withoutForeignCitations);
  if (!own.some(isForeign)) return own;
  const opened = own.flatMap((block) => (isForeign(block) ? sealedBlocks(sealIn(block)) : []));
  return derive(content, [...opened, ...own.filter((block) => !isForeign(block))]);
}

const sealIn = (block: unknown): string => {
  const { signature, data } = block as JsonObject;
  return textOf(signature) ?? textOf(data) ?? "";
};

const holdsSeal = (turn: unknown): boolean =>
  isObject(turn) && listOf(turn["content"]).some((block) => isThinking(block) && isSeal(sealIn(block)));

const isThinking = (block: unknown): boolean =>
  isObject(block) && (block["type"] === "thinking" || block["type"] === "redacted_thinking");

function isForeign(block: unknown): boolean {
  if (!isObject(block)) return false;
  const { type, signature } = block;
  if (type === "redacted_thinking") return isSeal(sealIn(block));
  return type === "thinking" && (typeof signature !== "string" || signature === "" || isSeal(signature));
}

/** Streams of this format need nothing of ours but an error's event, and what some gateways and makers leave out. */
export function messagesNativeEncoder(): NativeEncoder {
  const blocks = new OpenBlocks();
  return {
    fault: (error, _last, events) => void events.push(errorEvent(error)),
    shown(event) {
      const named = typed(event);
      const before = blocks.missingBefore(named);
      return before.length === 0 ? [named] : [...before, named];
    },
    // Anthropic's clients look for the event's name, others for the type in its data.
    knowsFault({ event, data }) {
      const { type, error } = objectOf(parseJson(data)) ?? {};
      return event === "error" && type === "error" && textOf(objectOf(error)?.["message"]) !== undefined;
    },
  };
}

const none: readonly SseEvent[] = [];

/** The blocks of a stream that have begun and not ended. */
class OpenBlocks {
  readonly #open = new Set<unknown>();
  /** Thoughts without a signature so far. */
  readonly #unsigned = new Set<unknown>();

  /** @returns the events that have to stand before this one */
  missingBefore({ event, data }: SseEvent): readonly SseEvent[] {
    switch (event) {
      case "content_block_start":
        this.#begin(objectOf(parseJson(data)) ?? {});
        return none;
      case "content_block_delta":
        if (this.#unsigned.size > 0 && data.includes('"signature_delta"')) this.#sign(objectOf(parseJson(data)) ?? {});
        return none;
      case "content_block_stop": {
        const index = indexOf(data);
        this.#open.delete(index);
        return this.#signatureOf(index);
      }
      case "message_delta": {
        // Clients that look for the end of a call lose it without one.
        const ends = [...this.#open].flatMap((index) => {
          const end = eventOf({ type: "content_block_stop", index });
          return [...this.#signatureOf(index), end];
        });
        this.#open.clear();
        return ends;
      }
      default:
        return none;
    }
  }

  #begin({ index, content_block }: JsonObject): void {
    this.#open.add(index);
    if (isUnsigned(content_block)) this.#unsigned.add(index);
  }

  #sign({ index, delta }: JsonObject): void {
    if (objectOf(delta)?.["signature"]) this.#unsigned.delete(index);
  }

  #signatureOf(index: unknown): readonly SseEvent[] {
    if (!this.#unsigned.delete(index)) return none;
    const delta = { type: "signature_delta", signature: emptySeal };
    return [eventOf({ type: "content_block_delta", index, delta })];
  }
}

const eventOf = (data: JsonObject & { readonly type: string }): SseEvent => ({
  event: data.type,
  data: JSON.stringify(data),
  id: "",
});

const indexOf = (data: string): unknown => objectOf(parseJson(data))?.["index"];

const isUnsigned = (block: unknown): boolean => isObject(block) && block["type"] === "thinking" && !block["signature"];

/**
 * A plain answer of a maker that signs no thoughts: some clients give a thought without a signature back as the user's words, so it has an
 * envelope of ours that holds nothing, as in translated answers.
 */
export function withSignatures(text: string): string {
  const answer = text.includes('"thinking"') ? objectOf(parseExact(text)) : undefined;
  const content = listOf(answer?.["content"]);
  if (!content.some(isUnsigned)) return text;
  return JSON.stringify({
    ...answer,
    content: content.map((block) => (isUnsigned(block) ? { ...(block as JsonObject), signature: emptySeal } : block)),
  });
}

/** As its maker gave it: without the envelope that holds nothing. */
function unsigned(turn: unknown): unknown {
  if (!isObject(turn) || !Array.isArray(turn["content"])) return turn;
  const content = withEach(turn["content"], (block) =>
    isObject(block) && block["signature"] === emptySeal ? derive(block, { ...block, signature: "" }) : block,
  );
  return content === turn["content"] ? turn : derive(turn, { ...turn, content });
}

/** Anthropic's clients drop what has another name than its type, or none of them. @throws InvalidAnswer for an event without a type */
function typed(event: SseEvent): SseEvent {
  const type = eventType(event);
  return type === event.event ? event : { ...event, event: type };
}
