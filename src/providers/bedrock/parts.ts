/**
 * Images, documents, videos and sounds of a message as blocks of Converse: bytes inline, or where they lie in S3.
 * Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
 */
import type { ContentBlock } from "@aws-sdk/client-bedrock-runtime";
import { typeByName, typeOfFile } from "../../lib/files/media-types.ts";
import { parseDataUrl } from "../../lib/http/data-url.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { FilePart, Message, UserPart } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { fileInUtf8 } from "../../protocols/inline-text.ts";
import { cacheMarker, type PartBlocks, textBlocks } from "../anthropic/parts.ts";
import type { Call, InlineMedia, RemoteMedia } from "../provider.ts";

/** A block of this format among those of the Messages API. */
export type OwnBlock = { readonly type: "converse"; readonly block: ContentBlock };

type Kind = "image" | "document" | "video" | "audio";
type Placed = { readonly url: string; readonly mimeType: string | undefined; readonly param: string; name?: string };

/** By media type: the kind of block, and its `format`. */
const formats: Readonly<Record<string, readonly [Kind, string]>> = {
  "image/png": ["image", "png"],
  "image/jpeg": ["image", "jpeg"],
  "image/gif": ["image", "gif"],
  "image/webp": ["image", "webp"],
  "application/pdf": ["document", "pdf"],
  "text/csv": ["document", "csv"],
  "application/msword": ["document", "doc"],
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ["document", "docx"],
  "application/vnd.ms-excel": ["document", "xls"],
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ["document", "xlsx"],
  "text/html": ["document", "html"],
  "text/markdown": ["document", "md"],
  "application/json": ["document", "txt"],
  "application/xml": ["document", "txt"],
  "video/mp4": ["video", "mp4"],
  "video/quicktime": ["video", "mov"],
  "video/webm": ["video", "webm"],
  "video/x-matroska": ["video", "mkv"],
  "video/mpeg": ["video", "mpeg"],
  "video/x-flv": ["video", "flv"],
  "video/x-ms-wmv": ["video", "wmv"],
  "video/3gpp": ["video", "three_gp"],
};

const office = "application/vnd.openxmlformats-officedocument";
/** Beside those that every provider knows. */
const typesByExtension: Readonly<Record<string, string>> = {
  ...{ doc: "application/msword", docx: `${office}.wordprocessingml.document` },
  ...{ xls: "application/vnd.ms-excel", xlsx: `${office}.spreadsheetml.sheet` },
  ...{ mkv: "video/x-matroska", mpeg: "video/mpeg", mpg: "video/mpeg", flv: "video/x-flv", wmv: "video/x-ms-wmv" },
  "3gp": "video/3gpp",
};

const typeOf = (name: string): string | undefined =>
  typeByName(name) ?? ownMember(typesByExtension, /\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? "");

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_AudioBlock.html */
const audioFormats = new Set("aac flac m4a mka mkv mp3 mp4 mpeg mpga ogg opus pcm wav webm x-aac".split(" "));

/** URLs of the web have to be fetched: Converse takes bytes, and objects of S3. */
export function remoteMedia({ request }: Call): RemoteMedia[] {
  return request.messages.flatMap((message, at) =>
    mediaIn(message, `messages[${at}]`).flatMap(({ url, param }) => (/^https?:/i.test(url) ? [{ url, param }] : [])),
  );
}

function mediaIn({ role, content }: Message, path: string): Placed[] {
  if ((role !== "user" && role !== "tool") || typeof content === "string") return [];
  return content.flatMap((part, at) => placeOf(part, `${path}.content[${at}]`) ?? []);
}

function placeOf(part: UserPart, path: string): Placed | undefined {
  if (part.type === "image_url")
    return { url: part.image_url.url, mimeType: undefined, param: `${path}.image_url.url` };
  return part.type === "file" ? filePlace(part.file, `${path}.file`) : undefined;
}

function filePlace({ file_data, file_id, filename }: FilePart["file"], path: string): Placed {
  const name = filename || undefined;
  const mimeType = typeOf(name ?? "");
  const named = name === undefined ? {} : { name };
  if (file_data != null) {
    const isUrl = /^[a-z][a-z0-9+.-]*:/i.test(file_data);
    const url = isUrl ? file_data : `data:${mimeType ?? typeOfFile(name, file_data)};base64,${file_data}`;
    return { url, mimeType, param: `${path}.file_data`, ...named };
  }
  if (file_id == null) throw ApiError.missingField(`${path}.file_data`);
  if (/^(?:s3|https?):\/\//i.test(file_id)) return { url: file_id, mimeType, param: `${path}.file_id`, ...named };
  throw ApiError.unsupported(
    `${path}.file_id`,
    `${path}.file_id must be an s3:// or http(s) URL; uploads to other providers can't be read.`,
  );
}

/** @returns the reader of one call's parts: documents have names, each once in a request */
export function partsOf({ media }: Call): PartBlocks {
  const names = new Set<string>();
  return (part, path) => {
    if (part.type === "text") return textBlocks(part.text, part);
    const block = part.type === "input_audio" ? audioBlock(part.input_audio, path) : mediaBlock(part, path);
    const own: OwnBlock = { type: "converse", block };
    return [{ ...own, ...cacheMarker(part) }] as unknown as ReturnType<PartBlocks>;
  };

  function mediaBlock(part: Exclude<UserPart, { type: "text" | "input_audio" }>, path: string): ContentBlock {
    const place = placeOf(part, path)!;
    const { url, param } = place;
    const isObject = /^s3:\/\//i.test(url);
    const found = isObject ? undefined : inlineOf(place, media);
    const mimeType = found?.mimeType ?? place.mimeType ?? typeOf(url) ?? "";
    const [kind, format] = formatOf(mimeType, param);
    const source = found === undefined ? { s3Location: { uri: url } } : { bytes: found.base64 };
    const name = kind === "document" ? { name: documentName(place.name, names) } : {};
    return { [kind]: { format, ...name, source } } as unknown as ContentBlock;
  }
}

function inlineOf({ url, param }: Placed, media: ReadonlyMap<string, InlineMedia>): InlineMedia {
  if (/^https?:/i.test(url)) {
    const fetched = media.get(url);
    if (fetched === undefined) throw ApiError.invalidValue(param, `The URL at ${param} was not fetched.`);
    return fetched;
  }
  const inline = parseDataUrl(url);
  if (inline === undefined) throw ApiError.invalidValue(param, `${param} must be an http(s), s3 or data URL.`);
  return fileInUtf8(inline, param);
}

function formatOf(mimeType: string, param: string): readonly [Kind, string] {
  const known =
    ownMember(formats, mimeType) ?? (mimeType.startsWith("text/") ? (["document", "txt"] as const) : undefined);
  if (known !== undefined) return known;
  throw ApiError.unsupported(
    param,
    `${param}: '${truncate(mimeType)}' is not supported by this provider; it takes JPEG, PNG, GIF, WebP, PDF, Office documents, text and video.`,
  );
}

function audioBlock({ data, format }: { data: string; format: string }, path: string): ContentBlock {
  const inline = parseDataUrl(data);
  const name = (format.includes("/") ? format.slice(format.indexOf("/") + 1) : format).toLowerCase();
  const param = `${path}.input_audio.format`;
  if (!audioFormats.has(name))
    throw ApiError.unsupported(param, `${param}: '${truncate(format)}' is not supported by this provider.`);
  return { audio: { format: name, source: { bytes: inline?.base64 ?? data } } } as unknown as ContentBlock;
}

/**
 * Letters, digits, single spaces, hyphens, parentheses and brackets alone, at most 200:
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html
 */
function documentName(filename: string | undefined, names: Set<string>): string {
  const clean = (filename ?? "")
    .replace(/\.\w+$/, "")
    .replace(/[^a-zA-Z0-9\s()[\]-]+/g, "-")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 190);
  const base = /[a-zA-Z0-9]/.test(clean) ? clean : "document";
  let name = base;
  for (let count = 2; names.has(name); count += 1) name = `${base} ${count}`;
  names.add(name);
  return name;
}
