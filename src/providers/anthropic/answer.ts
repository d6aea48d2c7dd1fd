/**
 * A whole answer of the Messages API in the public format.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { isTooDeep, type JsonObject, listOf, objectOf, parseJson, saysNothing, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/own-member.ts";
import {
  type AnswerMessage,
  type Billed,
  billed,
  type CompletionBody,
  type CustomToolCall,
  type FinishReason,
  type ToolCall,
  type Usage,
} from "../../protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import { idsFor, type MakeId } from "../made-ids.ts";
import type { AnsweredCall } from "../provider.ts";
import { countOf, objectIn, objectsIn, textAt } from "../reading.ts";
import { planOutput } from "./output.ts";
import { ReplayTrace } from "./replay.ts";
import { anthropicRules } from "./rules.ts";
import { showsThoughts } from "./thinking.ts";
import { customToolNames } from "./tools.ts";

/** What the request said about the reading of its answer. */
export type AnswerReading = {
  /** The tool whose input is the answer itself. */
  readonly answerTool: string | undefined;
  readonly customTools: ReadonlySet<string>;
  readonly showsThoughts: boolean;
  readonly makeId: MakeId;
};

export function readingFor(call: AnsweredCall): AnswerReading {
  const output = planOutput(call.request, anthropicRules(call));
  return {
    answerTool: output.kind === "tool" ? output.name : undefined,
    customTools: customToolNames(call.request),
    showsThoughts: showsThoughts(call),
    makeId: idsFor(call),
  };
}

/** Between two thoughts: they are separate blocks. */
export const thoughtSeparator = "\n\n";

/** @throws UpstreamFault when the body is an error after all; InvalidAnswer when it is no answer of this format */
export function decodeAnswer(body: unknown, text: string, call: AnsweredCall): CompletionBody {
  const answer = objectOf(body) ?? {};
  if (isError(answer)) throw errorFault(answer, text);
  const content = objectsIn(answer, "content");
  const stopReason = textOf(answer["stop_reason"]);
  if (!Array.isArray(answer["content"]) || (content.length === 0 && stopReason === undefined)) {
    throw new InvalidAnswer("something that is no answer");
  }
  const reading = readingFor(call);
  const usage = objectOf(answer["usage"]) ?? {};
  const blocks = readBlocks(content, reading);
  const message: AnswerMessage = {
    role: "assistant",
    content: blocks.content === "" && blocks.calls.length > 0 ? null : blocks.content,
    ...refusalOf(answer),
    ...(blocks.thoughts.length > 0 && { reasoning_content: blocks.thoughts.join(thoughtSeparator) }),
    ...blocks.trace.fields(),
    ...(blocks.calls.length > 0 && { tool_calls: blocks.calls }),
  };
  const counts = usageOf(usage);
  return {
    choices: [{ index: 0, message, finish_reason: finishReason(stopReason, blocks.calls.length > 0) }],
    ...(counts !== undefined && { usage: counts }),
    ...servedTier(usage),
  };
}

type ReadBlocks = { content: string; thoughts: string[]; calls: (ToolCall | CustomToolCall)[]; trace: ReplayTrace };

/** Blocks of kinds that have no place in the public format (server tools and their results) are left out. */
function readBlocks(blocks: readonly JsonObject[], reading: AnswerReading): ReadBlocks {
  const read: ReadBlocks = { content: "", thoughts: [], calls: [], trace: new ReplayTrace() };
  const addText = (text: string, citations: unknown) => {
    read.trace.text(text.length, listOf(citations));
    read.content += text;
  };
  for (const block of blocks) {
    switch (textAt(block, "type")) {
      case "text":
        addText(textAt(block, "text"), block["citations"]);
        break;
      case "thinking": {
        const thinking = textOf(block["thinking"]) ?? "";
        if (thinking !== "" && reading.showsThoughts) read.thoughts.push(thinking);
        read.trace.thinking(thinking, textOf(block["signature"]) ?? "");
        break;
      }
      case "redacted_thinking":
        read.trace.redactedThinking(textOf(block["data"]) ?? "");
        break;
      case "tool_use":
        if (block["name"] === reading.answerTool) {
          addText(JSON.stringify(block["input"] ?? {}), undefined);
        } else {
          read.calls.push(toolCall(block, reading, read.calls.length));
          read.trace.toolUse();
        }
    }
  }
  return read;
}

function toolCall(
  block: JsonObject,
  { customTools, makeId }: AnswerReading,
  position: number,
): ToolCall | CustomToolCall {
  const id = textOf(block["id"]) || makeId("call", 0, position);
  const name = textAt(block, "name");
  const input = objectIn(block, "input") ?? {};
  if (customTools.has(name)) return { id, type: "custom", custom: { name, input: freeText(input) } };
  return { id, type: "function", function: { name, arguments: JSON.stringify(input) } };
}

/** The text that a custom tool's call carries in its only property. */
function freeText(input: unknown): string {
  const { input: text, ...others } = objectOf(input) ?? { input: JSON.stringify(input) };
  if (typeof text === "string") return text;
  return text === undefined && Object.keys(others).length === 0 ? "" : JSON.stringify(input);
}

/** https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons */
const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop_sequence: "stop",
  pause_turn: "stop",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

/** @param calls whether the answer calls a tool of the caller's; one that only carries the answer is none */
export function finishReason(stopReason: unknown, calls: boolean): FinishReason {
  const reason = textOf(stopReason) ?? "";
  if (Object.hasOwn(finishReasons, reason)) return finishReasons[reason]!;
  return calls ? "tool_calls" : "stop";
}

/** What the upstream says of its refusal, where it explains it. */
export function refusalOf({ stop_reason, stop_details }: JsonObject): { refusal?: string } {
  const explanation = textOf(objectOf(stop_details)?.["explanation"]);
  return stop_reason === "refusal" && explanation !== undefined && explanation !== "" ? { refusal: explanation } : {};
}

/** In the public format's meaning: cached tokens count as prompt tokens. Undefined where nothing was counted. */
export function usageOf(usage: JsonObject): Usage | undefined {
  const input = countOf(usage["input_tokens"]);
  const output = countOf(usage["output_tokens"]);
  if (input === undefined && output === undefined) return undefined;
  const read = countOf(usage["cache_read_input_tokens"]);
  const written = countOf(usage["cache_creation_input_tokens"]);
  const thinking = countOf(objectOf(usage["output_tokens_details"])?.["thinking_tokens"]);
  const prompt = (input ?? 0) + (read ?? 0) + (written ?? 0);
  const promptDetails = {
    ...(read !== undefined && { cached_tokens: read }),
    ...(written !== undefined && { cache_write_tokens: written }),
  };
  return {
    prompt_tokens: prompt,
    completion_tokens: output ?? 0,
    total_tokens: prompt + (output ?? 0),
    ...(Object.keys(promptDetails).length > 0 && { prompt_tokens_details: promptDetails }),
    ...(thinking !== undefined && { completion_tokens_details: { reasoning_tokens: thinking } }),
    ...billedOf(usage),
  };
}

/** Source: https://platform.claude.com/docs/en/api/messages#usage */
function billedOf(usage: JsonObject): { [billed]?: Billed } {
  const cacheWrite1h = countOf(objectOf(usage["cache_creation"])?.["ephemeral_1h_input_tokens"]);
  const searches = countOf(objectOf(usage["server_tool_use"])?.["web_search_requests"]);
  const serviceTier = textOf(usage["service_tier"]);
  const surcharges = surchargesOf(usage);
  if (!cacheWrite1h && !searches && serviceTier === undefined && surcharges.length === 0) return {};
  return {
    [billed]: {
      ...(cacheWrite1h && { cacheWrite1h }),
      ...(searches && { tools: { web_search: searches } }),
      ...(serviceTier !== undefined && { serviceTier }),
      ...(surcharges.length > 0 && { surcharges }),
    },
  };
}

/** Where and how fast the model ran, of which anything but the usual is billed otherwise. */
const usualNames: Readonly<Record<string, readonly string[]>> = {
  // https://platform.claude.com/docs/en/manage-claude/data-residency: "not_available" is of models that know no other.
  inference_geo: ["global", "not_available"],
  // https://platform.claude.com/docs/en/build-with-claude/fast-mode
  speed: ["standard"],
};

function surchargesOf(usage: JsonObject): string[] {
  return Object.entries(usualNames).flatMap(([name, usual]) => {
    const value = textOf(usage[name])?.toLowerCase().slice(0, 64);
    return value === undefined || value === "" || usual.includes(value) ? [] : [`${name}_${value}`];
  });
}

const tiers: Readonly<Record<string, string>> = { standard: "default", priority: "priority" };

export function servedTier({ service_tier }: JsonObject): { service_tier?: string } {
  const tier = ownMember(tiers, textOf(service_tier) ?? "");
  return tier === undefined ? {} : { service_tier: tier };
}

/** The status that an error stands for: https://platform.claude.com/docs/en/api/errors#http-errors */
const errorStatuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

export function isError(answer: JsonObject): boolean {
  return answer["type"] === "error" || !saysNothing(answer["error"]);
}

/** @param text the error as it came */
export function errorFault(answer: JsonObject, text: string): UpstreamFault {
  const type = textOf(objectOf(answer["error"])?.["type"]) ?? "";
  return new UpstreamFault(text, ownMember(errorStatuses, type) ?? 500);
}

/** The text of a custom tool's call from its streamed JSON. */
export function freeTextFromJson(json: string): string {
  return json === "" ? "" : freeText((isTooDeep(json) ? undefined : parseJson(json)) ?? json);
}
