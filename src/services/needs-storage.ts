import { StorageError } from "../store/storage-error.ts";
import { ApiError } from "../wire/errors.ts";

/** Runs what can't be done without the store. @throws ApiError storage_unavailable in place of a StorageError */
export function needsStorage<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    throw ApiError.unavailable("storage_unavailable", "This needs storage, which is not available at the moment.", {
      cause: error,
    });
  }
}
