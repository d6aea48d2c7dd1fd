/**
 * Stored answers of this format: what is kept beside the conversation, and how it is shown again.
 * Source: https://platform.openai.com/docs/api-reference/responses
 */
import { isObject, type JsonObject, listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { formatSseEvent, SseParser } from "../../lib/streams/sse.ts";
import type { Message } from "../chat/schema.ts";
import type { ErrorFields, StoredForm } from "../protocol.ts";
import { errorMembers, responseError } from "./errors.ts";
import { inputText, itemsOf } from "./message-items.ts";
import { responseObject } from "./object.ts";
import type { ResponsesOptions } from "./options.ts";

export const storedResponses: StoredForm<ResponsesOptions> = {
  isBackground: ({ background }) => background === true,
  // They are asked anew with each call.
  leading: ({ instructions }) => (typeof instructions === "string" && instructions !== "" ? 1 : 0),
  items: ({ input }, unique) =>
    typeof input === "string"
      ? [listed({ role: "user", content: input }, unique, 0)]
      : listOf(input).flatMap((item, at) => (isObject(item) ? [listed(item, unique, at)] : [])),
  pending(status, envelope, options, error) {
    const { code, message } = error === undefined ? {} : responseError(error);
    const failure = code === undefined || message === undefined ? {} : { error: { code, message } };
    return responseObject(failure, envelope, options, status);
  },
  answerIn: (passed) => objectOf(parseJson(passed)) ?? objectOf(eventsIn(passed)[0]?.["response"]),
  renamed(event, id) {
    if (!event.includes(ownerMark)) return event;
    const [said] = eventsIn(event);
    const response = objectOf(said?.["response"]);
    if (said === undefined || response === undefined || response["id"] === id) return event;
    return formatSseEvent(
      JSON.stringify({ ...said, response: { ...response, id, background: true } }),
      textOf(said["type"]),
    );
  },
  errorIn(events) {
    for (const said of eventsIn(events.join("")).reverse()) {
      const error = objectOf(objectOf(said["response"])?.["error"]) ?? (said["type"] === "error" ? said : undefined);
      if (error !== undefined) return responseError(error);
    }
    return responseError({});
  },
};

/** Stands in the events that repeat the whole response. */
const ownerMark = '"response":';

const eventsIn = (text: string): JsonObject[] =>
  new SseParser().push(new TextEncoder().encode(text)).map(({ data }) => objectOf(parseJson(data)) ?? {});

/** The beginnings of the ids of items. */
const prefixes: Readonly<Record<string, string>> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  function_call_output: "fco",
  custom_tool_call: "ctc",
  custom_tool_call_output: "ctco",
};

/** An input item as it is listed: with its type, an id, and parts where it has a text. */
function listed({ content, ...item }: JsonObject, unique: string, at: number): JsonObject {
  const type = textOf(item["type"]) ?? "message";
  const prefix = ownMember(prefixes, type);
  // Output items of the same answer are numbered too.
  const id = textOf(item["id"]) || `${prefix ?? "item"}_${unique}i_${at}`;
  const status = prefix !== undefined && type !== "reasoning" ? { status: "completed" } : {};
  const parts = content === undefined ? {} : { content: type === "message" ? partsOf(content, item["role"]) : content };
  return { ...status, ...item, ...parts, id, type };
}

function partsOf(content: unknown, role: unknown): unknown {
  if (typeof content !== "string") return content;
  return [role === "assistant" ? { type: "output_text", text: content, annotations: [] } : inputText(content)];
}

/** The messages of a turn in another format, as items. What has no place here is left out. */
export function itemsOfMessages(messages: readonly Message[], unique: string): JsonObject[] {
  return messages.flatMap(itemsOf).map((item, at) => listed(item, unique, at));
}

/** An error in place of events that can't be read any more. */
export function errorEvent(error: ErrorFields): string {
  return formatSseEvent(JSON.stringify({ type: "error", sequence_number: 0, ...errorMembers(error) }), "error");
}

/** The number of an event, which is a whole text; undefined where it has none. */
export function sequenceNumberOf(event: string): number | undefined {
  const number = eventsIn(event)[0]?.["sequence_number"];
  return typeof number === "number" ? number : undefined;
}

/** The events that a finished answer would have been streamed in, each text in one piece. */
export function replayEvents(response: JsonObject): string[] {
  const events: string[] = [];
  const emit = (type: string, fields: JsonObject) =>
    events.push(formatSseEvent(JSON.stringify({ type, sequence_number: events.length, ...fields }), type));
  const begun = { ...response, status: "in_progress", output: [], usage: null, error: null, incomplete_details: null };
  emit("response.created", { response: begun });
  emit("response.in_progress", { response: begun });
  for (const [output_index, item] of listOf(response["output"]).entries()) {
    if (isObject(item)) emitItem(item, output_index, emit);
  }
  const { status } = response;
  // A cancelled answer has no event of its own.
  if (status !== "cancelled") emit(`response.${String(status)}`, { response });
  return events;
}

type Emit = (type: string, fields: JsonObject) => void;

function emitItem(item: JsonObject, output_index: number, emit: Emit): void {
  const place = { item_id: item["id"], output_index };
  const added = (empty: JsonObject) =>
    emit("response.output_item.added", { output_index, item: { ...item, status: "in_progress", ...empty } });
  switch (item["type"]) {
    case "message":
      added({ content: [] });
      for (const [content_index, part] of listOf(item["content"]).entries()) {
        emitPart(objectOf(part) ?? {}, { ...place, content_index }, emit);
      }
      break;
    case "reasoning": {
      const { status: _, ...rest } = item;
      emit("response.output_item.added", { output_index, item: { ...rest, summary: [] } });
      for (const [summary_index, part] of listOf(item["summary"]).entries()) {
        emitSummary(part, { ...place, summary_index }, emit);
      }
      break;
    }
    case "function_call":
      added({ arguments: "" });
      emit("response.function_call_arguments.delta", { ...place, delta: item["arguments"] });
      emit("response.function_call_arguments.done", { ...place, name: item["name"], arguments: item["arguments"] });
      break;
    case "custom_tool_call":
      added({ input: "" });
      emit("response.custom_tool_call_input.delta", { ...place, delta: item["input"] });
      emit("response.custom_tool_call_input.done", { ...place, input: item["input"] });
      break;
    default:
      added({});
  }
  emit("response.output_item.done", { output_index, item });
}

function emitPart(part: JsonObject, place: JsonObject, emit: Emit): void {
  const [kind, name] = part["type"] === "refusal" ? ["refusal", "refusal"] : ["output_text", "text"];
  const logprobs = kind === "refusal" ? {} : { logprobs: part["logprobs"] ?? [] };
  emit("response.content_part.added", {
    ...place,
    part: { ...part, [name!]: "", ...(kind === "refusal" ? {} : { annotations: [] }) },
  });
  emit(`response.${kind}.delta`, { ...place, delta: part[name!], ...logprobs });
  for (const [annotation_index, annotation] of listOf(part["annotations"]).entries()) {
    emit("response.output_text.annotation.added", { ...place, annotation_index, annotation });
  }
  emit(`response.${kind}.done`, { ...place, [name!]: part[name!], ...logprobs });
  emit("response.content_part.done", { ...place, part });
}

function emitSummary(part: unknown, place: JsonObject, emit: Emit): void {
  const text = textOf(objectOf(part)?.["text"]) ?? "";
  emit("response.reasoning_summary_part.added", { ...place, part: { type: "summary_text", text: "" } });
  emit("response.reasoning_summary_text.delta", { ...place, delta: text });
  emit("response.reasoning_summary_text.done", { ...place, text });
  emit("response.reasoning_summary_part.done", { ...place, part });
}
