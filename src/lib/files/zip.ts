/**
 * Reads zip archives that are in memory, each entry bounded by the size it declares and by the caller's own bound, and held
 * against its checksum. Names that lead out of the archive are refused. Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
 */
import { inflateRawSync } from "node:zlib";

export class ZipError extends Error {
  override readonly name = "ZipError";
}

type ZipEntry = {
  readonly name: string;
  /** Bytes, as declared. */
  readonly size: number;
};

type Place = ZipEntry & {
  readonly packedSize: number;
  readonly method: number;
  readonly checksum: number;
  /** Of its local header, from the start of the file. */
  readonly offset: number;
};

const endSignature = 0x06054b50;
const entrySignature = 0x02014b50;
const localSignature = 0x04034b50;
/** ZIP64's: its end record, which is 56 bytes at least, and the locator that stands between that and the usual end. */
const wideEndSignature = 0x06064b50;
const wideLocatorSignature = 0x07064b50;
const wideEndLength = 56;
const wideLocatorLength = 20;
/** Of the extra field in which an entry's wide numbers stand. */
const wideField = 1;
/** A number that stands elsewhere, in 64 bits. */
const elsewhere = 0xffffffff;
const endLength = 22;
const maxComment = 0xffff;
const maxEntries = 10_000;
const stored = 0;
const deflated = 8;

export class ZipArchive {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #places = new Map<string, Place>();

  /** @throws ZipError for what is no archive, or one that is not read here: encrypted, split, or damaged */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#readDirectory();
  }

  /** The files, in the order of the directory; folders have no entries here. */
  get entries(): readonly ZipEntry[] {
    return [...this.#places.values()];
  }

  /** @param maxBytes of the unpacked entry @throws ZipError where it is larger, damaged, or absent */
  read(name: string, maxBytes: number): Uint8Array {
    const place = this.#places.get(name);
    if (place === undefined) throw new ZipError(`${name} is not in it`);
    if (place.size > maxBytes) throw new ZipError(`${name} is larger than ${maxBytes} bytes`);
    const content = this.#unpack(place);
    if (content.length !== place.size) throw new ZipError(`${name} does not have the size that it declares`);
    if (Bun.hash.crc32(content) !== place.checksum) throw new ZipError(`${name} does not match its checksum`);
    return content;
  }

  #unpack({ name, size, packedSize, method, offset }: Place): Uint8Array {
    if (offset + 30 > this.#bytes.length || this.#view.getUint32(offset, true) !== localSignature) {
      throw new ZipError(`${name} has no header where the directory says`);
    }
    const start = offset + 30 + this.#view.getUint16(offset + 26, true) + this.#view.getUint16(offset + 28, true);
    const packed = this.#bytes.subarray(start, start + packedSize);
    if (packed.length !== packedSize) throw new ZipError(`${name} is cut off`);
    if (method === stored) return packed;
    if (method !== deflated) throw new ZipError(`${name} is packed by a method that is not read here (${method})`);
    try {
      return inflateRawSync(packed, { maxOutputLength: Math.max(1, size) });
    } catch (error) {
      const isLarger = (error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE";
      throw new ZipError(isLarger ? `${name} is larger than it declares` : `${name} is damaged`);
    }
  }

  #readDirectory(): void {
    const usual = this.#findEnd();
    if (this.#view.getUint16(usual + 4, true) !== 0) throw new ZipError("it is one part of several");
    const { end, count, length, declared } = this.#directoryAt(usual);
    if (count > maxEntries) throw new ZipError(`it has more than ${maxEntries} entries`);
    // A picture may stand before the archive: then all offsets are short by its length.
    const before = end - length - declared;
    let at = end - length;
    if (before < 0) throw new ZipError("its directory is damaged");
    for (let left = count; left > 0; left--) at = this.#readEntry(at, end, before);
  }

  /** Where the directory ends, and what its end record says of it: ZIP64's, where the usual one has not the room. */
  #directoryAt(end: number) {
    const count = this.#view.getUint16(end + 10, true);
    const length = this.#view.getUint32(end + 12, true);
    const declared = this.#view.getUint32(end + 16, true);
    if (count !== 0xffff && length !== elsewhere && declared !== elsewhere) return { end, count, length, declared };
    const wide = end - wideLocatorLength - wideEndLength;
    const isThere =
      wide >= 0 &&
      this.#view.getUint32(end - wideLocatorLength, true) === wideLocatorSignature &&
      this.#view.getUint32(wide, true) === wideEndSignature;
    if (!isThere) throw new ZipError("its directory is damaged");
    return { end: wide, count: this.#wide(wide + 32), length: this.#wide(wide + 40), declared: this.#wide(wide + 48) };
  }

  /** A number of 64 bits; one that no file in memory can have is as large as any. */
  #wide(at: number): number {
    return Number(this.#view.getBigUint64(at, true));
  }

  /**
   * The numbers of an entry that did not fit into 32 bits, in the order in which they stand in its extra field.
   * @param usual size, packed size and offset as the entry itself has them
   */
  #wideNumbers(at: number, length: number, usual: readonly number[]): readonly number[] {
    if (!usual.includes(elsewhere)) return usual;
    for (let field = at; field + 4 <= at + length; field += 4 + this.#view.getUint16(field + 2, true)) {
      if (this.#view.getUint16(field, true) !== wideField) continue;
      let next = field + 4;
      const fieldEnd = Math.min(at + length, next + this.#view.getUint16(field + 2, true));
      return usual.map((number) => {
        if (number !== elsewhere) return number;
        next += 8;
        if (next > fieldEnd) throw new ZipError("its directory is damaged");
        return this.#wide(next - 8);
      });
    }
    throw new ZipError("its directory is damaged");
  }

  /** The end record is the last one whose comment reaches the end of the file. */
  #findEnd(): number {
    const last = this.#bytes.length - endLength;
    for (let at = last; at >= Math.max(0, last - maxComment); at--) {
      if (this.#view.getUint32(at, true) !== endSignature) continue;
      if (at + endLength + this.#view.getUint16(at + 20, true) === this.#bytes.length) return at;
    }
    throw new ZipError("it has no directory: it is no zip archive, or cut off");
  }

  /** @returns where the next entry begins */
  #readEntry(at: number, end: number, before: number): number {
    if (at + 46 > end || this.#view.getUint32(at, true) !== entrySignature)
      throw new ZipError("its directory is damaged");
    const nameLength = this.#view.getUint16(at + 28, true);
    const next = at + 46 + nameLength + this.#view.getUint16(at + 30, true) + this.#view.getUint16(at + 32, true);
    if (next > end) throw new ZipError("its directory is damaged");
    const name = nameOf(this.#bytes.subarray(at + 46, at + 46 + nameLength));
    if (name.endsWith("/")) return next;
    if ((this.#view.getUint16(at + 8, true) & 1) !== 0) throw new ZipError(`${name} is encrypted`);
    if (this.#places.has(name)) throw new ZipError(`${name} is in it twice`);
    const usual = [at + 24, at + 20, at + 42].map((place) => this.#view.getUint32(place, true));
    const extra = this.#view.getUint16(at + 30, true);
    const [size = 0, packedSize = 0, offset = 0] = this.#wideNumbers(at + 46 + nameLength, extra, usual);
    this.#places.set(name, {
      name,
      method: this.#view.getUint16(at + 10, true),
      checksum: this.#view.getUint32(at + 16, true),
      packedSize,
      size,
      offset: offset + before,
    });
    return next;
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function nameOf(bytes: Uint8Array): string {
  let name: string;
  try {
    name = utf8.decode(bytes);
  } catch {
    throw new ZipError("it has an entry whose name is not UTF-8");
  }
  const escapes = /^[/\\]|^[A-Za-z]:|\\/.test(name) || name.split("/").includes("..");
  if (name === "" || escapes || /[\u0000-\u001f\u007f]/.test(name)) {
    throw new ZipError(`it has an entry whose name leads elsewhere: ${JSON.stringify(name)}`);
  }
  return name;
}
