/** Names in camel case, as members are named in code, as JSON, YAML and tables have them. */

export const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** A number is a word of its own: `cacheWrite1h` is `cache_write_1h`. For names that have no underscores yet. */
export const snakeCaseNumbered = (name: string): string => snakeCase(name.replaceAll(/\d+/g, "_$&"));

/** The same value with the names of all its objects so, as far as they are nested in one another. */
export function snakeKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snakeCase(key), snakeKeys(inner)]));
}

export const camelCase = (name: string): string =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
