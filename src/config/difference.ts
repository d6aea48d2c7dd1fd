/** The difference between two configurations, for the log of a reload. */
import { isObject } from "../lib/json/json.ts";
import { snakeCase } from "../lib/text/snake-case.ts";
import type { Config } from "./config.ts";

/** The settings that differ, by their paths in the file's terms, without their values: `limits.body_bytes`, `providers.openai`. */
export function changedSettings(before: Config, after: Config): string[] {
  return differences(byName(before), byName(after), []);
}

const byName = (config: Config) => ({
  ...config,
  providers: Object.fromEntries(config.providers.map((provider) => [provider.name, provider])),
});

function differences(before: unknown, after: unknown, path: readonly string[]): string[] {
  if (!isObject(before) || !isObject(after)) return Bun.deepEquals(before, after) ? [] : [path.join(".")];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key) => differences(before[key], after[key], [...path, snakeCase(key)]));
}
