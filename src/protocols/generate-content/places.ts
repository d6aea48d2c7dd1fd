/** Places of the inner form in the words of this format, for errors that are found behind the parser. */
import type { MessagePlace } from "./conversation.ts";
import { generationPath } from "./generation.ts";

export type Places = {
  readonly messages: readonly MessagePlace[];
  /** Places of functions. */
  readonly tools: readonly string[];
};

const indexed = /^(messages|tools)\[(\d+)\](.*)$/s;

/** @param path of a value in the inner form */
export function placeHere(path: string, { messages, tools }: Places): string {
  const [, list, index, rest = ""] = indexed.exec(path) ?? [];
  if (list === "tools") {
    const tool = tools[Number(index)];
    return tool === undefined ? "tools" : `${tool}${rest.replace(/^\.function(?=\.|$)/, "")}`;
  }
  if (list === "messages") {
    const message = messages[Number(index)];
    return message === undefined ? "contents" : placeInMessage(rest, message);
  }
  if (path === "messages") return "contents";
  const [, name = "", tail = ""] = /^(\w+)(.*)$/s.exec(path) ?? [];
  if (name === "tool_choice") return "toolConfig.functionCallingConfig";
  const own = generationPath(name);
  if (own === undefined) return path;
  return name === "generation_config" || name === "safety_settings" ? `${own}${tail}` : own;
}

function placeInMessage(rest: string, { whole, parts, calls = [] }: MessagePlace): string {
  const [, list, index] = /^\.(content|tool_calls)\[(\d+)\]/.exec(rest) ?? [];
  if (list === undefined) return whole;
  return (list === "content" ? parts : calls)[Number(index)] ?? whole;
}
