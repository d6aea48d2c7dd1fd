/** The API's description as it reads with each reference replaced by what it refers to. */
export function resolved<D extends object>(document: D): D {
  const resolve = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(resolve);
    if (typeof value !== "object" || value === null) return value;
    const ref = (value as { $ref?: unknown }).$ref;
    if (typeof ref !== "string")
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolve(one)]));
    const names = ref.slice(2).split("/");
    return resolve(names.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document));
  };
  return resolve(document) as D;
}
