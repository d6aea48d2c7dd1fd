/**
 * Notices without asking SQLite that nothing was committed to a database in WAL mode, by any process: the header of its write-ahead
 * log's index, which all of them map, is as it was. So does SQLite itself, but within two locks, which are most of what a small query
 * costs. Source: https://www.sqlite.org/walformat.html#the_wal_index_file_format
 */
import type { Database } from "bun:sqlite";
import { mapForReading } from "../../lib/linux/map-file.ts";

/** In 32-bit words: the format's version, the number of the latest commit, and the checksum over the whole header. */
const versionAt = 0;
const changeAt = 2;
const checksumAt = 10;
const headerBytes = 48;
const version = 3_007_000;

/**
 * @param path of the database's file, which must be in WAL mode
 * @returns what asks again only where something was committed since; where that can't be noticed, each time
 */
export function untilCommit<T>(database: Database, path: string, ask: () => T): () => T {
  const header = mapForReading(`${path}-shm`, headerBytes);
  if (header === undefined || !isLive(header, database)) return ask;
  let answer: { readonly value: T } | undefined;
  let change = 0;
  let checksum = 0;
  let rest = 0;
  return () => {
    const isSame = header[changeAt] === change && header[checksumAt] === checksum && header[checksumAt + 1] === rest;
    if (isSame && answer !== undefined) return answer.value;
    answer = undefined;
    // Read before SQLite is asked: a commit in between is noticed the next time.
    change = header[changeAt]!;
    checksum = header[checksumAt]!;
    rest = header[checksumAt + 1]!;
    answer = { value: ask() };
    return answer.value;
  };
}

/** Whether it shows what is committed: the file there might be another's, left beside a link. */
function isLive(header: Uint32Array, database: Database): boolean {
  const before = header[changeAt];
  try {
    database.run("insert or replace into trials values (1, randomblob(16))");
  } catch {
    return false;
  }
  return header[versionAt] === version && header[changeAt] !== before;
}
