/** Meanings of the errors of PostgreSQL and of Bun's client. */
import { StorageError, type StorageErrorKind } from "../contract/storage-error.ts";
import { tlsFailure } from "../tls-failure.ts";

/** @returns the client's own code, and the server's SQLSTATE */
function codesOf(error: unknown): { code: string; state: string } {
  const { code, errno } = (error ?? {}) as { code?: unknown; errno?: unknown };
  return { code: typeof code === "string" ? code : "", state: typeof errno === "string" ? errno : "" };
}

/**
 * SQLSTATEs of a server that is stopping, starting, full of connections, or was made a standby.
 * Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const awayStates = new Set(["57P01", "57P02", "57P03", "53300", "25006", "08006", "08001", "08003", "08004"]);

/** True if the server could not be asked: the same question may work on another connection, and may have been answered already. */
export function isAway(error: unknown): boolean {
  const { code, state } = codesOf(error);
  if (isOfConnection(error)) return !refusesParameters(error);
  return code.startsWith("ERR_POSTGRES_CONNECTION_") || awayStates.has(state);
}

/**
 * PgBouncer has one SQLSTATE for all that befalls its own connections: "server conn crashed?", "server login has been failing".
 * Source: https://github.com/pgbouncer/pgbouncer/blob/master/src/objects.c
 */
const isOfConnection = (error: unknown) => codesOf(error).state === "08P01";

/** True if the server is a standby, which takes no writes. */
export const isReadOnly = (error: unknown): boolean => codesOf(error).state === "25006";

/** Deadlock and serialization failure: the server undid the statement, and asks to send it again. */
export function isUndone(error: unknown): boolean {
  return ["40001", "40P01"].includes(codesOf(error).state);
}

/** A pooler refuses what it does not know at the start of a connection. Source: https://www.pgbouncer.org/config.html */
export function refusesParameters(error: unknown): boolean {
  return codesOf(error).state === "08P01" && /startup parameter/.test((error as Error).message);
}

const meanings: readonly [state: RegExp, kind: StorageErrorKind, advice: string][] = [
  [/^53100/, "full", "its disk is full; free some space"],
  [/^(57014|55P03|40001|40P01)/, "busy", "it did not come to an end in time; look for what holds it up"],
  [/^(28000|28P01)/, "unusable", "user or password are refused; check 'store'"],
  [/^3D000/, "missing", "there is no such database; create it, or name another in 'store'"],
  [/^42501/, "readonly", "the user lacks a right; let it own the database, or the schema 'troupe'"],
  [/^XX00[12]/, "corrupt", "it is damaged; restore a backup"],
];

/** Why no connection over TLS comes about. Bun reads the files of `sslrootcert` and `sslcert` when it connects. */
function tlsWords(code: string): string | undefined {
  const certificate = tlsFailure(code);
  if (certificate !== undefined) return `${certificate} (${code}); check 'sslmode' and 'sslrootcert' in 'store'`;
  if (code === "ERR_POSTGRES_TLS_NOT_AVAILABLE") return "it has no TLS, which 'sslmode' in 'store' asks for";
  const isFile = ["ERR_INVALID_ARG_TYPE", "ERR_INVALID_ARG_VALUE", "ERR_BORINGSSL"].includes(code);
  return isFile ? "a file of 'sslrootcert', 'sslcert' or 'sslkey' in 'store' can't be read" : undefined;
}

/**
 * @param place the server's address without its password
 * @returns StorageError for an error of the client or the server; anything else comes back as it is
 */
export function asPostgresError(error: unknown, place: string): unknown {
  const { code, state } = codesOf(error);
  if (error instanceof StorageError) return error;
  const words = tlsWords(code);
  if (words !== undefined) return new StorageError("unusable", place, `The database ${place} can't be used: ${words}.`);
  if (!code.startsWith("ERR_POSTGRES_")) return error;
  // The server's message names tables and columns; its details hold rows, and are left out.
  const { message } = error as Error;
  if (isOfConnection(error)) return away(place, message);
  if (isReadOnly(error)) {
    const advice = "it takes no writes; it is a standby, or 'default_transaction_read_only' is on";
    return new StorageError("readonly", place, `The database ${place} failed (${state}): ${advice}.`);
  }
  if (isAway(error)) return away(place, state === "" ? code : state);
  const [, kind, advice] = meanings.find(([pattern]) => pattern.test(state)) ?? ["", "unusable" as const, message];
  return new StorageError(kind, place, `The database ${place} failed (${state === "" ? code : state}): ${advice}.`);
}

/** @param why a code, or words */
export function away(place: string, why: string): StorageError {
  return new StorageError(
    "away",
    place,
    `The database ${place} can't be reached (${why}): check the server and the way to it.`,
  );
}
