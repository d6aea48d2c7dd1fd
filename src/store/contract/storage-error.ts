/** Storage errors: their kinds, and messages that tell an operator what to do. */

export type StorageErrorKind =
  | "full"
  | "readonly"
  | "corrupt"
  | "busy"
  | "missing"
  | "newer"
  /** Its schema is from before the first release. */
  | "older"
  /** Its schema has a number that this program knows, by another text. */
  | "other"
  | "foreign"
  /** What is to be its content is being moved here, or was in part. */
  | "moving"
  | "unusable"
  /** There was a database; its file is now missing or empty. */
  | "lost"
  /** A database server does not answer, or not in time: what was asked may have happened. */
  | "away"
  /** The keys were read too long ago for what is known of them to be trusted. */
  | "outdated";

/** Those that say what is wrong with the program or the data; of the others no place in the program says more. */
const puzzling: ReadonlySet<StorageErrorKind> = new Set(["corrupt", "unusable"]);

export class StorageError extends Error {
  readonly kind: StorageErrorKind;
  /** The database file, or a database server's address without its password. */
  readonly path: string;
  /** Which table or row is at fault, where that is known. */
  where: string | undefined;

  constructor(kind: StorageErrorKind, path: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "StorageError";
    this.kind = kind;
    this.path = path;
  }

  /** True if the error's message is all that there is to say; the log asks each error. */
  get isOutage(): boolean {
    return !puzzling.has(this.kind);
  }
}

/**
 * The first row whose beginning fits SQLite's result code.
 * Source: https://www.sqlite.org/rescode.html
 */
const meanings: readonly [code: string, kind: StorageErrorKind, advice: string][] = [
  ["SQLITE_FULL", "full", "the disk (or its quota) is full; free some space"],
  [
    "SQLITE_READONLY",
    "readonly",
    "it can't be written; check its owner and permissions, and that its disk is writable",
  ],
  ["SQLITE_PERM", "readonly", "it can't be written; check its owner and permissions"],
  ["SQLITE_CANTOPEN", "missing", "it can't be opened; check that the folder exists and belongs to this user"],
  ["SQLITE_CORRUPT", "corrupt", "it is damaged; restore a backup with 'troupe data restore <file>'"],
  [
    "SQLITE_NOTADB",
    "corrupt",
    "it is not a database; restore a backup with 'troupe data restore <file>', or move it away",
  ],
  ["SQLITE_BUSY", "busy", "another process holds it; try again, or find the process that does not let go"],
  ["SQLITE_LOCKED", "busy", "another process holds it; try again, or find the process that does not let go"],
  ["SQLITE_PROTOCOL", "busy", "another process holds it; try again, or find the process that does not let go"],
  ["SQLITE_IOERR", "unusable", "the disk reports an error; check the disk and its free space"],
];

/** @returns what an error of SQLite means; anything else comes back as it is */
export function asStorageError(error: unknown, path: string): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== "string" || code.startsWith("SQLITE_CONSTRAINT")) return error;
  const meaning = meanings.find(([start]) => code.startsWith(start));
  if (meaning === undefined) return error;
  const [, kind, advice] = meaning;
  return new StorageError(kind, path, `The database ${path} failed (${code}): ${advice}.`, error);
}

/**
 * Maps an error of opening or migrating. Any SQLite error there means damage, as our statements don't fail on a sound database.
 * @returns anything else as it is
 */
export function asOpeningError(error: unknown, path: string): unknown {
  const meaning = asStorageError(error, path);
  if (meaning instanceof StorageError || (error as { code?: unknown } | null)?.code !== "SQLITE_ERROR") return meaning;
  return damaged(path, (error as Error).message, error);
}

/** @param place the target of a move that is under way, or was broken off */
export function underWay(place: string): StorageError {
  const message = `A move to ${place} is under way, or was broken off: let it end, or go on with the same 'troupe data move', before anything serves from there.`;
  return new StorageError("moving", place, message);
}

/** @param found what shows it */
export function damaged(path: string, found: string, cause?: unknown): StorageError {
  const advice = "restore a backup with 'troupe data restore <file>'";
  return new StorageError("corrupt", path, `The database ${path} is damaged (${found}): ${advice}.`, cause);
}

/** Turns an error of the file system into one of the data folder. @returns anything else as it is */
export function asFolderError(error: unknown, folder: string, path: string): unknown {
  const { code } = error as { code?: unknown };
  if (typeof code !== "string" || error instanceof StorageError) return error;
  const kind = code === "ENOSPC" || code === "EDQUOT" ? "full" : code === "EROFS" ? "readonly" : "missing";
  const advice = "check that it is a writable folder of this user, or name another with --data";
  return new StorageError(kind, path, `The data folder ${folder} can't be used (${code}): ${advice}.`, error);
}

/** Names a row as errors do, or its table alone. @param key the values that name it; none: nobody knows which one it is */
export const rowWords = (table: string, key: readonly unknown[] = []): string =>
  `${key.length === 0 ? "" : `the row ${key.map((value) => JSON.stringify(value)).join(", ")} of `}the table ${table}`;

/**
 * Says where the data or the program is at fault. The log alone shows it, as clients are given errors of our own.
 * @param where in words; the innermost place stays @returns anything else as it is, outages too: no place explains them
 */
export function located(error: unknown, where: string | undefined): unknown {
  if (!(error instanceof StorageError) || error.isOutage || error.where !== undefined || where === undefined)
    return error;
  const found = new StorageError(error.kind, error.path, `${error.message} At fault is ${where}.`, error);
  found.where = where;
  return found;
}

/** Runs `work`. @throws StorageError in place of SQLite's own errors */
export function storing<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asStorageError(error, path);
  }
}
