/** How long an old secret may be taken beside the new one, in milliseconds. */
export const maxGraceMs = 30 * 86_400_000;
