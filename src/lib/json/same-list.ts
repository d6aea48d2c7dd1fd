/** True if two lists have the same members in the same order. @param isSame absent: `===` */
export function isSameList<T>(
  a: readonly T[],
  b: readonly T[],
  isSame: (a: T, b: T) => boolean = isIdentical,
): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (!isSame(a[at]!, b[at]!)) return false;
  return true;
}

const isIdentical = (a: unknown, b: unknown) => a === b;
