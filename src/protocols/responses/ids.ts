/**
 * Ids of output items. They are made from the answer's own, so that the same answer has the same ids, and what a caller sends
 * back is known as one answer's.
 * The prefixes are those that the format's makers ask for: https://platform.openai.com/docs/api-reference/responses/object
 */
export const answerIdPrefix = "resp_";

const itemPrefixes = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  custom_tool_call: "ctc",
  image_generation_call: "ig",
} as const;
export type OutputType = keyof typeof itemPrefixes;

/** @param at the item's place among those of its type */
export function itemId(type: OutputType, answerId: string, at: number): string {
  const own = answerId.startsWith(answerIdPrefix) ? answerId.slice(answerIdPrefix.length) : answerId;
  return `${itemPrefixes[type]}_${own}_${at}`;
}

/** An answer's own part is 32 hex digits; other makers number their items too. */
const form = /^(?:msg|rs|fc|ctc|ig)_([0-9a-f]{32})_\d+$/;

/** @returns what ids of items of one answer have in common; undefined for those that others made */
export function answerOfItem(id: unknown): string | undefined {
  return typeof id === "string" ? form.exec(id)?.[1] : undefined;
}
