/** Compaction items of ours: a conversation's summary in an envelope, which any model is given as a message of the user. */
import { isObject, type JsonObject, objectOf, textOf } from "../../lib/json/json.ts";
import { textOfContent } from "../chat/texts.ts";
import { isSeal, seal, unseal } from "../state/seal.ts";
import { summaryText } from "../summary-text.ts";

export const summaryItem = (id: string, summary: string): JsonObject => ({
  id,
  type: "compaction",
  encrypted_content: seal("troupe", { summary }),
});

const itemTypes: ReadonlySet<unknown> = new Set(["compaction", "compaction_summary"]);

/** @returns the summary that an item of ours holds, as the user says it; undefined for any other item */
export function summaryIn(item: unknown): string | undefined {
  if (!isObject(item) || !itemTypes.has(item["type"])) return undefined;
  const content = textOf(item["encrypted_content"]) ?? "";
  if (!isSeal(content)) return undefined;
  const opened = unseal(content);
  const summary = opened?.family === "troupe" ? textOfContent(objectOf(opened.content)?.["summary"]) : "";
  return summary === "" ? undefined : summaryText(summary);
}
