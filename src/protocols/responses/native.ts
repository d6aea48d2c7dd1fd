/**
 * Calls whose upstream speaks this format too. Their body goes as it came, but for the model's name, what a persona changes, and
 * the thinking state of other makers, which theirs refuse.
 */
import { derive, isObject, type JsonObject, listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { formatSseEvent } from "../../lib/streams/sse.ts";
import { type Insertion, putInsertions } from "../body/insertion.ts";
import type { Envelope, Message } from "../chat/schema.ts";
import { doneData } from "../chat/stream.ts";
import { textOfContent } from "../chat/texts.ts";
import { calledIn } from "../chat/tools.ts";
import { InvalidAnswer } from "../errors.ts";
import { eventType } from "../event-type.ts";
import type { NativeChange, NativeEncoder, NativeForm } from "../protocol.ts";
import { isSeal } from "../state/seal.ts";
import { endError, errorMembers, inBothForms, responseError } from "./errors.ts";
import { itemsOf } from "./message-items.ts";
import { responseObject } from "./object.ts";
import type { ResponsesOptions } from "./options.ts";
import { ownEcho } from "./own-echo.ts";
import { holdsThoughts } from "./reasoning.ts";
import { isReference } from "./references.ts";
import { itemSchemas, toolSchemas } from "./schema.ts";
import { summaryIn } from "./summary.ts";
import { addedType, ToolNames } from "./tools.ts";

export const native: NativeForm<ResponsesOptions> = {
  patch: patchedBody,
  ownEcho,
  encoder: (envelope, options): NativeEncoder => ({
    fault(error, last, events) {
      const { code, message } = responseError(error);
      let number = numberAfter(last?.data);
      const emit = (type: string, fields: JsonObject) => {
        events.push(formatSseEvent(JSON.stringify({ type, sequence_number: number, ...fields }), type));
        number += 1;
      };
      emit("error", errorMembers(error));
      const named = envelopeIn(last?.data, envelope);
      emit("response.failed", { response: responseObject({ error: { code, message } }, named, options, "failed") });
    },
    // OpenAI's clients read the type alone.
    shown(event) {
      if (event.data === doneData) return [];
      const type = eventType(event);
      if (event.event.startsWith("response.") && type !== event.event) throw new InvalidAnswer("an event of two kinds");
      return [event];
    },
    knowsFault({ event, data }) {
      const said = objectOf(parseJson(data));
      return event !== "error" || (said !== undefined && (said["type"] ?? "error") === "error");
    },
    passedFault({ event, data }) {
      const whole = inBothForms(data);
      return whole === undefined ? failure(event, data) : formatSseEvent(whole, "error");
    },
  }),
};

/** A failed or cancelled response behind an `error` event: some clients end in silence where the upstream left that out. */
function failure(event: string, data: string): string | undefined {
  const { type, sequence_number, response } = objectOf(parseJson(data)) ?? {};
  if (type !== "response.failed" && type !== "response.cancelled") return undefined;
  const error = errorMembers(endError(objectOf(response) ?? {}));
  return (
    formatSseEvent(JSON.stringify({ type: "error", sequence_number, ...error }), "error") + formatSseEvent(data, event)
  );
}

const numberForm = /"sequence_number"\s*:\s*(\d{1,15})/;

/** The number of the event that follows. */
function numberAfter(data = ""): number {
  const number = numberForm.exec(data)?.[1];
  return number === undefined ? 0 : Number(number) + 1;
}

const idForm = /^\{"type":"response\.(?:created|in_progress)",.{0,64}"id":"(resp_[^"]{1,200})"/;

/** The answer's own name, as far as the latest event names it. */
function envelopeIn(data = "", envelope: Envelope): Envelope {
  const id = idForm.exec(data)?.[1];
  const { created, model } = envelope;
  return id === undefined ? envelope : { id, created, model };
}

/** @returns undefined where the change can't be said in this format */
export function patchedBody(
  body: JsonObject,
  { model, before, within = [], earlier, fields, anyThinking }: NativeChange,
): JsonObject | undefined {
  const changes = changesOf(body, fields);
  if (changes === undefined || isKeptHereAlone(body, changes)) return undefined;
  if (earlier !== undefined && declaredIn(body).some(isRenamedTool)) return undefined;
  const patched: JsonObject = { ...body, ...changes, model };
  for (const name of Object.keys(changes)) if (changes[name] === undefined) delete patched[name];
  // What a translated turn sealed comes back to its maker by translation alone.
  if (anyThinking === true && listOf(body["input"]).some(isSealed)) return undefined;
  const given = anyThinking === true ? body["input"] : withoutForeignSeals(body["input"], changes["store"] === false);
  const input = withInsertions(given, within);
  if (input === undefined && within.length > 0) return undefined;
  if (input !== body["input"]) patched["input"] = input;
  if (earlier !== undefined) {
    delete patched["previous_response_id"];
    patched["input"] = [...earlier, ...inputItemsOf(patched["input"])];
  }
  if (before.length > 0) Object.assign(patched, preceded(patched, before));
  // A prompt that a persona answers, which its model does not know.
  if (body["model"] == null || before.length > 0) delete patched["prompt"];
  return patched;
}

/**
 * True where the caller may name the answer's items by their ids in the next turn, as many clients do with what they think is kept,
 * while the upstream keeps nothing: then the items have to be ours. What has no translation goes as it came all the same.
 */
function isKeptHereAlone(body: JsonObject, changes: JsonObject): boolean {
  if (changes["store"] !== false || body["store"] === false) return false;
  return !listOf(body["tools"]).some(isForeignTool) && !listOf(body["input"]).some(isForeignItem);
}

function isForeignTool(tool: unknown): boolean {
  return isObject(tool) && !Object.hasOwn(toolSchemas, textOf(tool["type"]) ?? "");
}

function isForeignItem(item: unknown): boolean {
  if (!isObject(item) || isReference(item) || summaryIn(item) !== undefined) return false;
  const type = textOf(item["type"] ?? "message") ?? "";
  if (type === addedType) return listOf(item["tools"]).some(isForeignTool);
  return type !== "message" && !Object.hasOwn(itemSchemas, type);
}

/** The tools of a body, those that its input adds among them. */
const declaredIn = (body: JsonObject): unknown[] => [...listOf(body["tools"]), ...addedIn(body)];

const addedIn = (body: JsonObject): unknown[] =>
  listOf(body["input"]).flatMap((item) => (isObject(item) && item["type"] === addedType ? listOf(item["tools"]) : []));

/**
 * @param isUnstored whether the upstream keeps nothing that the caller thinks is kept: then reasoning that holds nothing can't be
 *   found there
 */
function withoutForeignSeals(input: unknown, isUnstored: boolean): unknown {
  const isOther = (item: unknown) => isLost(item, isUnstored) || summaryIn(item) !== undefined;
  if (!Array.isArray(input) || !input.some(isOther)) return input;
  return derive(
    input,
    input.flatMap((item) => {
      if (isLost(item, isUnstored)) return [];
      const summary = summaryIn(item);
      return [summary === undefined ? item : { type: "message", role: "user", content: summary }];
    }),
  );
}

function isLost(item: unknown, isUnstored: boolean): boolean {
  const content = reasoningIn(item);
  return content !== undefined && (isSeal(content) || (isUnstored && !holdsThoughts(item as JsonObject)));
}

const isSealed = (item: unknown): boolean => isSeal(reasoningIn(item) ?? "") || summaryIn(item) !== undefined;

/** @returns the encrypted content of a reasoning item, "" where it has none; undefined for any other item */
function reasoningIn(item: unknown): string | undefined {
  return isObject(item) && item["type"] === "reasoning" ? (textOf(item["encrypted_content"]) ?? "") : undefined;
}

/** The persona's system text stands before the caller's instructions, its examples before the caller's items. */
function preceded(body: JsonObject, before: readonly Message[]): JsonObject {
  const isSystem = ({ role }: Message) => role === "system" || role === "developer";
  const texts = before.filter(isSystem).map(({ content }) => textOfContent(content));
  const own = textOf(body["instructions"]);
  const instructions = [...texts, ...(own === undefined ? [] : [own])].filter((text) => text !== "").join("\n\n");
  const examples = before.filter((message) => !isSystem(message)).flatMap(itemsOf);
  // A prompt without input: an input there must be.
  if (body["input"] == null && body["previous_response_id"] == null && examples.length === 0)
    return { input: [{ role: "developer", content: texts.join("\n\n") }] };
  if (examples.length === 0) return { instructions };
  return { instructions, input: [...examples, ...inputItemsOf(body["input"])] };
}

function withInsertions(input: unknown, within: readonly Insertion[]): unknown {
  if (within.length === 0) return input;
  return putInsertions(inputItemsOf(input), within, isOfUser, precededItem);
}

const isOfUser = ({ type, role }: JsonObject): boolean => (type ?? "message") === "message" && role === "user";

function precededItem(item: JsonObject, text: string): JsonObject {
  const { content } = item;
  if (typeof content === "string") return derive(item, { ...item, content: `${text}\n\n${content}` });
  return derive(item, { ...item, content: [{ type: "input_text", text }, ...listOf(content)] });
}

const inputItemsOf = (input: unknown) =>
  typeof input === "string" ? [{ role: "user", content: input }] : listOf(input);

/** Calls of these are kept as calls of functions, by names that only we know. */
const isRenamedTool = (tool: unknown) => isObject(tool) && (tool["type"] === "custom" || tool["type"] === "namespace");

/** Fields with the same name and meaning in the inner form and here. */
const alike = new Set([
  ...["temperature", "top_p", "top_logprobs", "parallel_tool_calls", "metadata", "user", "safety_identifier"],
  ...["prompt_cache_key", "prompt_cache_retention", "service_tier", "stream", "store", "include"],
]);

/** @returns the fields of this format that say the same; undefined where one can't be said */
function changesOf(body: JsonObject, fields: NativeChange["fields"]): JsonObject | undefined {
  const changes: JsonObject = {};
  const text = isObject(body["text"]) ? body["text"] : {};
  const grouped = { reasoning: isObject(body["reasoning"]) ? body["reasoning"] : {}, text };
  const put = (group: keyof typeof grouped, value: JsonObject) => {
    grouped[group] = { ...grouped[group], ...value };
    changes[group] = grouped[group];
  };
  for (const [name, value] of Object.entries(fields)) {
    if (alike.has(name)) changes[name] = value;
    else if (name === "max_tokens" || name === "max_completion_tokens") {
      if (value !== undefined) changes["max_output_tokens"] = value;
    } else if (name === "reasoning_effort") put("reasoning", { effort: value });
    else if (name === "verbosity") put("text", { verbosity: value });
    else if (name === "response_format") put("text", { format: flatFormat(value) });
    else if (name === "tools") changes["tools"] = toolsOf(body, value);
    else if (name === "tool_choice") changes["tool_choice"] = flat(value);
    // There are no stop sequences in this format; translated calls go without them too.
    else if (name === "stop") continue;
    else if (value !== undefined) return undefined;
    else if (Object.hasOwn(body, name)) changes[name] = undefined;
  }
  return changes;
}

/** The caller's own tools as they came; a persona's are put before them. */
function toolsOf(body: JsonObject, tools: unknown): unknown[] {
  const own = listOf(body["tools"]);
  const added = addedIn(body);
  const more = added.length === 0 ? 0 : new ToolNames(own, added).size - new ToolNames(own).size;
  const count = own.reduce<number>((sum, tool) => sum + countOf(tool), more);
  const all = listOf(tools);
  return [...all.slice(0, Math.max(0, all.length - count)).map(flat), ...own];
}

/** The number of tools of the inner form that one of this format became. */
function countOf(tool: unknown): number {
  if (!isObject(tool)) return 0;
  if (tool["type"] === "namespace") return listOf(tool["tools"]).length;
  return tool["type"] === "function" || tool["type"] === "custom" ? 1 : 0;
}

/** `{"type":"function","function":{"name":…}}` as `{"type":"function","name":…}`. */
function flat(value: unknown): unknown {
  if (!isObject(value)) return value;
  const called = calledIn(value);
  if (called === undefined) return value;
  const strict = called.kind === "function" && called.said["strict"] == null ? { strict: false } : {};
  const { parameters } = called.said;
  return { type: called.kind, ...called.said, ...(parameters === undefined ? {} : strict) };
}

function flatFormat(value: unknown): unknown {
  if (!isObject(value) || !isObject(value["json_schema"])) return value;
  return { type: value["type"], ...value["json_schema"] };
}
