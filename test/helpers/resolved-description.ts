/** The API's description as it reads with each reference replaced by what it refers to, and each operation with what holds for all that say nothing else. */
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
  const { paths, security, ...rest } = resolve(document) as Described;
  const described = Object.entries(paths).map(([path, methods]) => [
    path,
    Object.fromEntries(Object.entries(methods).map(([method, operation]) => [method, { security, ...operation }])),
  ]);
  return { ...rest, security, paths: Object.fromEntries(described) } as D;
}

type Described = { readonly paths: Record<string, Record<string, object>>; readonly security: unknown };
