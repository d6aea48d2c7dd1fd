/**
 * Members that hold nothing. Clients and servers in typed languages write all members of a union, the one that is meant and
 * the empty others (`"custom":{"name":"","input":""}` beside a `function`), so that what is empty is left out at both edges:
 * of messages before they are checked, and of answers before they are sent.
 */
import { derive, isObject, type JsonObject, saysNothing } from "../../lib/json/json.ts";
import { calledIn } from "./tools.ts";

/** @param name the member's, as spoken answers have a number that says nothing by itself (`expires_at: 0`) */
export function isEmptyMember(name: string, value: unknown): boolean {
  if (saysNothing(value)) return true;
  return name === "audio" && isObject(value) && Object.values(value).every((one) => one === 0 || saysNothing(one));
}

/** @returns the object without its empty members of these names; itself where it has none. `null` is absent already. */
function without(value: JsonObject, names: readonly string[]): JsonObject {
  const empty: string[] = [];
  for (const name of names) if (value[name] != null && isEmptyMember(name, value[name])) empty.push(name);
  if (empty.length === 0) return value;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !empty.includes(name)));
}

/**
 * A request without the empty members among which upstreams, or those who translate for them, would have to choose.
 * @param body nobody has checked it yet
 * @returns the body itself where there are none
 */
export function withoutEmptyMembers(body: JsonObject): JsonObject {
  const messages = body["messages"];
  if (!Array.isArray(messages)) return body;
  const cleaned = mapped(messages, cleanMessage);
  return cleaned === messages ? body : derive(body, { ...body, messages: cleaned });
}

/** @returns the list itself where nothing changed, which costs next to nothing */
function mapped(list: readonly unknown[], change: (item: unknown) => unknown): readonly unknown[] {
  let changed: unknown[] | undefined;
  for (let at = 0; at < list.length; at++) {
    const item = list[at];
    const next = change(item);
    if (next === item) continue;
    changed ??= [...list];
    changed[at] = next;
  }
  return changed === undefined ? list : derive(list, changed);
}

function cleanMessage(message: unknown): unknown {
  if (!isObject(message)) return message;
  if (message["role"] === "assistant") return cleanAssistant(message);
  const { content } = message;
  if (!Array.isArray(content)) return message;
  const parts = mapped(content, cleanPart);
  return parts === content ? message : derive(message, { ...message, content: parts });
}

const choices = ["refusal", "audio", "function_call"] as const;

function cleanAssistant(message: JsonObject): JsonObject {
  const cleaned = without(message, choices);
  // An empty refusal was still an answer.
  const said = message["content"] == null && message["refusal"] === "" ? { ...cleaned, content: "" } : cleaned;
  const calls = said["tool_calls"];
  if (!Array.isArray(calls)) return said;
  const whole = mapped(calls, cleanCall);
  return whole === calls ? said : derive(message, { ...said, tool_calls: whole });
}

/** With the member that says something alone, and the type that it is of. */
function cleanCall(call: unknown): unknown {
  const called = isObject(call) ? calledIn(call) : undefined;
  if (!isObject(call) || called === undefined) return call;
  const { type } = call;
  const isOther = typeof type === "string" && type !== "" && type !== "function" && type !== "custom";
  if (isOther) return call;
  const cleaned = without(call, ["function", "custom"]);
  return type === called.kind ? cleaned : { ...cleaned, type: called.kind };
}

function cleanPart(part: unknown): unknown {
  if (!isObject(part) || !isObject(part["file"])) return part;
  const file = without(part["file"], ["file_id", "file_data", "file_url", "filename"]);
  return file === part["file"] ? part : { ...part, file };
}
