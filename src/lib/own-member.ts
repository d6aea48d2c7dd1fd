/** A table's entry under a word that comes from outside: `constructor` and its like are in every object, and no entries. */
export function ownMember<T>(table: Readonly<Record<string, T>>, word: string): T | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined;
}
