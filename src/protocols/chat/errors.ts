/** An error as the body of an answer. */
import type { ApiError, ErrorObject } from "../errors.ts";

export function chatError(error: ApiError): { readonly error: ErrorObject } {
  return { error: error.fields() };
}
