/**
 * A whole answer of the Messages API in the public format.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import { isTooDeep, type JsonObject, listOf, objectOf, parseJson, saysNothing, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/own-member.ts";
import type { AnswerMessage, CompletionBody, CustomToolCall, ToolCall } from "../../protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import { finishReason, servedTier, usageOf } from "../../protocols/messages/ending.ts";
import { statusByType } from "../../protocols/messages/errors.ts";
import { idsFor, type MakeId } from "../made-ids.ts";
import type { AnsweredCall } from "../provider.ts";
import { objectIn, objectsIn, textAt } from "../reading.ts";
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

/** What the upstream says of its refusal, where it explains it. */
export function refusalOf({ stop_reason, stop_details }: JsonObject): { refusal?: string } {
  const explanation = textOf(objectOf(stop_details)?.["explanation"]);
  return stop_reason === "refusal" && explanation !== undefined && explanation !== "" ? { refusal: explanation } : {};
}

export function isError(answer: JsonObject): boolean {
  return answer["type"] === "error" || !saysNothing(answer["error"]);
}

/** @param text the error as it came */
export function errorFault(answer: JsonObject, text: string): UpstreamFault {
  const type = textOf(objectOf(answer["error"])?.["type"]) ?? "";
  return new UpstreamFault(text, ownMember(statusByType, type) ?? 500);
}

/** The text of a custom tool's call from its streamed JSON. */
export function freeTextFromJson(json: string): string {
  return json === "" ? "" : freeText((isTooDeep(json) ? undefined : parseJson(json)) ?? json);
}
