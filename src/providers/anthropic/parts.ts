/** Parts of a message as blocks: texts, images, documents. */
import type {
  CacheControlEphemeral,
  DocumentBlockParam,
  ImageBlockParam,
  TextBlockParam,
} from "@anthropic-ai/sdk/resources/messages";
import { typeOfFile } from "../../lib/files/media-types.ts";
import { parseDataUrl } from "../../lib/http/data-url.ts";
import { type JsonObject, objectOf } from "../../lib/json/json.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { FilePart, UserPart } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { textOfFile } from "../../protocols/inline-text.ts";
import type { InlineMedia } from "../provider.ts";

export type ContentBlock = TextBlockParam | ImageBlockParam | DocumentBlockParam;
/** @param path where the part stands in the request, for errors */
export type PartBlocks = (part: UserPart, path: string) => ContentBlock[];

/** https://platform.claude.com/docs/en/build-with-claude/vision */
const imageTypes = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const textTypes = /^(text\/|application\/(json|xml|yaml|javascript|x-ndjson)$|application\/.*\+(json|xml)$)/;
/** The prompt-cache marker that callers put on parts, tools and messages, in the upstream's own form. */
export function cacheMarker(carrier: object): { cache_control?: CacheControlEphemeral } {
  const marker = objectOf((carrier as JsonObject)["cache_control"]);
  return marker?.["type"] === "ephemeral" ? { cache_control: marker as unknown as CacheControlEphemeral } : {};
}

/** A text that is nothing but space has no block: the upstream refuses those. */
export function textBlocks(text: string, carrier: object = {}): TextBlockParam[] {
  return text.trim() === "" ? [] : [{ type: "text", text, ...cacheMarker(carrier) }];
}

/**
 * @param path where the part stands in the request, for errors
 * @throws ApiError unsupported_parameter or invalid_value
 */
export function partBlocks(part: UserPart, path: string): ContentBlock[] {
  switch (part.type) {
    case "text":
      return textBlocks(part.text, part);
    case "image_url":
      return [
        { ...linkedBlock(part.image_url.url, undefined, `${path}.image_url.url`, "image"), ...cacheMarker(part) },
      ];
    case "file":
      return [{ ...fileBlock(part.file, path), ...cacheMarker(part) }];
    case "input_audio":
      throw ApiError.unsupported(path, `${path}: audio input is not supported by this provider.`);
  }
}

function fileBlock(file: FilePart["file"], path: string): ImageBlockParam | DocumentBlockParam {
  const title = file.filename || undefined;
  if (file.file_data != null) {
    const at = `${path}.file.file_data`;
    if (/^(data|https?):/i.test(file.file_data)) return linkedBlock(file.file_data, title, at, "document");
    return inlineBlock({ mimeType: typeOfFile(title, file.file_data), base64: file.file_data }, title, at);
  }
  if (file.file_id == null) {
    throw ApiError.invalidValue(`${path}.file`, `${path}.file needs a file_id or file_data.`);
  }
  return { type: "document", source: { type: "file", file_id: file.file_id }, ...(title !== undefined && { title }) };
}

/** @param kind of a web address, which nothing else shows */
function linkedBlock(
  url: string,
  title: string | undefined,
  path: string,
  kind: "image" | "document",
): ImageBlockParam | DocumentBlockParam {
  if (/^https?:\/\//i.test(url)) {
    const source = { type: "url" as const, url };
    return kind === "image" ? { type: kind, source } : { type: kind, source, ...(title !== undefined && { title }) };
  }
  const inline = parseDataUrl(url);
  if (inline === undefined) throw ApiError.invalidValue(path, `${path} must be an http(s) URL or a data URL.`);
  return inlineBlock(inline, title, path);
}

function inlineBlock(
  media: InlineMedia,
  title: string | undefined,
  path: string,
): ImageBlockParam | DocumentBlockParam {
  const { mimeType, base64: data } = media;
  if (imageTypes.has(mimeType)) {
    return { type: "image", source: { type: "base64", media_type: mimeType as "image/png", data } };
  }
  const titled = title === undefined ? {} : { title };
  if (mimeType === "application/pdf") {
    return { type: "document", source: { type: "base64", media_type: mimeType, data }, ...titled };
  }
  if (textTypes.test(mimeType)) {
    // The text itself, not its base64: https://platform.claude.com/docs/en/build-with-claude/citations#plain-text-documents
    const text = textOfFile(media, path);
    return { type: "document", source: { type: "text", media_type: "text/plain", data: text }, ...titled };
  }
  throw ApiError.unsupported(
    path,
    `${path}: '${truncate(mimeType)}' is not supported by this provider; it takes JPEG, PNG, GIF, WebP, PDF and text.`,
  );
}
