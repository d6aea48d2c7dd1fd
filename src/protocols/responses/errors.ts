/** Errors in this format's form, which is chat's; within a stream they are an event, and part of the last one. */
import { textOf } from "../../lib/json/json.ts";
import type { ErrorFields } from "../protocol.ts";

const typeByStatus: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
  504: "timeout_error",
};

/** An error of an upstream of another format: clients tell its class by the status, and its text by the message. */
export function upstreamErrorBody({ message, code, type }: ErrorFields, status: number): object {
  const kind = typeByStatus[status] ?? (status < 500 ? "invalid_request_error" : "server_error");
  const said = [code, type].find((one) => typeof one === "string" && one !== "");
  return { error: { message: textOf(message) ?? "", type: kind, param: null, code: said ?? null } };
}

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
