/** Bytes inside a URL. Source: https://www.rfc-editor.org/rfc/rfc2397 */

/** @returns the type in small letters and the bytes in base64; undefined for another kind of URL */
export function parseDataUrl(url: string): { mimeType: string; base64: string } | undefined {
  const comma = url.indexOf(",");
  if (comma < 0 || !/^data:/i.test(url)) return undefined;
  const [type = "", ...parameters] = url.slice("data:".length, comma).split(";");
  const named = type.trim().toLowerCase() || "text/plain";
  const mimeType = named === "image/jpg" ? "image/jpeg" : named;
  const data = url.slice(comma + 1);
  if (parameters.some((parameter) => parameter.trim().toLowerCase() === "base64")) return { mimeType, base64: data };
  return { mimeType, base64: Buffer.from(percentDecoded(data)).toString("base64") };
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
