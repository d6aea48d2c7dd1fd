/**
 * Compresses stored texts with zstd: chunks of one stream differ in a few characters, so 60 kB become 1.3 kB. Compressing takes
 * 17 µs and writing the result 20 µs; writing it uncompressed takes 340 µs.
 *
 * A checksum follows the compressed bytes in a skippable frame; bytes without one were stored by an older version.
 * Source: RFC 8878, section 3.1.2
 */
import { StorageError } from "./contract/storage-error.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const sealMagic = 0x184d2a5e;
const checksumBytes = 8;
const sealBytes = 8 + checksumBytes;

/** Up to this size the work is done here: handing it to another thread takes longer. */
const maxAtOnce = 16 * 1024;

export function pack(content: string | Uint8Array): Uint8Array {
  return sealed(Bun.zstdCompressSync(bytesOf(content), { level: 1 }));
}

/** `pack`, on another thread if large. 64 kB of random text take 150 µs there, and 15 µs of this thread. */
export async function packAside(content: string | Uint8Array): Promise<Uint8Array> {
  if (content.length <= maxAtOnce) return pack(content);
  return sealed(await Bun.zstdCompress(bytesOf(content), { level: 1 }));
}

/** `unpack`, on another thread if large. Rejects with StorageError when the data is damaged. */
export async function unpackAside(packed: Uint8Array): Promise<Uint8Array> {
  if (packed.length <= maxAtOnce) return unpack(packed);
  const compressed = opened(packed);
  try {
    return await Bun.zstdDecompress(compressed);
  } catch (error) {
    throw damagedContent(error);
  }
}

/** @throws StorageError when it is damaged */
export function unpack(packed: Uint8Array): Uint8Array {
  const compressed = opened(packed);
  // The decoder would accept this as empty content.
  if (compressed.length === 0) throw damagedContent();
  try {
    return Bun.zstdDecompressSync(compressed);
  } catch (error) {
    throw damagedContent(error);
  }
}

/** @throws StorageError when it is damaged */
export function unpackText(packed: Uint8Array): string {
  return decoder.decode(unpack(packed));
}

/** `unpackText`, on another thread if large. */
export async function unpackTextAside(packed: Uint8Array): Promise<string> {
  return decoder.decode(await unpackAside(packed));
}

/** The error for stored data that can't be read. */
export function damagedContent(cause?: unknown): StorageError {
  return new StorageError("corrupt", "", "The stored data is damaged.", cause);
}

const bytesOf = (content: string | Uint8Array): Uint8Array =>
  typeof content === "string" ? encoder.encode(content) : content;

function sealed(compressed: Uint8Array): Uint8Array {
  const all = new Uint8Array(compressed.length + sealBytes);
  all.set(compressed);
  const seal = new DataView(all.buffer, compressed.length);
  seal.setUint32(0, sealMagic, true);
  seal.setUint32(4, checksumBytes, true);
  seal.setBigUint64(8, Bun.hash.xxHash64(compressed), true);
  return all;
}

/** @returns the compressed bytes */
function opened(packed: Uint8Array): Uint8Array {
  const size = packed.length - sealBytes;
  if (size < 0) return packed;
  const seal = new DataView(packed.buffer, packed.byteOffset + size);
  if (seal.getUint32(0, true) !== sealMagic) return packed;
  const compressed = packed.subarray(0, size);
  if (seal.getBigUint64(8, true) !== Bun.hash.xxHash64(compressed)) throw damagedContent();
  return compressed;
}
