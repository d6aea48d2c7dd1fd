/** The errors that readers of a call with a service-request-id get in place of the rest of its answer. */
import { ApiError } from "../protocols/errors.ts";

export function interrupted(): ApiError {
  return ApiError.unavailable(
    "upstream_unavailable",
    "The answer was interrupted. Retry to get it from its beginning.",
  );
}

/** The answer is complete and waits to be stored. */
export function unsaved(): ApiError {
  return ApiError.unavailable(
    "storage_unavailable",
    "The answer is complete but can't be stored at the moment. Retry with the same service-request-id to get it.",
  );
}

export function tooLarge(): ApiError {
  return ApiError.unavailable("overloaded", "The answer under this service-request-id is too large to be shared.");
}
