/** Values of JSON in a line. */

const maxText = 300;

/** @returns the value as text, cut where it is long */
export function valueText(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > maxText ? `${text.slice(0, maxText)}…` : text;
}

/** @returns each value that is no mapping with its path such as `log.level`; lists are values */
export function flat(value: unknown, path = ""): readonly (readonly [string, unknown])[] {
  const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMapping || Object.keys(value).length === 0) return path === "" ? [] : [[path, value]];
  return Object.entries(value).flatMap(([name, inner]) => flat(inner, path === "" ? name : `${path}.${name}`));
}

export type Change = { readonly name: string; readonly before: string | undefined; readonly after: string | undefined };

/** @returns what differs between two values, member by member; undefined: it is not there */
export function changesOf(before: unknown, after: unknown): readonly Change[] {
  const [old, now] = [before, after].map((one) => new Map(one === null ? [] : flat(one, isPlain(one) ? "value" : "")));
  return [...new Set([...old!.keys(), ...now!.keys()])]
    .map((name) => {
      const [was, is] = [old!, now!].map((all) => (all.has(name) ? valueText(all.get(name)) : undefined));
      return { name, before: was, after: is };
    })
    .filter((one) => one.before !== one.after);
}

const isPlain = (value: unknown) => typeof value !== "object" || Array.isArray(value);
