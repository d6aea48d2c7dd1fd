/** Truncates text of callers wherever it is stored, counted, logged or quoted. */

/** Maximum length of a caller's text, in UTF-16 code units, in a message, a log field, a span or a metric's label. */
export const maxQuoted = 256;

/** @returns the text, or its beginning and an ellipsis, together at most `max` long; no character is cut in two */
export function truncate(text: string, max = maxQuoted): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 2);
  const isHighSurrogate = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, isHighSurrogate ? max - 2 : max - 1)}…`;
}
