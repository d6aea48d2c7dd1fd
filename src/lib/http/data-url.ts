/** Bytes inside a URL. Source: https://www.rfc-editor.org/rfc/rfc2397 */
import { isUntyped, typeOfBase64 } from "../files/media-types.ts";

type DataUrl = { readonly mimeType: string; readonly base64: string; readonly charset?: string };

/** @returns the type in small letters, that of the bytes where none is named, and these in base64; undefined for another kind of URL */
export function parseDataUrl(url: string): DataUrl | undefined {
  const comma = url.indexOf(",");
  if (comma < 0 || !/^data:/i.test(url)) return undefined;
  const [type = "", ...parameters] = url.slice("data:".length, comma).split(";");
  const isBase64 = parameters.some((parameter) => parameter.trim().toLowerCase() === "base64");
  const data = url.slice(comma + 1);
  const base64 = isBase64 ? data : percentDecoded(data).toString("base64");
  const charset = charsetIn(parameters);
  return { mimeType: typeOf(type.trim().toLowerCase(), base64), base64, ...(charset !== undefined && { charset }) };
}

function typeOf(named: string, base64: string): string {
  if (isUntyped(named)) return typeOfBase64(base64) ?? (named || "text/plain");
  return named === "image/jpg" ? "image/jpeg" : named;
}

/** @param parameters of a media type */
export function charsetIn(parameters: readonly string[]): string | undefined {
  for (const parameter of parameters) {
    const charset = /^\s*charset\s*=\s*["']?([^"']*)/i.exec(parameter)?.[1]?.trim();
    if (charset) return charset;
  }
  return undefined;
}

/** Bytes, and not characters: `%E9` is one of them, whatever charset it has. */
function percentDecoded(text: string): Buffer {
  if (!text.includes("%")) return Buffer.from(text);
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1, length += 1) {
    const code = bytes[at] === percent ? bytes.toString("latin1", at + 1, at + 3) : "";
    const isCode = /^[\da-f]{2}$/i.test(code);
    bytes[length] = isCode ? Number.parseInt(code, 16) : bytes[at]!;
    if (isCode) at += 2;
  }
  return bytes.subarray(0, length);
}

const percent = 0x25;
