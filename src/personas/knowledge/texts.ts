/** The texts of a conversation that knowledge and lorebooks look at. */
import type { Message } from "../../protocols/chat/schema.ts";

/** @returns the texts of a message, a line for each part; "" for one that has none, such as an image alone */
export function messageTextOf({ content }: Pick<Message, "content">): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as readonly { text?: unknown }[])
    .flatMap(({ text }) => (typeof text === "string" ? text : []))
    .join("\n");
}

/**
 * The text of the latest user message. Results of tools behind it are no question: the steps of one turn ask the same, and so are
 * given the same.
 */
export function questionIn(messages: readonly Message[]): string {
  const last = messages.findLast(({ role }) => role === "user");
  return last === undefined ? "" : messageTextOf(last);
}
