/** Media of a content's parts, as parts of the inner form. */

import { isUntyped, typeByName, typeOfBase64 } from "../../lib/files/media-types.ts";
import { charsetIn } from "../../lib/http/data-url.ts";
import type { FilePart, ImagePart, TextPart, UserPart } from "../chat/schema.ts";
import { textOfFile } from "../inline-text.ts";
import type { NativeOnly } from "../native-only.ts";
import type { Blob, FileData } from "./schema.ts";

/** The names that the inner form has for types of audio; others go by their own. */
const audioFormats: Readonly<Record<string, string>> = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/wave": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
};

/**
 * A text is a text, since few upstreams take files of text.
 * @param path of the bytes
 * @throws ApiError invalid_value for a text that can't be read
 */
export function inlinePart({ mimeType, data, displayName }: Blob, path: string): UserPart {
  const [named = "", ...parameters] = mimeType.toLowerCase().split(";");
  const type = (isUntyped(named.trim()) && typeOfBase64(data)) || mimeType.toLowerCase();
  if (type.startsWith("text/")) {
    const charset = charsetIn(parameters);
    return { type: "text", text: textOfFile({ base64: data, ...(charset !== undefined && { charset }) }, path) };
  }
  const base64 = plainBase64(data);
  if (type.startsWith("audio/")) {
    const format = audioFormats[type] ?? type.slice("audio/".length);
    return { type: "input_audio", input_audio: { data: base64, format } };
  }
  const url = `data:${type};base64,${base64}`;
  if (type.startsWith("image/")) return { type: "image_url", image_url: { url } };
  return filePart(url, displayName ?? (type === "application/pdf" ? "document.pdf" : undefined));
}

/** Google takes both alphabets of base64, and others the first. Source: https://www.rfc-editor.org/rfc/rfc4648#section-5 */
function plainBase64(data: string): string {
  return /[-_]/.test(data) ? data.replaceAll("-", "+").replaceAll("_", "/") : data;
}

function filePart(file_data: string, filename: string | undefined): FilePart {
  return { type: "file", file: { ...(filename !== undefined && { filename }), file_data } };
}

/** Addresses that Google itself can read: its own stores, and videos. */
export const googleUri =
  /^(?:gs:\/\/|https?:\/\/generativelanguage\.googleapis\.com\/v\w+\/files\/|https?:\/\/(?:(?:www|m)\.)?(?:youtube\.com|youtu\.be)\/)/i;

/** @param path the part's, for what has no translation */
export function uriPart({ fileUri, mimeType }: FileData, path: string, nativeOnly: NativeOnly): UserPart[] {
  if (!/^https?:/i.test(fileUri) || googleUri.test(fileUri)) {
    nativeOnly.part(`${path}.fileData.fileUri`, "videos, and files of Google's own stores, are known to Google alone.");
    return [];
  }
  const type = mimeType?.toLowerCase() ?? typeByName(new URL(fileUri, "http://localhost").pathname) ?? "";
  if (type === "" || type.startsWith("image/"))
    return [{ type: "image_url", image_url: { url: fileUri } } as ImagePart];
  return [filePart(fileUri, type === "application/pdf" ? "document.pdf" : undefined)];
}

export const isText = (part: UserPart): part is TextPart => part.type === "text";
