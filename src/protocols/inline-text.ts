/** Files of text in base64, as the text that they hold. */
import { isUtf8 } from "node:buffer";
import { isTextType } from "../lib/files/media-types.ts";
import { declaredAsUtf8, readableText, UnreadableText } from "../lib/text/charset.ts";
import { ApiError } from "./errors.ts";

type InlineBytes = { readonly base64: string; readonly charset?: string };

/**
 * @param path where the bytes stand in the request
 * @throws ApiError invalid_value where they are no text, or one of an unknown charset
 */
export function textOfFile({ base64, charset }: InlineBytes, path: string): string {
  return textOfBytes(Buffer.from(base64, "base64"), charset, path);
}

/**
 * For an upstream that takes files as bytes, and reads those of texts as UTF-8.
 * @returns the same media where it is no text, or UTF-8 already
 * @throws ApiError as `textOfFile` does
 */
export function fileInUtf8<T extends InlineBytes & { readonly mimeType: string }>(media: T, path: string): T {
  if (!isTextType(media.mimeType)) return media;
  const bytes = Buffer.from(media.base64, "base64");
  if (isUtf8(bytes) && !bytes.includes(0) && isNoCharset(media.charset)) return media;
  const text = declaredAsUtf8(textOfBytes(bytes, media.charset, path));
  const { charset: _, ...others } = media;
  return { ...others, base64: Buffer.from(text).toString("base64") } as T;
}

const isNoCharset = (charset: string | undefined) => charset === undefined || /^utf-?8$/i.test(charset);

function textOfBytes(bytes: Buffer, charset: string | undefined, path: string): string {
  try {
    return readableText(bytes, charset);
  } catch (error) {
    if (error instanceof UnreadableText) throw ApiError.invalidValue(path, `${path} ${error.message}.`);
    throw error;
  }
}
