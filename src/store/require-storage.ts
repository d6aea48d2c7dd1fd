import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "./storage-error.ts";

/** Runs what can't be done without the store. @throws ApiError storage_unavailable in place of a StorageError */
export function needsStorage<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asUnavailable(error);
  }
}

/** @returns ApiError storage_unavailable for a StorageError; anything else comes back as it is */
export function asUnavailable(error: unknown): unknown {
  if (!(error instanceof StorageError)) return error;
  return ApiError.unavailable("storage_unavailable", "This needs storage, which is not available at the moment.", {
    cause: error,
  });
}
