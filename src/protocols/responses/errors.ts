/** Errors in this format's form, which is chat's; within a stream they are an event, and part of the last one. */
import { textOf } from "../../lib/json/json.ts";
import type { ErrorFields } from "../protocol.ts";

type StreamError = { readonly code: string; readonly message: string; readonly param: string | null };

/** @param error ours or an upstream's, whose members may be anything */
export function responseError(error: ErrorFields): StreamError {
  const code = textOf(error["code"]) || textOf(error["type"]) || "server_error";
  return {
    code,
    message: textOf(error["message"]) || "The model failed to answer.",
    param: textOf(error["param"]) || null,
  };
}
