/** Character cards of V1, V2 and V3: JSON, in the text of a PNG image, or in a charx archive. */

import {
  isPng,
  keywordOf,
  type PngChunk,
  PngError,
  readChunks,
  chunkTextOf as textOfChunk,
  writeChunks,
} from "../../../../lib/files/png.ts";
import { ZipArchive, ZipError } from "../../../../lib/files/zip.ts";
import { isObject, type JsonObject, listOf, textOf } from "../../../../lib/json/json.ts";
import type { Imported, Omission } from "../draft.ts";
import type { Importer } from "../importer.ts";
import { decodeText, ImportError, type ImportedFile, maxTextBytes, parseJsonText } from "../source.ts";
import { dataOf, draftOfCard, isCard } from "./draft.ts";

/** The names of text in an image: the later one wins. */
export const keywords = ["chara", "ccv3"] as const;
const assetPrefix = "chara-ext-asset_";
/** Of a picture in an archive. */
const maxPictureBytes = 32 * 1024 * 1024;
const cardFile = "card.json";

export const characterCard: Importer = {
  format: "card",
  title: "Character Card V1, V2, V3 (JSON, PNG, charx)",
  detects(source) {
    if (isPng(source.bytes)) return true;
    if (isArchive(source)) return true;
    return source.looksLikeJson && isCard(source.json);
  },
  read(source) {
    if (isPng(source.bytes)) return [readImage(source.bytes)];
    if (isArchive(source)) return [readArchive(source.bytes)];
    return [withPicture(cardOf(source.json, ""))];
  },
};

/** A zip archive; one behind a JPEG picture is a common disguise, as sites take pictures only. */
function isArchive({ bytes, name }: ImportedFile): boolean {
  const begins = (...start: number[]) => start.every((byte, at) => bytes[at] === byte);
  return begins(0x50, 0x4b, 3, 4) || (begins(0xff, 0xd8, 0xff) && /\.(?:charx|jpe?g)$/i.test(name));
}

function cardOf(value: unknown, place: string): JsonObject {
  if (isCard(value)) return value;
  throw new ImportError(place, "is no character card: it has neither spec and data, nor the fields of V1");
}

function readImage(bytes: Uint8Array): Imported {
  const chunks = orRefused(() => readChunks(bytes));
  const found = keywords.flatMap((keyword) => chunks.findLast((chunk) => keywordOf(chunk) === keyword) ?? []);
  const chunk = found.at(-1);
  if (chunk === undefined)
    throw new ImportError("", "is an image without a card: it has no text named 'chara' or 'ccv3'");
  const place = `byte ${chunk.offset} (${chunk.type})`;
  const text = orRefused(() => textOfChunk(chunk, maxTextBytes * 2));
  const card = cardOf(parseJsonText(decodeText(fromBase64(text, place), place), place), place);
  // The image is the icon, whatever the card names.
  const imported = withPicture(card, (uri) => /^__asset:/.test(uri));
  const isOwn = (chunk: PngChunk) => {
    const keyword = keywordOf(chunk) ?? "";
    return (keywords as readonly string[]).includes(keyword) || keyword.startsWith(assetPrefix);
  };
  const assets = chunks.filter((chunk) => keywordOf(chunk)?.startsWith(assetPrefix));
  const omitted = assets.map((chunk) => ({
    place: `byte ${chunk.offset} (${chunk.type})`,
    message: "is an asset, which has no place in a persona",
  }));
  const last = chunks.at(-1)!;
  const rest = bytes.length - (last.offset + 12);
  if (rest > 0) omitted.push({ place: `byte ${last.offset + 12}`, message: `has ${rest} bytes behind the image` });
  const picture = { extension: "png", bytes: writeChunks(chunks.filter((chunk) => !isOwn(chunk))) };
  return { ...imported, avatar: picture, omitted: [...imported.omitted, ...omitted] };
}

function orRefused<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof PngError || error instanceof ZipError) throw new ImportError("", error.message);
    throw error;
  }
}

function fromBase64(text: string, place: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(text.trim());
  } catch {
    throw new ImportError(place, "is not base64");
  }
}

/** The specification's own spelling, the usual one, and RisuAI's. */
const pathInArchive = /^(?:embedd?ed:\/\/|__asset:)(.+)$/;

function readArchive(bytes: Uint8Array): Imported {
  const archive = orRefused(() => new ZipArchive(bytes));
  if (!archive.entries.some(({ name }) => name === cardFile)) {
    throw new ImportError("", `is an archive without ${cardFile}: it is no charx file`);
  }
  const text = decodeText(
    orRefused(() => archive.read(cardFile, maxTextBytes)),
    cardFile,
  );
  const card = cardOf(parseJsonText(text, cardFile), cardFile);
  const icon = iconOf(card);
  const path = pathInArchive.exec(icon?.uri ?? "")?.[1];
  const has = (wanted: string) => archive.entries.some(({ name }) => name === wanted);
  const imported = withPicture(card, () => path !== undefined && has(path));
  const taken = path !== undefined && has(path) ? path : undefined;
  const extension = taken === undefined ? undefined : extensionOf(taken);
  const omitted: Omission[] = archive.entries
    .filter(({ name }) => name !== cardFile && (extension === undefined || name !== taken))
    .map(({ name, size }) => ({ place: name, message: `is a file of ${size} bytes, which has no place in a persona` }));
  return {
    ...imported,
    ...(extension !== undefined && {
      avatar: { extension, bytes: orRefused(() => archive.read(taken!, maxPictureBytes)) },
    }),
    omitted: [...imported.omitted, ...omitted],
  };
}

const extensionOf = (path: string): string | undefined =>
  /\.(png|jpe?g|webp|gif|avif)$/i.exec(path)?.[1]?.toLowerCase();

type Asset = { readonly type: string; readonly uri: string; readonly name: string };

/** The main icon is the one of that name, else the first. */
function iconOf(card: JsonObject): Asset | undefined {
  const icons = listOf(dataOf(card).data["assets"])
    .filter(isObject)
    .map((asset) => ({
      type: textOf(asset["type"]) ?? "",
      uri: textOf(asset["uri"]) ?? "",
      name: textOf(asset["name"]) ?? "",
    }))
    .filter(({ type }) => type === "icon");
  return icons.find(({ name }) => name === "main") ?? icons[0];
}

/**
 * @param isHere whether the file that holds the card holds what the icon names, too. Default: the picture is the file itself, or none is
 * @returns the draft, with the picture that the card's icon names by an address or holds in one
 */
function withPicture(card: JsonObject, isHere: (uri: string) => boolean = () => false): Imported {
  const imported = draftOfCard(card);
  const uri = iconOf(card)?.uri ?? "";
  if (/^https:\/\/\S{1,2000}$/.test(uri)) return { ...imported, draft: { ...imported.draft, avatar: uri } };
  const [, kind, data] = /^data:image\/(png|jpeg|webp|gif|avif);base64,([A-Za-z0-9+/=]+)$/.exec(uri) ?? [];
  if (kind === undefined) {
    if (uri === "" || /^ccdefault:/.test(uri) || isHere(uri)) return imported;
    const message = `names a picture that is not in the file: ${uri.slice(0, 80)}`;
    return { ...imported, omitted: [...imported.omitted, { place: "data.assets", message }] };
  }
  return { ...imported, avatar: { extension: kind === "jpeg" ? "jpg" : kind, bytes: fromBase64(data!, "assets") } };
}
