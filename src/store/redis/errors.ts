/** Meanings of the errors of a Valkey or Redis server and of Bun's client. */
import { StorageError, type StorageErrorKind } from "../contract/storage-error.ts";

/** By the first words of the server's message. Source: https://valkey.io/topics/protocol/#simple-errors, the server's `src/server.c` */
const meanings: readonly [message: RegExp, kind: StorageErrorKind, words: string][] = [
  [/^READONLY/, "readonly", "it is a replica, which takes no writes; name the primary, or an address that follows it"],
  [/^(MASTERDOWN|LOADING|UNBLOCKED)/, "away", "it is starting, or following another server"],
  [
    /^(MOVED|ASK|CROSSSLOT|CLUSTERDOWN|TRYAGAIN)\b|in cluster mode/,
    "unusable",
    "it is in cluster mode, and has a part of the keys; name a server that is not",
  ],
  [/^OOM/, "full", "its memory is full; raise 'maxmemory'"],
  [/^(MISCONF|NOREPLICAS)/, "readonly", "it takes no writes now; its own log says why"],
  [/^(WRONGPASS|ERR invalid password|ERR AUTH)/, "unusable", "user or password are refused; check 'coordination'"],
  [/^NOAUTH/, "unusable", "it asks for a password; add it to 'coordination'"],
  [/^NOPERM/, "unusable", "its user lacks a right; docs/postgres.md lists what it needs"],
  [/^DENIED/, "unusable", "it is in protected mode, and lets only its own machine in; give it a password"],
  [/^ERR (DB index|invalid DB)/, "missing", "it has no database of that number: 'DB index is out of range'"],
  [/^ERR max number of clients/, "busy", "it has as many clients as it takes; raise 'maxclients'"],
  [/^BUSY\b/, "busy", "a script of somebody else holds it up"],
];

/** True if a server may have lost its place to another one: new connections may lead to the one that is the primary now. */
export const isDemoted = (error: unknown): boolean =>
  error instanceof Error && /^(READONLY|MASTERDOWN|LOADING|UNBLOCKED)/.test(error.message);

/** True if the server could not be asked. Its own errors have another code. */
export function isAway(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && /^ERR_REDIS_(CONNECTION|IDLE)/.test(code);
}

/** @returns what a server's error means, in words and a kind of StorageError; undefined for one that our own commands should never meet */
export function meaningOf(message: string): { readonly kind: StorageErrorKind; readonly words: string } | undefined {
  const found = meanings.find(([pattern]) => pattern.test(message));
  return found && { kind: found[1], words: found[2] };
}

/** @returns StorageError for what is a matter of the server or its user; anything else comes back as it is */
export function asRedisError(error: unknown, place: string): unknown {
  if (error instanceof StorageError || !(error instanceof Error)) return error;
  const meaning = meaningOf(error.message);
  if (meaning === undefined) return error;
  const [code] = error.message.split(" ", 1);
  return new StorageError(meaning.kind, place, `The coordination ${place} failed (${code}): ${meaning.words}.`);
}

/** @param why a code, or words */
export function away(place: string, why: string): StorageError {
  const advice = "check the server, the way to it, its user and password";
  return new StorageError("away", place, `The coordination ${place} can't be reached (${why}): ${advice}.`);
}
