/** @returns the object itself where it has none of them */
export function withoutFields<T extends object>(fields: T, names: readonly string[]): T {
  if (!names.some((name) => Object.hasOwn(fields, name))) return fields;
  const kept = { ...fields };
  for (const name of names) delete (kept as Record<string, unknown>)[name];
  return kept;
}
