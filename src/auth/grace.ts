/** The longest time for which an old secret is taken beside the new one, in milliseconds. */
export const maxGraceMs = 30 * 86_400_000;
