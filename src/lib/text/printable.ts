/** Texts from elsewhere, made fit for a terminal. */

/**
 * Control characters but for tab and line feed, which could move the cursor, write over what stands there or make the terminal answer
 * (ECMA-48), and overrides of the direction, which show a text in another order than it has (https://trojansource.codes).
 */
const unprintable = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]/g;

/** @returns the text with a visible sign for each character that a terminal would act on */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}

/** The same of a text that stands in one line, such as a table's cell. */
export const printableLine = (text: string): string =>
  printable(text).replaceAll("\t", "\u2409").replaceAll("\n", "\u240a");
