/** Errors in this format's form, which is chat's; within a stream they are an event, and part of the last one. */
import { type JsonObject, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import type { ErrorFields } from "../protocol.ts";

const typeByStatus: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
  504: "timeout_error",
};

/** An error of an upstream of another format: clients read its class from the status, and its text from the message. */
export function upstreamErrorBody({ message, code, type }: ErrorFields, status: number): object {
  const kind = typeByStatus[status] ?? (status < 500 ? "invalid_request_error" : "server_error");
  const said = [code, type].find((one) => typeof one === "string" && one !== "");
  return { error: { message: textOf(message) ?? "", type: kind, param: null, code: said ?? null } };
}

/**
 * The members of an `error` event, which clients know in two forms: as the public reference has it, and in a member of its own.
 * The official ones raise an error for the latter alone: https://github.com/openai/openai-python/blob/main/src/openai/_streaming.py.
 * Source: https://platform.openai.com/docs/api-reference/responses-streaming/error
 */
export function errorMembers(error: ErrorFields): JsonObject {
  const fields = responseError(error);
  return { ...fields, error: { type: textOf(error["type"]) || "server_error", ...fields } };
}

/** @param data of an upstream's event @returns an `error` event's with the form that it lacks; undefined where it lacks none */
export function inBothForms(data: string): string | undefined {
  const given = objectOf(parseJson(data));
  const { type, ...flat } = given ?? {};
  const nested = objectOf(flat["error"]);
  if (type !== "error" && (type != null || nested === undefined)) return undefined;
  const whole: JsonObject = { type: "error", ...errorMembers(nested ?? flat) };
  const lacking = Object.entries(whole).filter(([name]) => given![name] === undefined);
  return lacking.length === 0 ? undefined : JSON.stringify({ ...given, ...Object.fromEntries(lacking) });
}

/** What clients are told of an answer that ended by an error without words, by its status. */
const silentEnds: Readonly<Record<string, string>> = { cancelled: "The provider cancelled its answer." };
const silentFailure = "The model failed to answer.";

/** @returns the error of a response that failed or was cancelled, in words where it has none */
export function endError({ error, status }: JsonObject): JsonObject {
  const given = objectOf(error) ?? {};
  if (textOf(given["message"])) return given;
  const message = ownMember(silentEnds, textOf(status) ?? "") ?? silentFailure;
  return { type: "server_error", param: null, code: "server_error", ...withoutNothing(given), message };
}

const withoutNothing = (members: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value != null && value !== ""));

type StreamError = { readonly code: string; readonly message: string; readonly param: string | null };

/** @param error ours or an upstream's, whose members may be anything */
export function responseError(error: ErrorFields): StreamError {
  const code = textOf(error["code"]) || textOf(error["type"]) || "server_error";
  return {
    code,
    message: textOf(error["message"]) || silentFailure,
    param: textOf(error["param"]) || null,
  };
}
