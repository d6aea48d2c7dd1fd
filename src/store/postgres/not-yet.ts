/** Stands in for a repository that is not written for PostgreSQL yet. */
import { StorageError } from "../storage-error.ts";

/** @returns what rejects, whichever method is called */
export function notYet<R extends object>(place: string, what: string): R {
  return new Proxy({} as R, {
    get: () => () => Promise.reject(new StorageError("unusable", place, `${what} can't be kept in PostgreSQL yet.`)),
  });
}
