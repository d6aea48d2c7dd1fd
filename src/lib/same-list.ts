/** True if two lists have the same members in the same order. @param isSame absent: `===` */
export function isSameList<T>(
  a: readonly T[],
  b: readonly T[],
  isSame: (a: T, b: T) => boolean = isIdentical,
): boolean {
  return a === b || (a.length === b.length && a.every((one, at) => isSame(one, b[at]!)));
}

const isIdentical = (a: unknown, b: unknown) => a === b;
