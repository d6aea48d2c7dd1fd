/** @returns SHA-256 in hexadecimal, the same for the same JSON value whatever the order of its keys */
export function fingerprint(value: unknown): string {
  return Bun.SHA256.hash(canonical(value), "hex");
}

/** JSON with sorted keys and nothing between the tokens. Keys without a value are absent, as in JSON. */
function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const fields = value as Record<string, unknown>;
  const names = Object.keys(fields).filter((name) => fields[name] !== undefined);
  return `{${names
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(fields[name])}`)
    .join(",")}}`;
}
