/**
 * Text that every store keeps alike. PostgreSQL takes neither the character 0 nor half a surrogate pair, SQLite takes both:
 * https://www.postgresql.org/docs/current/datatype-character.html
 */

/** True if it holds no control character, and no half of a pair: what names something has neither. */
export const isPlainText = (text: string): boolean => !/[\p{Cc}\p{Cs}]/u.test(text);

/** The same text, as every store can keep it. */
export const keepable = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");
