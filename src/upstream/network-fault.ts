/** A connection that could not be made, or broke, as an error of ours. */
import type { Timeouts } from "../config/config.ts";
import { ConnectTimeout } from "../lib/http/client.ts";
import { ApiError } from "../protocols/errors.ts";

/** @param name of the account. @returns upstream_unreachable or upstream_timeout; an error of ours as it is */
export function networkFault(error: Error, name: string, { connectSeconds }: Timeouts): Error {
  // An error in a streamed body is its client's.
  if (error instanceof ApiError) return error;
  if (error instanceof ConnectTimeout) {
    return ApiError.upstreamTimeout(`${name} took no connection within ${connectSeconds} s.`);
  }
  return ApiError.upstreamUnreachable(`${name} could not be reached, or broke the connection.`, error);
}
