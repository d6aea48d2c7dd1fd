/** Joins the turns of a model that called tools to the one answer that its caller gets. */
import { isObject } from "../../../lib/json/json.ts";
import { ownMember } from "../../../lib/json/own-member.ts";
import type {
  AnswerMessage,
  CompletionBody,
  FinishReason,
  Metadata,
  ToolCall,
  Usage,
} from "../../../protocols/chat/schema.ts";

/** Between the texts of two turns. */
export const turnBreak = "\n\n";

/** The sum of two counts, their details among them. A count that one of them lacks is that of the other; a cost is known where both are. */
export function addedUsage(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return added(one, other) as Usage;
}

function added(one: unknown, other: unknown): unknown {
  if (typeof one === "number" && typeof other === "number") return one + other;
  if (isObject(one) && isObject(other)) {
    const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
    return Object.fromEntries(names.map((name) => [name, added(ownMember(one, name), ownMember(other, name))]));
  }
  if (one === null || other === null) return null;
  return other ?? one;
}

/** Joins two turns' metadata. Thoughts of both stay. */
export function joinedMetadata(one: Metadata | undefined, other: Metadata | undefined): Metadata | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const thinking = joined(one["thinking"], other["thinking"]);
  return { ...one, ...other, ...(thinking !== undefined && { thinking }) };
}

export function joined(one: string | null | undefined, other: string | null | undefined): string | undefined {
  if (!one) return other ?? undefined;
  return other ? one + turnBreak + other : one;
}

/** The calls among those of a message that are of functions. */
export const functionCalls = ({ tool_calls = [] }: AnswerMessage): ToolCall[] =>
  tool_calls.filter((call): call is ToolCall => call.type === "function");

/**
 * A turn's message without the calls that were made, or left out, here. What continues the thought behind the calls is on the first of
 * them, and stays on the first that is left: https://ai.google.dev/gemini-api/docs/thought-signatures
 */
export function withoutCalls(message: AnswerMessage, owns: (name: string) => boolean): AnswerMessage {
  const { tool_calls = [], ...rest } = message;
  const isOwned = (call: (typeof tool_calls)[number]) =>
    call.type === "function" && owns((call as ToolCall).function.name);
  const left = tool_calls.filter((call) => !isOwned(call));
  const [first, ...others] = left;
  if (first === undefined) return rest;
  const before = tool_calls.slice(0, tool_calls.indexOf(first)) as ToolCall[];
  const state =
    (first as ToolCall).extra_content ?? before.find((call) => call.extra_content !== undefined)?.extra_content;
  return {
    ...rest,
    tool_calls: [state === undefined ? first : ({ ...first, extra_content: state } as ToolCall), ...others],
  };
}

/** @returns why an answer ended whose calls were all left out: it would have gone on */
export const finishOf = (reason: FinishReason, { tool_calls }: AnswerMessage): FinishReason =>
  reason === "tool_calls" && (tool_calls ?? []).length === 0 ? "length" : reason;

/** Joins plain answers. @param earlier what the turns before came to @param last normalised, without the calls that were made here */
export function joinedAnswer(earlier: CompletionBody | undefined, last: CompletionBody): CompletionBody {
  const [choice] = last.choices;
  const before = earlier?.choices[0]?.message;
  if (earlier === undefined || before === undefined || choice === undefined) return last;
  const { message } = choice;
  const content = joined(before.content, message.content);
  const reasoning = joined(before.reasoning_content, message.reasoning_content);
  const usage = addedUsage(earlier.usage, last.usage);
  const metadata = joinedMetadata(earlier.metadata, last.metadata);
  return {
    ...last,
    choices: [
      {
        ...choice,
        message: {
          ...message,
          content: content ?? message.content,
          ...(reasoning !== undefined && { reasoning_content: reasoning }),
        },
      },
    ],
    ...(usage !== undefined && { usage }),
    ...(metadata !== undefined && { metadata }),
  };
}
