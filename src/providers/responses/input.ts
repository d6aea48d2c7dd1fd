/** Messages of the public format as items of the Responses format's `input`. */

import { typeOfFile } from "../../lib/files/media-types.ts";
import { parseDataUrl } from "../../lib/http/data-url.ts";
import { derive, type JsonObject, listOf, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import { wholeDetails } from "../../protocols/chat/reasoning-details.ts";
import type { AssistantMessage, FilePart, Message, ToolMessage, UserMessage } from "../../protocols/chat/schema.ts";
import { spokenText } from "../../protocols/chat/texts.ts";
import { writtenArguments } from "../../protocols/chat/tools.ts";
import { ApiError } from "../../protocols/errors.ts";
import { fileInUtf8 } from "../../protocols/inline-text.ts";
import { type Reasoning, reasoningOf } from "../../protocols/responses/reasoning.ts";
import { uniqueCallIds } from "../call-ids.ts";
import { shortId } from "../openai-compatible/request.ts";
import type { InlineMedia } from "../provider.ts";
import { refuseType } from "../tool-types.ts";
import type { ResponsesQuirks } from "./quirks.ts";

type Part = Extract<UserMessage["content"] | ToolMessage["content"], unknown[]>[number];

/** @throws ApiError unsupported_parameter naming the message or part that this provider can't take */
export function inputItems(messages: readonly Message[], quirks: ResponsesQuirks): JsonObject[] {
  const ids = uniqueCallIds(messages, (id) => fittingId(id, quirks));
  const customCalls = customCallIds(messages, ids);
  const items = messages.flatMap((message, at) => itemsOf(message, `messages[${at}]`, ids[at]!, customCalls, quirks));
  return quirks.messageTypes === true ? items.map(withType) : items;
}

/** A message says by its role alone what it is. */
export const withType = (item: JsonObject): JsonObject =>
  item["type"] === undefined && item["role"] !== undefined ? derive(item, { type: "message", ...item }) : item;

/** @returns undefined where a call would get another id than the caller knows, or a message has no place here */
export function earlierItems(messages: readonly Message[], quirks: ResponsesQuirks): JsonObject[] | undefined {
  const ids = uniqueCallIds(messages, (id) => fittingId(id, quirks));
  const isKnown = (message: Message, at: number) =>
    message.role !== "assistant" || (message.tool_calls ?? []).every(({ id }, call) => ids[at]![call] === id);
  if (!messages.every(isKnown)) return undefined;
  try {
    return inputItems(messages, quirks);
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** @param ids of the message's calls, or of its result */
function itemsOf(
  message: Message,
  path: string,
  ids: readonly string[],
  customCalls: ReadonlySet<string>,
  quirks: ResponsesQuirks,
): JsonObject[] {
  switch (message.role) {
    case "developer":
      return [systemItem(quirks.developerRole, message.content, quirks)];
    case "system":
      return [systemItem("system", message.content, quirks)];
    case "user":
      return [{ role: "user", content: contentOf(message.content, path, quirks) }];
    case "assistant":
      return assistantItems(message, path, ids, quirks);
    case "tool": {
      const [call_id = message.tool_call_id] = ids;
      const type = customCalls.has(call_id) ? "custom_tool_call_output" : "function_call_output";
      return [{ type, call_id, output: contentOf(message.content, path, quirks) }];
    }
    case "function": // turned into a tool message before anything gets here
      return [{ type: "function_call_output", call_id: message.name, output: message.content ?? "" }];
  }
}

function customCallIds(messages: readonly Message[], ids: readonly (readonly string[])[]): Set<string> {
  const customIds = messages.flatMap((message, at) => {
    const calls = message.role === "assistant" ? (message.tool_calls ?? []) : [];
    return ids[at]!.filter((_, callAt) => calls[callAt]?.type === "custom");
  });
  return new Set(customIds);
}

function systemItem(role: string, content: string | { text: string }[], quirks: ResponsesQuirks): JsonObject {
  if (typeof content === "string") return { role, content };
  if (!quirks.systemParts) return { role, content: content.map((part) => part.text).join("\n") };
  return { role, content: content.map((part) => textPart(part, quirks)) };
}

function contentOf(content: string | readonly Part[], path: string, quirks: ResponsesQuirks): string | JsonObject[] {
  if (typeof content === "string") return content;
  return content.map((part, at) => inputPart(part, `${path}.content[${at}]`, quirks));
}

function inputPart(part: Part, path: string, quirks: ResponsesQuirks): JsonObject {
  switch (part.type) {
    case "text":
      return textPart(part, quirks);
    case "image_url": {
      const { url, detail } = part.image_url;
      return { type: "input_image", image_url: url, ...(detail != null && { detail }), ...breakpoint(part, quirks) };
    }
    case "file":
      return { ...filePart(part.file, path, quirks), ...breakpoint(part, quirks) };
    case "input_audio":
      throw ApiError.unsupported(path, `${path}: audio is not taken here.`);
  }
}

function textPart(part: { text: string }, quirks: ResponsesQuirks): JsonObject {
  return { type: "input_text", text: part.text, ...breakpoint(part, quirks) };
}

function breakpoint(part: object, quirks: ResponsesQuirks): JsonObject {
  const { prompt_cache_breakpoint } = part as JsonObject;
  return quirks.cacheBreakpoints && prompt_cache_breakpoint != null ? { prompt_cache_breakpoint } : {};
}

const webUrl = /^https?:\/\//i;

const dataUrlOf = ({ mimeType, base64 }: InlineMedia) => `data:${mimeType};base64,${base64}`;

/** The public format's `file_data` is base64 by its schema and a data URL in practice; a web address works here too. */
function filePart(file: FilePart["file"], path: string, quirks: ResponsesQuirks): JsonObject {
  const { file_id, file_data, filename } = file;
  if (file_id != null) return { type: "input_file", file_id };
  const file_url = textOf((file as JsonObject)["file_url"]) ?? file_data ?? "";
  if (webUrl.test(file_url)) return { type: "input_file", file_url };
  if (file_data == null) {
    throw ApiError.invalidValue(path, `${path} names no file: give file_data or file_id.`);
  }
  const url = /^data:/i.test(file_data)
    ? file_data
    : `data:${typeOfFile(filename ?? undefined, file_data)};base64,${file_data}`;
  const media = parseDataUrl(url);
  if (media?.mimeType.startsWith("image/")) {
    return { type: "input_image", image_url: /^data:image\//i.test(url) ? url : dataUrlOf(media) };
  }
  if (!quirks.inlineFiles) {
    throw ApiError.unsupported(
      path,
      `${path}: inline files are not taken here; give a file_id, or a URL as file_data.`,
    );
  }
  const sent = media && fileInUtf8(media, `${path}.file.file_data`);
  const data = sent === undefined || sent === media ? url : dataUrlOf(sent);
  return { type: "input_file", filename: filename ?? "file.pdf", file_data: data };
}

/** Reasoning stands right before what it led to: the text, or the call that its `call_id` names. */
function assistantItems(
  message: AssistantMessage,
  path: string,
  ids: readonly string[],
  quirks: ResponsesQuirks,
): JsonObject[] {
  const { reasoning, phase, phases } = replayState(message, quirks);
  const calls = message.tool_calls ?? [];
  const text = spokenText(message);
  if (text === "" && calls.length === 0 && message.audio != null) {
    throw ApiError.unsupported(`${path}.audio`, `${path}.audio: audio is not taken here.`);
  }
  const firstOf = new Map(calls.map(({ id }, at) => [id, at] as const).reverse());
  const ledTo = (at: number) => reasoning.filter(({ call_id }) => call_id !== undefined && firstOf.get(call_id) === at);
  const callItems = calls.flatMap((call, at) => [
    ...ledTo(at).map((entry) => reasoningItem(entry, quirks)),
    callItem(call, ids[at]!, `${path}.tool_calls[${at}]`, quirks),
  ]);
  const first = reasoning.filter((entry) => !calls.some((call) => call.id === entry.call_id));
  const spoken = text !== "" || calls.length === 0;
  return [
    ...first.map((entry) => reasoningItem(entry, quirks)),
    ...(spoken ? spokenItems(text, phases ?? [{ length: text.length, phase }]) : []),
    ...callItems,
  ];
}

type Phase = { length: number; phase?: string | undefined };

/** The messages that the text was made of; one, where it has changed since. */
function spokenItems(text: string, phases: readonly Phase[]): JsonObject[] {
  const fits = phases.reduce((sum, { length }) => sum + length, 0) === text.length;
  let at = 0;
  return (fits ? phases : [{ length: text.length }]).flatMap(({ length, phase }: Phase) => {
    const content = text.slice(at, at + length);
    at += length;
    const isEmptyPart = content === "" && text !== "";
    return isEmptyPart ? [] : [{ role: "assistant", content, ...(phase !== undefined && { phase }) }];
  });
}

type Call = NonNullable<AssistantMessage["tool_calls"]>[number];

function callItem(call: Call, call_id: string, path: string, quirks: ResponsesQuirks): JsonObject {
  const id = quirks.callItemIds ? { id: call_id } : {};
  if (call.type === "function") {
    const { name, arguments: written } = call.function;
    return { type: "function_call", ...id, call_id, name, arguments: writtenArguments(written), ...completed(quirks) };
  }
  if (call.type !== "custom") return refuseType(call.type, path);
  if (!quirks.customTools) throw ApiError.unsupported(path, `${path}: custom tools are not taken here.`);
  return { type: "custom_tool_call", call_id, name: call.custom.name, input: call.custom.input };
}

/** An id that is too long was minted elsewhere: it is replaced, the same way in a call and in its output. */
function fittingId(id: string, { callIdLimit }: ResponsesQuirks): string {
  return id.length <= callIdLimit ? id : shortId(id);
}

type ReplayState = { reasoning: Reasoning[]; phase?: string; phases?: readonly Phase[] };

/**
 * Reads the state of this provider's own that an echoed message carries, in the field we write or in another gateway's. Only encrypted
 * content counts: an id alone would point into the upstream's storage, which holds other callers' reasoning too.
 */
function replayState(message: AssistantMessage, quirks: ResponsesQuirks): ReplayState {
  const own = objectOf(message.extra_content?.[quirks.provider]);
  const phase = textOf(own?.["phase"]);
  const phases = listOf(own?.["phases"]).map((value): Phase => {
    const { length, phase: named } = objectOf(value) ?? {};
    return { length: numberOf(length) ?? 0, phase: textOf(named) };
  });
  const entries = listOf(own?.["reasoning"]).flatMap(reasoningOf);
  const reasoning = entries.length > 0 ? entries : detailedReasoning(message, quirks);
  return { reasoning, ...(phase !== undefined && { phase }), ...(phases.length > 0 && { phases }) };
}

function detailedReasoning(message: AssistantMessage, { reasoningFormats }: ResponsesQuirks): Reasoning[] {
  const details = wholeDetails(message.reasoning_details).filter((entry) =>
    reasoningFormats.includes(textOf(entry["format"]) ?? ""),
  );
  const summaries = details.filter((entry) => entry["type"] === "reasoning.summary");
  const encrypted = details.filter((entry) => entry["type"] === "reasoning.encrypted");
  return encrypted.flatMap(({ id, data }) => {
    const mine = summaries.filter((one) => (one["id"] ?? id) === id);
    return reasoningOf({ id, encrypted_content: data, summary: mine.map(({ summary }) => summary) });
  });
}

function reasoningItem({ id, summary, encrypted_content }: Reasoning, quirks: ResponsesQuirks): JsonObject {
  const parts = summary.map((text) => ({ type: "summary_text", text }));
  return { type: "reasoning", ...(id && { id }), summary: parts, encrypted_content, ...completed(quirks) };
}

function completed({ itemStatus }: ResponsesQuirks): JsonObject {
  return itemStatus ? { status: "completed" } : {};
}
