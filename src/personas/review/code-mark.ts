/** A name between code marks, as sentences of a report have it: marks of its own become apostrophes. Pure. */
export const codeMarked = (name: string): string => `\`${name.replaceAll("`", "'")}\``;
