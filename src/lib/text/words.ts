/** A list of words that is written as one text, with white space between them. */
export const words = (text: string): string[] => text.trim().split(/\s+/);
