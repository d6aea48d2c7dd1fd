/** Archives whose bytes follow from their contents alone: entries in order of their paths, one time, one owner. */
import { crc32, deflateRawSync, gzipSync } from "node:zlib";

export type Entry = {
  /** With forward slashes, of ASCII characters; one that ends with a slash is a folder. */
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly executable?: boolean;
  /** Permissions of their own, and the number of a user and group that is not root. */
  readonly mode?: number;
  readonly owner?: number;
};

/** Of compression: 9 is the best, and 0 is none. */
export type Level = 0 | 9;
const ascii = new TextEncoder();

/** @param seconds Unix time that every entry carries */
export function tarGz(entries: readonly Entry[], seconds: number, level: Level = 9): Uint8Array {
  return gzipSync(tar(entries, seconds), { level });
}

export function tar(entries: readonly Entry[], seconds: number): Uint8Array {
  const blocks = sorted(entries).flatMap((entry) => [tarHeader(entry, seconds), padded(entry.bytes)]);
  return Buffer.concat([...blocks, new Uint8Array(2 * tarBlock)]);
}

/** The entries with the folders that they lie in, for programs that make none by themselves. */
export function withFolders(entries: readonly Entry[]): Entry[] {
  const known = new Set(entries.map(({ path }) => path));
  const parents = entries.flatMap(({ path }) =>
    [...path.slice(0, -1).matchAll(/\//g)].map(({ index }) => path.slice(0, index + 1)),
  );
  const missing = [...new Set(parents)].filter((path) => !known.has(path));
  return [...missing.map((path) => ({ path, bytes: new Uint8Array() })), ...entries];
}

const tarBlock = 512;

function padded(bytes: Uint8Array): Uint8Array {
  const rest = bytes.length % tarBlock;
  return rest === 0 ? bytes : Buffer.concat([bytes, new Uint8Array(tarBlock - rest)]);
}

/** Source: https://www.gnu.org/software/tar/manual/html_node/Standard.html (ustar) */
function tarHeader({ path, bytes, executable, mode, owner = 0 }: Entry, seconds: number): Uint8Array {
  const isFolder = path.endsWith("/");
  const header = new Uint8Array(tarBlock);
  const put = (at: number, text: string) => header.set(ascii.encode(text), at);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  if (path.length > 100) throw new Error(`${path} is too long for a tar header`);
  put(0, path);
  put(100, octal(mode ?? (executable === true || isFolder ? 0o755 : 0o644), 7));
  put(108, octal(owner, 7));
  put(116, octal(owner, 7));
  put(124, octal(bytes.length, 11));
  put(136, octal(seconds, 11));
  put(148, " ".repeat(8));
  put(156, isFolder ? "5" : "0");
  put(257, "ustar\x0000");
  if (owner === 0) for (const at of [265, 297]) put(at, "root");
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return header;
}

/** @param seconds Unix time that every entry carries, in UTC as the format knows no zone */
export function zip(entries: readonly Entry[], seconds: number, level: Level = 9): Uint8Array {
  const time = dosTime(seconds);
  const locals: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const entry of sorted(entries)) {
    const packed = deflateRawSync(entry.bytes, { level });
    const local = zipRecord(entry, packed, time);
    locals.push(local, packed);
    directory.push(zipRecord(entry, packed, time, offset));
    offset += local.length + packed.length;
  }
  const index = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(index.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, index, end]);
}

/**
 * An entry's local header, or its place in the directory when it has an offset.
 * Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.7 and 4.3.12
 */
function zipRecord({ path, bytes, executable }: Entry, packed: Uint8Array, time: number, offset?: number): Uint8Array {
  const name = ascii.encode(path);
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(8, 4);
  common.writeUInt32LE(time, 6);
  common.writeUInt32LE(crc32(bytes), 10);
  common.writeUInt32LE(packed.length, 14);
  common.writeUInt32LE(bytes.length, 18);
  common.writeUInt16LE(name.length, 22);
  if (offset === undefined) return Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), common, name]);
  const madeByUnix = Buffer.from([20, 3]);
  const tail = Buffer.alloc(14);
  tail.writeUInt32LE((executable === true ? 0o100755 : 0o100644) * 0x10000, 6);
  tail.writeUInt32LE(offset, 10);
  return Buffer.concat([Buffer.from("PK\x01\x02", "latin1"), madeByUnix, common, tail, name]);
}

/** Date in the high half, time in the low one, to two seconds. */
function dosTime(seconds: number): number {
  const at = new Date(seconds * 1000);
  const date = ((at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate();
  const time = (at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1);
  return date * 0x10000 + time;
}

function sorted(entries: readonly Entry[]): Entry[] {
  return entries.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}
