/** A persona's text and examples, for formats that take them into the caller's own body. */
import { listOf, objectOf } from "../../lib/json/json.ts";
import type { Message } from "../chat/schema.ts";

type Said = {
  readonly system: readonly string[];
  readonly examples: readonly { readonly role: "user" | "assistant"; readonly content: string }[];
};

/** @returns undefined for examples that are more than text */
export function saidBefore([first, ...others]: readonly Message[]): Said | undefined {
  const isSystem = first?.role === "system";
  const examples: { role: "user" | "assistant"; content: string }[] = [];
  for (const { role, content } of isSystem || first === undefined ? others : [first, ...others]) {
    if ((role !== "user" && role !== "assistant") || typeof content !== "string") return undefined;
    examples.push({ role, content });
  }
  const { content } = isSystem ? first : { content: "" };
  const texts =
    typeof content === "string" ? [content] : listOf(content).map((part) => String(objectOf(part)?.["text"]));
  return { system: texts.filter((text) => text.trim() !== ""), examples };
}
