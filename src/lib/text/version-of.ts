/** Stands for a text where only its being the same counts: the first 12 hexadecimal digits of its SHA-256. */
export const versionOf = (text: string): string => Bun.SHA256.hash(text, "hex").slice(0, 12);
