import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "./contract/storage-error.ts";

/** Runs work that needs the store. Rejects with ApiError storage_unavailable in place of a StorageError. */
export async function needsStorage<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
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
