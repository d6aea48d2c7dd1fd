/**
 * Images, audio and files of a message as parts: bytes inline, or the URI of what Google itself can read.
 * Source: https://ai.google.dev/gemini-api/docs/file-input-methods
 */
import type { Part } from "@google/genai";
import { typeByName, typeOfFile } from "../../lib/files/media-types.ts";
import { parseDataUrl } from "../../lib/http/data-url.ts";
import { type JsonObject, textOf } from "../../lib/json/json.ts";
import type { AudioPart, FilePart, ImagePart, Message } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { googleUri } from "../../protocols/generate-content/media.ts";
import { fileInUtf8 } from "../../protocols/inline-text.ts";
import type { Call, InlineMedia, RemoteMedia } from "../provider.ts";

type MediaPart = ImagePart | AudioPart | FilePart;

/** The place of the bytes: here, where Google finds them, or at a URL that must be fetched before. */
type Source =
  | { kind: "inline"; media: InlineMedia }
  | { kind: "uri"; uri: string; mimeType: string | undefined }
  | { kind: "remote"; url: string };
type Located = { source: Source; param: string };

const filesApi = "https://generativelanguage.googleapis.com/v1beta/";

/** URLs that Google can't be relied on to read by itself. */
export function remoteMedia({ request }: Call): RemoteMedia[] {
  return request.messages.flatMap((message, at) =>
    mediaParts(message, `messages[${at}]`).flatMap(({ part, path }) => {
      const { source, param } = locate(part, path);
      return source.kind === "remote" ? [{ url: source.url, param }] : [];
    }),
  );
}

function mediaParts({ role, content }: Message, path: string): { part: MediaPart; path: string }[] {
  if ((role !== "user" && role !== "tool") || typeof content === "string") return [];
  return content.flatMap((part, at) => (part.type === "text" ? [] : [{ part, path: `${path}.content[${at}]` }]));
}

/**
 * @param path where the part stands in the request, for errors
 * @throws ApiError invalid_value or unsupported_parameter
 */
export function mediaPart(part: MediaPart, path: string, fetched: ReadonlyMap<string, InlineMedia>): Part {
  const { source, param } = locate(part, path);
  switch (source.kind) {
    case "inline":
      return inline(fileInUtf8(source.media, param));
    case "uri":
      return {
        fileData: { fileUri: source.uri, ...(source.mimeType !== undefined && { mimeType: source.mimeType }) },
      };
    case "remote": {
      const media = fetched.get(source.url);
      if (media === undefined) throw ApiError.invalidValue(param, `The URL at ${param} was not fetched.`);
      return inline(media);
    }
  }
}

function inline({ mimeType, base64 }: InlineMedia): Part {
  return { inlineData: { mimeType, data: base64 } };
}

function locate(part: MediaPart, path: string): Located {
  switch (part.type) {
    case "image_url":
      return locateUrl(part.image_url.url, declaredType(part.image_url), `${path}.image_url.url`);
    case "input_audio": {
      const { data, format } = part.input_audio;
      const mimeType = format.includes("/") ? format : `audio/${format.toLowerCase()}`;
      const media = parseDataUrl(data) ?? { mimeType, base64: data };
      return { source: { kind: "inline", media }, param: `${path}.input_audio.data` };
    }
    case "file":
      return locateFile(part.file, `${path}.file`);
  }
}

function locateFile(file: FilePart["file"], path: string): Located {
  const { file_data, file_id, filename } = file;
  const mimeType = declaredType(file) ?? typeByName(filename ?? "");
  if (file_data != null) {
    const param = `${path}.file_data`;
    if (/^[a-z][a-z0-9+.-]*:/i.test(file_data)) return locateUrl(file_data, mimeType, param);
    return {
      source: {
        kind: "inline",
        media: { mimeType: mimeType ?? typeOfFile(filename ?? undefined, file_data), base64: file_data },
      },
      param,
    };
  }
  if (file_id == null) throw ApiError.missingField(`${path}.file_data`);
  if (file_id.startsWith("files/")) {
    return { source: { kind: "uri", uri: filesApi + file_id, mimeType }, param: `${path}.file_id` };
  }
  if (file_id.includes("://")) return locateUrl(file_id, mimeType, `${path}.file_id`);
  throw ApiError.unsupported(
    `${path}.file_id`,
    `${path}.file_id must be 'files/…' or a URI of the Gemini Files API; uploads to other providers can't be read.`,
  );
}

function locateUrl(url: string, mimeType: string | undefined, param: string): Located {
  if (googleUri.test(url)) return { source: { kind: "uri", uri: url, mimeType: mimeType ?? typeByName(url) }, param };
  if (/^https?:/i.test(url)) return { source: { kind: "remote", url }, param };
  const media = parseDataUrl(url);
  if (media === undefined) throw ApiError.invalidValue(param, `${param} must be an http(s) URL or a data URL.`);
  return { source: { kind: "inline", media }, param };
}

/** Reads the type that some clients give beside a URL without one. */
function declaredType(carrier: object): string | undefined {
  const format = textOf((carrier as JsonObject)["format"]);
  return format?.includes("/") ? format : undefined;
}
