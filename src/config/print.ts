/** A configuration as a file that would give it, without its secrets. */
import { Document, isMap, isPair, isScalar, isSeq, type Node, visit } from "yaml";
import { formatPath, type PathPart } from "../lib/json/schema-errors.ts";
import { fileFrom } from "./as-file.ts";
import type { LoadedConfig } from "./load.ts";
import type { ValueOrigin } from "./report.ts";

/** The YAML text; a comment beside each value says where it came from, unless it is the default. */
export function printConfig({ config, origins }: Pick<LoadedConfig, "config" | "origins">): string {
  const document = new Document(fileFrom(config));
  visit(document, {
    Pair(_, pair, ancestors) {
      const path = [...ancestors.flatMap((above) => (isPair(above) ? keyOf(above.key) : [])), ...keyOf(pair.key)];
      const origin = origins.get(formatPath(path));
      const value = pair.value as Node | null;
      // A mapping's comment would stand before its first key; its parts have their own.
      if (origin === undefined || value === null || (isMap(value) && value.items.length > 0)) return;
      if (isSeq(value) && value.items.length > 0) value.commentBefore = ` ${origin.name}`;
      else value.comment = ` ${origin.name}`;
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** The same for JSON: the values, and under `origins` where each came from by its path (`log.level`), unless it is the default. */
export function configJson({ config, origins }: Pick<LoadedConfig, "config" | "origins">) {
  const values = fileFrom(config);
  return { ...values, origins: Object.fromEntries(originsIn(values, [], origins)) };
}

/** The origin of each value that is printed. A mapping has none, but for an empty one; its parts have. */
function originsIn(
  value: unknown,
  path: readonly PathPart[],
  origins: LoadedConfig["origins"],
): [string, ValueOrigin][] {
  const isMapping =
    typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
  if (isMapping) return Object.entries(value).flatMap(([key, inner]) => originsIn(inner, [...path, key], origins));
  const name = formatPath(path);
  const origin = origins.get(name);
  return origin === undefined ? [] : [[name, { where: origin.where, name: origin.name }]];
}

const keyOf = (key: unknown): PathPart[] => (isScalar(key) ? [String(key.value)] : []);
