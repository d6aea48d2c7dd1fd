/** What an upstream says of a request that it refuses: by the members of its error that name a place and a reason, never by its words alone. */
import { isObject, type JsonObject, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import type { UpstreamError } from "../answer.ts";

export type Refusal = {
  /** The field, in the upstream's own words: `temperature`, `reasoning.effort`, `generationConfig.topP`. */
  readonly place: string;
  /** Absent where the upstream names none. */
  readonly code: string | undefined;
  /** The field may not be sent at all, whatever it holds. */
  readonly isOfAnyValue: boolean;
};

/**
 * Codes by which a field is refused whatever it holds. Sources: https://platform.openai.com/docs/guides/error-codes,
 * https://docs.pydantic.dev/latest/errors/validation_errors/#extra_forbidden (Mistral, vLLM)
 */
const ofField = new Set(["unsupported_parameter", "unknown_parameter", "extra_forbidden"]);
/** Codes by which one value of it is. A field that is out of its range, or of a wrong type, is wrong everywhere. */
const ofValue = new Set(["unsupported_value", "invalid_value"]);
/** OpenAI's and Anthropic's, vLLM's, and Google's: https://ai.google.dev/gemini-api/docs/troubleshooting */
const refusingTypes = new Set(["invalid_request_error", "BadRequestError", "INVALID_ARGUMENT"]);

const maxBody = 16_384;
const maxPlace = 128;

/** @returns undefined where the error is no refusal of a field, or does not say of which */
export function refusalIn({ status, body }: Pick<UpstreamError, "status" | "body">): Refusal | undefined {
  if ((status !== 400 && status !== 422) || body.length > maxBody) return undefined;
  const said = objectOf(parseJson(new TextDecoder().decode(body)));
  if (said === undefined) return undefined;
  const found = Array.isArray(said["detail"]) ? ofDetail(said["detail"]) : ofError(objectOf(said["error"]) ?? said);
  return found === undefined || found.place === "" || found.place.length > maxPlace ? undefined : found;
}

/** `{"detail":[{"loc":["body","temperature"],"type":"extra_forbidden"}]}` */
function ofDetail([first, ...others]: readonly unknown[]): Refusal | undefined {
  if (!isObject(first) || others.length > 0 || !Array.isArray(first["loc"])) return undefined;
  const code = textOf(first["type"]);
  const place = first["loc"].filter((part) => part !== "body").join(".");
  return code !== undefined && ofField.has(code) ? { place, code, isOfAnyValue: true } : undefined;
}

function ofError(error: JsonObject): Refusal | undefined {
  const type = textOf(error["type"]) ?? textOf(error["status"]);
  const code = textOf(error["code"]);
  if (code !== undefined && ofField.has(code)) return placed(error, code, true);
  const isCoded = code !== undefined && ofValue.has(code);
  // Anthropic, and gateways before it, repeat the type as the code.
  const isUncoded = code === undefined || code === type;
  if (!isCoded && !(isUncoded && type !== undefined && refusingTypes.has(type))) return undefined;
  return placed(error, isCoded ? code : undefined, false);
}

function placed(error: JsonObject, code: string | undefined, isOfAnyValue: boolean): Refusal | undefined {
  const place = textOf(error["param"]) ?? violatedIn(error["details"]) ?? openedBy(error["message"]);
  return place === undefined ? undefined : { place, code, isOfAnyValue };
}

/** https://cloud.google.com/apis/design/errors#error_payloads: BadRequest.field_violations */
function violatedIn(details: unknown): string | undefined {
  const violations = Array.isArray(details) ? details.flatMap((one) => objectOf(one)?.["fieldViolations"] ?? []) : [];
  return violations.length === 1 ? textOf(objectOf(violations[0])?.["field"]) : undefined;
}

/**
 * Anthropic has no member for the place: its messages open with it. "temperature: Extra inputs are not permitted",
 * "`temperature` is deprecated for this model."
 */
const opening = /^`?([a-z][a-z0-9_.]*)`?(?::| is deprecated| is not supported)/;

const openedBy = (message: unknown): string | undefined => opening.exec(textOf(message) ?? "")?.[1];
