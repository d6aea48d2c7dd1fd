/** A table's entry under a word that comes from outside: `constructor` and its like are in every object, and no entries. */
export function ownMember<T>(table: Readonly<Record<string, T>>, word: string): T | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined;
}

/** A table read in the other direction: its words by what they stand for; of several the first. */
export function inverted(table: Readonly<Record<string, string | number>>): Readonly<Record<string, string>> {
  const entries = Object.entries(table).map(([word, meaning]) => [String(meaning), word]);
  return Object.fromEntries(entries.reverse());
}
