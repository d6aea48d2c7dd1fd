/**
 * The format's older function calling (`functions`, `function_call`, role `function`), turned into today's tools before
 * anything else sees it, and the answer turned back. Adapters know only tools.
 * Source: https://platform.openai.com/docs/api-reference/chat/create (deprecated fields)
 */
import { derive, objectOf } from "../../lib/json/json.ts";
import type {
  AssistantMessage,
  ChatRequest,
  ChunkBody,
  CompletionBody,
  FinishReason,
  Message,
  Tool,
  ToolCall,
} from "./schema.ts";

/** A call of the older form. `extra_content`, which continues its thought, has no other place. */
type FunctionCall = { name: string; arguments: string; extra_content?: unknown };

/** @returns the request itself when it holds nothing of the older form */
export function upgradeLegacy(request: ChatRequest): ChatRequest {
  const speaksLegacy = speaksOlderForm(request.messages);
  if (request.functions === undefined && request.function_call === undefined && !speaksLegacy) return request;
  const { functions, function_call, ...rest } = request;
  const upgraded: ChatRequest = {
    ...rest,
    messages: speaksLegacy ? upgradeMessages(request.messages) : request.messages,
  };
  if (functions !== undefined) {
    const tools: Tool[] = functions.map((definition) => ({ type: "function", function: definition }));
    upgraded.tools = [...(request.tools ?? []), ...tools];
    // The older form never gave more than one call in an answer.
    upgraded.parallel_tool_calls ??= false;
  }
  if (function_call !== undefined) {
    upgraded.tool_choice =
      typeof function_call === "string" ? function_call : { type: "function", function: { name: function_call.name } };
  }
  return upgraded;
}

function speaksOlderForm(messages: readonly Message[]): boolean {
  for (const message of messages)
    if (message.role === "function" || (message.role === "assistant" && message.function_call != null)) return true;
  return false;
}

/** Ids are by position: the older form has none. A result whose call was left out, which that form allows, gets one. */
function upgradeMessages(messages: readonly Message[]): Message[] {
  let calls = 0;
  let open: ToolCall | undefined;
  const openCall = ({ extra_content, ...call }: FunctionCall): ToolCall => {
    calls += 1;
    const extra = objectOf(extra_content);
    open = { id: `legacy_${calls}`, type: "function", function: call, ...(extra && { extra_content: extra }) };
    return open;
  };
  return messages.flatMap((message): Message[] => {
    if (message.role === "assistant" && message.function_call != null) {
      const { function_call, ...rest } = message;
      const upgraded = { ...rest, tool_calls: [...(message.tool_calls ?? []), openCall(function_call)] };
      return [derive(message, upgraded as AssistantMessage)];
    }
    if (message.role !== "function") return [message];
    const asked = open;
    const call = asked ?? openCall({ name: message.name, arguments: "{}" });
    open = undefined;
    const result: Message = { role: "tool", content: message.content ?? "", tool_call_id: call.id };
    return asked === undefined ? [{ role: "assistant", tool_calls: [call] }, result] : [result];
  });
}

/** A plain answer in the older form: the first call is the function call. */
export function downgradeCompletion(body: CompletionBody): CompletionBody {
  const choices = body.choices.map((choice) => {
    const { tool_calls, ...message } = choice.message;
    const call = tool_calls?.find((one) => one.type === "function");
    if (call === undefined) return choice;
    return { ...choice, message: { ...message, function_call: functionCallOf(call.function, call) }, ...endOf(choice) };
  });
  return { ...body, choices };
}

/** A stream's body in the older form: fragments of the first call are fragments of the function call. */
export function downgradeChunk(body: ChunkBody): ChunkBody {
  const choices = body.choices.map((choice) => {
    const { tool_calls, ...delta } = choice.delta;
    const call = tool_calls?.find((one) => one.index === 0);
    const said = call?.function === undefined ? {} : { function_call: functionCallOf(call.function, call) };
    return { ...choice, delta: { ...delta, ...said }, ...endOf(choice) };
  });
  return { ...body, choices };
}

function endOf<R extends FinishReason | null>({ finish_reason }: { finish_reason: R }): { finish_reason: R } {
  return { finish_reason: finish_reason === "tool_calls" ? ("function_call" as R) : finish_reason };
}

function functionCallOf<C extends Partial<FunctionCall>>(call: C, { extra_content }: { extra_content?: unknown }): C {
  return extra_content === undefined ? call : { ...call, extra_content };
}
