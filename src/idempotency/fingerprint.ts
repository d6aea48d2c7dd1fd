/** What tells two requests of one id apart. */

/**
 * @param value a request as it was understood
 * @param body the request as it was sent
 * @returns SHA-256 in hexadecimal, the same for the same JSON value whatever the order of its keys
 */
export function fingerprint(value: unknown, body: string | Uint8Array<ArrayBuffer>): string {
  return Bun.SHA256.hash([canonical(value), ...longNumbers(body)].join("\n"), "hex");
}

/** A number of 16 digits and more, which a parser may round to another one. */
const longNumber = /[:,[][ \t\r\n]*(-?\d[\d.]{15,}(?:[eE][-+]?\d+)?)(?=[ \t\r\n]*[,\]}])/g;

/** Numbers as they were sent, where they may be sent on so; sorted, as the order of keys does not matter. */
function longNumbers(body: string | Uint8Array<ArrayBuffer>): string[] {
  const text =
    typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
  return Array.from(text.matchAll(longNumber), ([, number]) => number!).sort();
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
