/** `<namespace>/<name>`, apart and together. Only the first slash splits: upstream names may hold more. */
export type ModelId = { namespace: string; name: string };

/** @returns undefined when there is no slash, or nothing on one side of it */
export function parseModelId(id: string): ModelId | undefined {
  const slash = id.indexOf("/");
  if (slash <= 0 || slash === id.length - 1) return undefined;
  return { namespace: id.slice(0, slash), name: id.slice(slash + 1) };
}

export function formatModelId({ namespace, name }: ModelId): string {
  return `${namespace}/${name}`;
}
