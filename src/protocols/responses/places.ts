/** Places of the inner form in the words of this format, for errors that are found behind the parser. */
import type { MessagePlace } from "./input.ts";

export type Places = {
  readonly messages: readonly MessagePlace[];
  readonly tools: readonly string[];
  /** Where a persona's variables stand; absent: where they do in the inner form. */
  readonly variables?: string;
};

/** Fields with another name here; what follows them in a path is within. */
const fields: Readonly<Record<string, string>> = {
  max_tokens: "max_output_tokens",
  max_completion_tokens: "max_output_tokens",
  "response_format.json_schema": "text.format",
  response_format: "text.format",
  reasoning_effort: "reasoning.effort",
  reasoning_summary: "reasoning.summary",
  include_thoughts: "reasoning.summary",
  verbosity: "text.verbosity",
  logprobs: "include",
  messages: "input",
};

/** Members that stand one level higher here. */
const lifted: readonly (readonly [RegExp, string])[] = [
  [/^\.(?:function|custom)(?=\.|$)/, ""],
  [/^\.image_url\.url\b/, ".image_url"],
  [/^\.file(?=\.|$)/, ""],
];

const indexed = /^(messages|tools)\[(\d+)\](.*)$/s;

/** @param path of a value in the inner form */
export function placeHere(path: string, places: Places): string {
  const [, list, index, rest = ""] = indexed.exec(path) ?? [];
  if (list === "tools") {
    const tool = places.tools[Number(index)];
    return `${tool ?? "tools"}${tool === undefined ? "" : tail(rest)}`;
  }
  if (list === "messages") {
    const message = places.messages[Number(index)];
    return message === undefined ? "input" : placeInMessage(rest, message);
  }
  if (places.variables !== undefined && /^variables(?![^.[])/.test(path))
    return `${places.variables}${path.slice("variables".length)}`;
  const name = Object.keys(fields).find((one) => path === one || path.startsWith(`${one}.`));
  const renamed = name === undefined ? path : `${fields[name]}${path.slice(name.length)}`;
  return renamed.replace(/^tool_choice\.(?:function|custom)\./, "tool_choice.");
}

function placeInMessage(rest: string, { content, calls = [] }: MessagePlace): string {
  const call = /^\.tool_calls\[(\d+)\](.*)$/s.exec(rest);
  if (call !== null) return `${calls[Number(call[1])] ?? content}${tail(call[2]!)}`;
  const part = /^\.content(\[\d+\])(.*)$/s.exec(rest);
  return part === null ? content : `${content}${part[1]}${tail(part[2]!)}`;
}

function tail(rest: string): string {
  const found = lifted.find(([form]) => form.test(rest));
  return found === undefined ? rest : rest.replace(found[0], found[1]);
}
