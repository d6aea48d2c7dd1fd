/** SQLite answers at once, and the interfaces of the store are asynchronous: this stands in between. */
import { asStorageError, located, rowWords } from "../contract/storage-error.ts";

/** A repository whose methods may return at once. */
export type Synchronous<R> = {
  [Name in keyof R]: R[Name] extends (...args: infer Args) => Promise<infer T>
    ? (...args: Args) => T | Promise<T>
    : R[Name];
};

/**
 * The same methods, returning promises; each does its work before it returns. They reject with StorageError in place of
 * SQLite's errors.
 * @param before runs first, and may throw
 * @param table which one they are about
 */
export function asynchronous<R>(path: string, methods: Synchronous<R>, before = () => {}, table?: string): R {
  const where = table === undefined ? undefined : rowWords(table);
  const entries = Object.entries(methods).map(([name, method]) => [
    name,
    async (...args: unknown[]) => {
      try {
        before();
        return await (method as (...args: unknown[]) => unknown)(...args);
      } catch (error) {
        throw located(asStorageError(error, path), where);
      }
    },
  ]);
  return Object.fromEntries(entries) as R;
}
