/** Stands in for a repository that is not written for PostgreSQL yet. */
import { StorageError } from "../storage-error.ts";

/** @param known methods that there are @returns what rejects, whichever other method is called */
export function notYet<R extends object>(place: string, what: string, known: Partial<R> = {}): R {
  return new Proxy(known as R, {
    get: (_, name) =>
      known[name as keyof R] ??
      (() => Promise.reject(new StorageError("unusable", place, `${what} can't be kept in PostgreSQL yet.`))),
  });
}
