import { truncate } from "../lib/text/truncate.ts";
import { ApiError } from "./errors.ts";

/** `<namespace>/<name>`, apart and together. Only the first slash splits: upstream names may hold more. */
type ModelId = { namespace: string; name: string };

/** @returns undefined when there is no slash, or nothing on one side of it */
export function parseModelId(id: string): ModelId | undefined {
  const slash = id.indexOf("/");
  if (slash <= 0 || slash === id.length - 1) return undefined;
  return { namespace: id.slice(0, slash), name: id.slice(slash + 1) };
}

/** True for a name that a server in between may resolve to another one, where it stands in a path. */
export const leadsElsewhere = (name: string): boolean => /(?:^|[/\\])\.{1,2}(?:[/\\]|$)/.test(name);

/** @returns a name as one segment of a path, which it stays however often it is decoded @throws ApiError invalid_value */
export function segmentOf(name: string): string {
  if (!/[/\\:?#%;]/.test(name)) return encodeURIComponent(name);
  throw ApiError.invalidValue("model", `'${truncate(name)}' is no name of a model there.`);
}

export function formatModelId({ namespace, name }: ModelId): string {
  return `${namespace}/${name}`;
}
