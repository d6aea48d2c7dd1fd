/** Reads and writes the chunks of PNG images, and the text in them. Source: https://www.w3.org/TR/png-3/ */
import { deflateSync, inflateSync } from "node:zlib";

export class PngError extends Error {
  override readonly name = "PngError";
}

export type PngChunk = {
  readonly type: string;
  readonly data: Uint8Array;
  /** Of its length field, from the start of the file. */
  readonly offset: number;
};

const signature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
const headerLength = 13;
const maxChunks = 100_000;

export const isPng = (bytes: Uint8Array): boolean => signature.every((byte, at) => bytes[at] === byte);

/**
 * @returns the chunks up to IEND; bytes behind it are no part of the image
 * @throws PngError where a chunk is cut off, or does not match its checksum
 */
export function readChunks(bytes: Uint8Array): PngChunk[] {
  if (!isPng(bytes)) throw new PngError("it does not begin as a PNG does");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const chunks: PngChunk[] = [];
  let at = signature.length;
  for (;;) {
    if (at + 12 > bytes.length) throw new PngError(`it ends at byte ${at} without IEND`);
    const length = view.getUint32(at);
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (!/^[A-Za-z]{4}$/.test(type)) throw new PngError(`byte ${at + 4}: this is no name of a chunk`);
    const place = `byte ${at} (${type})`;
    if (length > bytes.length - at - 12) throw new PngError(`${place}: it declares ${length} bytes, beyond the end`);
    const data = bytes.subarray(at + 8, at + 8 + length);
    if (Bun.hash.crc32(bytes.subarray(at + 4, at + 8 + length)) !== view.getUint32(at + 8 + length)) {
      throw new PngError(`${place}: it does not match its checksum`);
    }
    if (chunks.length === 0 && (type !== "IHDR" || length !== headerLength)) {
      throw new PngError(`${place}: the first chunk must be IHDR`);
    }
    if (chunks.length === maxChunks) throw new PngError(`it has more than ${maxChunks} chunks`);
    chunks.push({ type, data, offset: at });
    if (type === "IEND") return chunks;
    at += 12 + length;
  }
}

export function writeChunks(chunks: readonly Pick<PngChunk, "type" | "data">[]): Uint8Array {
  const parts: Uint8Array[] = [signature];
  for (const { type, data } of chunks) {
    const part = new Uint8Array(12 + data.length);
    const view = new DataView(part.buffer);
    view.setUint32(0, data.length);
    part.set(Buffer.from(type, "latin1"), 4);
    part.set(data, 8);
    view.setUint32(8 + data.length, Number(Bun.hash.crc32(part.subarray(4, 8 + data.length))));
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** @param text of Latin-1 characters */
export const textChunk = (keyword: string, text: string): Pick<PngChunk, "type" | "data"> => ({
  type: "tEXt",
  data: Buffer.from(`${keyword}\0${text}`, "latin1"),
});

/** @returns the keyword of a text chunk; undefined for other chunks */
export function keywordOf({ type, data }: PngChunk): string | undefined {
  if (type !== "tEXt" && type !== "iTXt" && type !== "zTXt") return undefined;
  const end = data.subarray(0, 80).indexOf(0);
  return end < 0 ? undefined : latin1(data.subarray(0, end));
}

const latin1 = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");

/**
 * @param chunk one that has a keyword
 * @param maxBytes of the text, unpacked
 * @throws PngError where it is larger or damaged
 */
export function chunkTextOf(chunk: PngChunk, maxBytes: number): string {
  const { type, data, offset } = chunk;
  const place = `byte ${offset} (${type})`;
  const rest = data.subarray(keywordOf(chunk)!.length + 1);
  if (type === "tEXt") return latin1(bounded(rest, maxBytes, place));
  if (type === "zTXt") return latin1(unpack(rest.subarray(1), maxBytes, place));
  const language = rest.subarray(2);
  const translated = language.subarray(language.indexOf(0) + 1);
  const text = translated.subarray(translated.indexOf(0) + 1);
  try {
    return utf8.decode(rest[0] === 1 ? unpack(text, maxBytes, place) : bounded(text, maxBytes, place));
  } catch (error) {
    throw error instanceof PngError ? error : new PngError(`${place}: its text is not UTF-8`);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function bounded(bytes: Uint8Array, maxBytes: number, place: string): Uint8Array {
  if (bytes.length > maxBytes) throw new PngError(`${place}: its text is larger than ${maxBytes} bytes`);
  return bytes;
}

function unpack(bytes: Uint8Array, maxBytes: number, place: string): Uint8Array {
  try {
    return inflateSync(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    const isLarger = (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE";
    throw new PngError(`${place}: its text is ${isLarger ? `larger than ${maxBytes} bytes` : "damaged"}`);
  }
}

/** An image of one colour, 8 bits for each of red, green and blue. */
export function plainImage(width: number, height: number, colour: readonly [number, number, number]): Uint8Array {
  const header = new DataView(new ArrayBuffer(headerLength));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, 8);
  header.setUint8(9, 2);
  const row = Buffer.concat([Uint8Array.of(0), ...Array.from({ length: width }, () => Uint8Array.from(colour))]);
  const pixels = Buffer.concat(Array.from({ length: height }, () => row));
  return writeChunks([
    { type: "IHDR", data: new Uint8Array(header.buffer) },
    { type: "IDAT", data: deflateSync(pixels) },
    { type: "IEND", data: new Uint8Array() },
  ]);
}
