/**
 * The kinds of failure. Ours is thrown (`ApiError`) and turned into JSON in one place; an upstream's is carried with its
 * bytes unchanged, and an adapter reports it by throwing `UpstreamFault`; what is neither an answer nor an error is reported
 * by `InvalidAnswer`, which becomes an `ApiError` once the upstream's name is known.
 */
import { truncate } from "../lib/text/truncate.ts";
import type { Usage } from "./chat/schema.ts";

export type ErrorObject = { message: string; type: string; param: string; code: string };

/** All of an error but its cause, to be thrown again in another process. */
export type ErrorRecord = ErrorObject & {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly model?: string;
  readonly isOfModel?: boolean;
};

type Details = Partial<Pick<ErrorRecord, "param" | "headers" | "isOfModel">> & {
  readonly cause?: unknown;
  readonly model?: string | undefined;
};

/** The status and the type of each code: the table in `docs/errors.md`. */
const kinds = {
  invalid_json: [400, "invalid_request_error"],
  invalid_value: [400, "invalid_request_error"],
  missing_field: [400, "invalid_request_error"],
  unsupported_parameter: [400, "invalid_request_error"],
  unknown_provider: [400, "invalid_request_error"],
  context_length_exceeded: [400, "invalid_request_error"],
  content_filter: [400, "invalid_request_error"],
  websockets_unsupported: [400, "invalid_request_error"],
  invalid_api_key: [401, "authentication_error"],
  session_ended: [401, "authentication_error"],
  model_not_allowed: [403, "permission_error"],
  model_without_price: [403, "permission_error"],
  surface_not_allowed: [403, "permission_error"],
  host_not_allowed: [403, "permission_error"],
  persona_not_writable: [403, "permission_error"],
  model_not_found: [404, "invalid_request_error"],
  not_found: [404, "invalid_request_error"],
  method_not_allowed: [405, "invalid_request_error"],
  request_timeout: [408, "invalid_request_error"],
  tools_called: [409, "invalid_request_error"],
  persona_changed: [409, "invalid_request_error"],
  label_in_use: [409, "invalid_request_error"],
  too_many_previews: [409, "invalid_request_error"],
  request_too_large: [413, "invalid_request_error"],
  unsupported_media_type: [415, "invalid_request_error"],
  idempotency_key_reused: [422, "invalid_request_error"],
  persona_invalid: [422, "invalid_request_error"],
  rate_limit_exceeded: [429, "rate_limit_error"],
  insufficient_quota: [429, "insufficient_quota"],
  internal_error: [500, "server_error"],
  upstream_unreachable: [503, "server_error"],
  upstream_invalid_response: [503, "server_error"],
  upstream_unavailable: [503, "server_error"],
  draining: [503, "server_error"],
  storage_unavailable: [503, "server_error"],
  overloaded: [503, "server_error"],
  upstream_timeout: [504, "timeout_error"],
} as const satisfies Record<string, readonly [status: number, type: string]>;

/** The longest message, however many names it lists; a caller's text within it is cut before, so that the rest is read. */
const maxMessage = 2048;

/** Every error of our own. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly param: string;
  /** Headers the answer must carry, e.g. `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The name of a model that is not known here. */
  readonly model: string | undefined;
  /** True where it holds for the model that was to be called, and not for others. */
  readonly isOfModel: boolean;

  private constructor(record: ErrorRecord, cause?: unknown) {
    super(truncate(record.message, maxMessage), cause === undefined ? undefined : { cause });
    this.name = "ApiError";
    this.status = record.status;
    this.type = record.type;
    this.code = record.code;
    this.param = truncate(record.param);
    this.headers = record.headers;
    this.model = record.model;
    this.isOfModel = record.isOfModel === true;
  }

  static #of(code: keyof typeof kinds, message: string, details: Details = {}): ApiError {
    const { param = "", headers = {}, model, isOfModel = false, cause } = details;
    const [status, type] = kinds[code];
    const more = { isOfModel, ...(model !== undefined && { model }) };
    return new ApiError({ status, type, code, message, param, headers, ...more }, cause);
  }

  /** The fields that clients see, in whatever form. */
  fields(): ErrorObject {
    return { message: this.message, type: this.type, param: this.param, code: this.code };
  }

  /** All of it, for another process. */
  record(): ErrorRecord {
    const { status, headers, model, isOfModel } = this;
    const more = { ...(model !== undefined && { model }), ...(isOfModel && { isOfModel }) };
    return { ...this.fields(), status, headers, ...more };
  }

  /** @param record of another process */
  static fromRecord(record: ErrorRecord): ApiError {
    return new ApiError(record);
  }

  /** @returns the same error about a place that has another path in the client's own format */
  at(param: string): ApiError {
    const message = this.message.startsWith(this.param) ? param + this.message.slice(this.param.length) : this.message;
    return new ApiError({ ...this.record(), message, param }, this.cause);
  }

  /** @returns the same error with more headers for its answer */
  withHeaders(more: Readonly<Record<string, string>>): ApiError {
    const record = this.record();
    return new ApiError({ ...record, headers: { ...record.headers, ...more } }, this.cause);
  }

  /** @returns the same error without a header that its answer must not have */
  withoutHeader(name: string): ApiError {
    if (!Object.hasOwn(this.headers, name)) return this;
    const { [name]: _, ...headers } = this.headers;
    return new ApiError({ ...this.record(), headers }, this.cause);
  }

  /** @returns the same error with more in its message */
  with(more: string): ApiError {
    const { model: _, ...record } = this.record();
    return new ApiError({ ...record, message: this.message + more }, this.cause);
  }

  static invalidJson(message: string): ApiError {
    return ApiError.#of("invalid_json", message);
  }
  /** @param param the path of the value, e.g. `messages[0].role` */
  static invalidValue(param: string, message: string): ApiError {
    return ApiError.#of("invalid_value", message, { param });
  }
  static missingField(param: string): ApiError {
    return ApiError.#of("missing_field", `Missing required field: ${truncate(param)}.`, { param });
  }
  /** A field the chosen model or provider can't honour, and that may not be dropped silently. */
  static unsupported(param: string, message: string): ApiError {
    return ApiError.#of("unsupported_parameter", message, { param });
  }
  static unknownProvider(message: string, model: string): ApiError {
    return ApiError.#of("unknown_provider", message, { param: "model", model });
  }
  /** A persona's backend refused the input itself; the message is ours. */
  static refusedInput(code: "context_length_exceeded" | "content_filter" | "invalid_value", message: string): ApiError {
    return ApiError.#of(code, message, { param: "messages" });
  }
  /** One message for a missing, malformed, unknown, expired or revoked key: nothing to learn from it. */
  static unauthorized(): ApiError {
    const places = "'Authorization: Bearer <API_KEY>', or in x-api-key, x-goog-api-key or api-key";
    const message = `Missing or invalid API key. Send it as ${places}.`;
    return ApiError.#of("invalid_api_key", message, { headers: bearer });
  }
  /** The key by which somebody signs in; as silent about why as for any request. */
  static refusedSignIn(): ApiError {
    const message = "key is not valid here: it is unknown, mistyped, expired or revoked.";
    return ApiError.#of("invalid_api_key", message, { param: "key", headers: bearer });
  }
  static sessionEnded(): ApiError {
    return ApiError.#of("session_ended", "The session has ended. Sign in again.", { headers: bearer });
  }
  /** @param model undefined where nothing names the one that is called, and the key may use some only */
  static modelNotAllowed(model: string | undefined): ApiError {
    const message =
      model === undefined
        ? "This API key may use some models only: here it may only POST JSON that names its model, or to a path that does."
        : `This API key may not use the model '${truncate(model)}'.`;
    return ApiError.#of("model_not_allowed", message, { param: "model" });
  }
  /** @param permission a surface, or `raw` @param param the path of what needs it */
  static surfaceNotAllowed(permission: string, param = ""): ApiError {
    const message =
      permission === "raw"
        ? `${param === "" ? "This address" : param} leads to what a provider keeps for all of this server's keys: only keys with 'raw' among their surfaces may use it.`
        : permission === "preview"
          ? "Previews of personas are pushed, listed and dropped by keys with 'preview' among their surfaces."
          : `This API key may not use the ${permission}.`;
    return ApiError.#of("surface_not_allowed", message, { param });
  }
  /** Of a key that has no surface but `preview`. */
  static onlyForPreviews(): ApiError {
    const message =
      "This API key is for previews of personas: it may push, list and drop them, and call them as <persona>@<label>; nothing else is open to it.";
    return ApiError.#of("surface_not_allowed", message);
  }
  /** @param model that a key of previews alone asks for */
  static notPreviewed(model: string): ApiError {
    const message = `This API key may call previews of personas alone, as <persona>@<label>, and '${truncate(model)}' is none that it may use.`;
    return ApiError.#of("model_not_allowed", message, { param: "model" });
  }
  /** A persona of an upload that its key may not preview. */
  static previewNotAllowed(message: string, param: string): ApiError {
    return ApiError.#of("model_not_allowed", message, { param });
  }
  static labelInUse(message: string): ApiError {
    return ApiError.#of("label_in_use", message, { param: "label" });
  }
  static previewTooLarge(bytes: number, most: number, what = "preview"): ApiError {
    const message = `The ${what} has ${bytes} bytes; previews.max_bytes takes ${most}. Push fewer personas, or raise it.`;
    return ApiError.#of("request_too_large", message);
  }
  static tooManyPreviews(most: number): ApiError {
    const message =
      most === 0
        ? "This server takes no previews of personas: previews.max is 0."
        : `This server keeps ${most} previews at once (previews.max), and has them: drop one, or wait for one to end.`;
    return ApiError.#of("too_many_previews", message);
  }
  /** @param host as the request names it */
  static hostNotAllowed(host: string): ApiError {
    const message = `This server is not called '${truncate(host)}' here. Call it as localhost or 127.0.0.1, or add the name to allowed_hosts in its configuration.`;
    return ApiError.#of("host_not_allowed", message, { param: "host" });
  }
  static originNotAllowed(origin: string): ApiError {
    const message = `Pages of '${truncate(origin)}' may not call this. Add it to cors.origins in the configuration.`;
    return ApiError.#of("host_not_allowed", message, { param: "origin" });
  }
  /** A browser acts by a cookie for a page that is not this server's own, or that it does not name. */
  static foreignPage(): ApiError {
    const message =
      "By a session only this server's own pages may change something: the request needs Sec-Fetch-Site: same-origin, or this server's Origin. Other programs send a key instead of the cookie.";
    return ApiError.#of("host_not_allowed", message, { param: "origin" });
  }
  static modelNotFound(model: string): ApiError {
    return ApiError.#of("model_not_found", `The model '${truncate(model)}' does not exist.`, { param: "model", model });
  }
  static notFound(message: string, param = ""): ApiError {
    return ApiError.#of("not_found", message, { param });
  }
  static methodNotAllowed(method: string, allow: readonly string[]): ApiError {
    const headers = { allow: allow.join(", ") };
    return ApiError.#of("method_not_allowed", `${method} is not allowed here; use ${allow.join(" or ")}.`, { headers });
  }
  /** @param seconds within which the body did not arrive */
  static requestTimeout(seconds: number): ApiError {
    const headers = { connection: "close" };
    return ApiError.#of("request_timeout", `The request body did not arrive within ${seconds} s.`, { headers });
  }
  static requestTooLarge(limitBytes: number): ApiError {
    return ApiError.#of("request_too_large", `The request body is larger than ${limitBytes} bytes.`);
  }
  static unsupportedMediaType(found: string): ApiError {
    const message = `Send the body as 'application/json'; this one is '${truncate(found)}'.`;
    return ApiError.#of("unsupported_media_type", message);
  }
  static idempotencyKeyReused(): ApiError {
    const message = "This service-request-id was already used with a different request.";
    const headers = { "x-should-retry": "false" };
    return ApiError.#of("idempotency_key_reused", message, { param: "service-request-id", headers });
  }
  /** An earlier call with the same service-request-id called tools, and has no answer to replay. */
  static toolsCalled(): ApiError {
    const message =
      "An earlier call with this service-request-id called tools and came to no answer. It is not repeated, as they would be called twice: use a new id to call again.";
    const headers = { "x-should-retry": "false" };
    return ApiError.#of("tools_called", message, { param: "service-request-id", headers });
  }
  /** @param retryAfterSeconds whole seconds until the next request can be taken */
  /** A persona's file that can't be saved here. */
  static personaNotWritable(message: string, cause?: unknown): ApiError {
    return ApiError.#of("persona_not_writable", message, { cause });
  }
  static personaChanged(message: string): ApiError {
    return ApiError.#of("persona_changed", message, { param: "if_hash" });
  }
  static personaInvalid(message: string): ApiError {
    return ApiError.#of("persona_invalid", message, { param: "text" });
  }
  static rateLimited(limitPerMinute: number, retryAfterSeconds: number): ApiError {
    const message = `Rate limit of ${limitPerMinute} requests per minute exceeded. Retry in ${retryAfterSeconds} s.`;
    return ApiError.#of("rate_limit_exceeded", message, { headers: retryAfter(retryAfterSeconds) });
  }
  /** @param limit how many responses a key may have under way in the background */
  static backgroundFull(limit: number): ApiError {
    const message = `This key has ${limit} responses under way in the background, as many as it may. Retry when one of them is done, or cancel one.`;
    return ApiError.#of("rate_limit_exceeded", message, { param: "background", headers: retryAfter(5) });
  }
  /** @param used, asked tokens; @param waitMs until they fit, Infinity: they never do */
  static tokensExceeded(
    { limit, used, asked, waitMs }: Readonly<Record<"limit" | "used" | "asked" | "waitMs", number>>,
    headers: Readonly<Record<string, string>> = {},
  ): ApiError {
    const fits = Number.isFinite(waitMs);
    const seconds = Math.ceil(waitMs / 1000);
    const remedy = fits ? `Retry in ${seconds} s.` : "Such a call never fits: shorten it, or lower its max_tokens.";
    const message = `Rate limit of ${limit} tokens per minute exceeded: ${used} used, ${asked} requested. ${remedy}`;
    const wait = fits ? retryAfter(seconds) : { "x-should-retry": "false" };
    return ApiError.#of("rate_limit_exceeded", message, { headers: { ...headers, ...wait } });
  }
  /**
   * @param opensInSeconds until the budget has money again; absent: not by itself. Clients that retry at once gain nothing.
   * @param isOfModel true where other models may be asked
   */
  static insufficientQuota(
    message: string,
    opensInSeconds?: number,
    headers: Readonly<Record<string, string>> = {},
    isOfModel = false,
  ): ApiError {
    const wait = opensInSeconds === undefined ? {} : retryAfter(opensInSeconds);
    const all = { ...headers, "x-should-retry": "false", ...wait };
    return ApiError.#of("insufficient_quota", message, { headers: all, isOfModel });
  }
  /** Calls under way hold what is left of a budget: there may be room in a moment. */
  static budgetHeld(
    message: string,
    retrySeconds: number,
    headers: Readonly<Record<string, string>> = {},
    isOfModel = false,
  ): ApiError {
    const all = { ...headers, ...retryAfter(retrySeconds) };
    return ApiError.#of("rate_limit_exceeded", message, { headers: all, isOfModel });
  }
  /**
   * @param budget "the day's budget of all calls"
   * @param tools that the provider runs, and may bill by the use
   * @param place in the request that names what only the provider knows the size of
   */
  static modelWithoutPrice(budget: string, tools: readonly string[] = [], place?: string): ApiError {
    if (place !== undefined) {
      const message = `${place}: how much it holds is known to the provider alone, so this call can't be held to ${budget}. Send what it holds itself; or the server's configuration can allow such calls by budgets.unknown_price.`;
      return ApiError.#of("model_without_price", message, { param: place });
    }
    const named = truncate(tools.join(", "));
    const remedy = tools.length === 0 ? "a price" : `a price, and one for each use of its tools (${named})`;
    const message = `What this call may cost is not known here, so it can't be held to ${budget}. The server's configuration can give its model ${remedy}, or allow such calls by budgets.unknown_price.`;
    return ApiError.#of("model_without_price", message, { param: "model" });
  }
  /** @param cause goes to the log and never to the client */
  static internal(cause?: unknown): ApiError {
    return ApiError.#of("internal_error", "Internal server error.", { cause });
  }
  /**
   * @param status of Responses 426, on which clients that would rather have one go on by HTTP; elsewhere 400
   * Source: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.22
   */
  /** @param place the path that takes them; absent: none does */
  static websocketsUnsupported(status: 400 | 426, place?: string): ApiError {
    const headers = status === 426 ? { connection: "close", upgrade: "HTTP/1.1" } : {};
    const message =
      place === undefined
        ? "WebSockets are not supported; use HTTP."
        : `There is no WebSocket here: Responses take one at ${place}. Else use HTTP.`;
    const error = ApiError.#of("websockets_unsupported", message, { headers });
    return new ApiError({ ...error.record(), status });
  }
  /** Clients are to ask again: nobody else does it for them, as an upstream may have taken the call. */
  static upstreamUnreachable(message: string, cause?: unknown): ApiError {
    return ApiError.#of("upstream_unreachable", message, {
      headers: { ...retryAfter(5), "x-should-retry": "true" },
      cause,
    });
  }
  static unavailable(
    code: "upstream_invalid_response" | "upstream_unavailable" | "draining" | "storage_unavailable" | "overloaded",
    message: string,
    { retryAfterSeconds = 5, cause }: { retryAfterSeconds?: number; cause?: unknown } = {},
  ): ApiError {
    return ApiError.#of(code, message, { headers: retryAfter(retryAfterSeconds), cause });
  }
  static upstreamTimeout(message: string): ApiError {
    return ApiError.#of("upstream_timeout", message);
  }
}

const bearer = { "www-authenticate": "Bearer" };
/** Anthropic's clients sleep for as long as they are told, whatever their own time limit says: beyond this they had better not. */
const maxSleepSeconds = 120;
const retryAfter = (seconds: number): Record<string, string> => ({
  "retry-after": String(seconds),
  ...(seconds > maxSleepSeconds && { "x-should-retry": "false" }),
});

/**
 * An error that an upstream reported inside an answer that began as a success: a 200 whose body is an error,
 * an error event in a stream, a terminal "failed" state.
 */
export class UpstreamFault extends Error {
  /** The upstream's own JSON, as it came: the text of the body or of the event's data. */
  readonly payload: string;
  /** The status this fault stands for, when nothing was answered yet. */
  readonly status: number;
  /** What the upstream counted by then, where it says so beside the error: it bills it. */
  readonly counted: Usage | undefined;

  constructor(payload: string, status: number, counted?: Usage) {
    super("the upstream reported an error inside its answer");
    this.name = "UpstreamFault";
    this.payload = payload;
    this.status = status;
    this.counted = counted;
  }
}

/**
 * Thrown where an upstream's answer can't be read, or breaks the order of its own format: words may be missing from it, so nothing of
 * it may pass for a whole answer.
 */
export class InvalidAnswer extends Error {
  /** @param what came, as in "the upstream sent …"; never holds what was said */
  constructor(what: string) {
    super(what);
    this.name = "InvalidAnswer";
  }
}

/**
 * Whatever a reader of answers threw, in the form that callers may see.
 * @param name the upstream's
 * @returns errors of the upstream and our own as they are; for all else `upstream_invalid_response`, with its cause
 */
export function readingError(error: unknown, name: string): ApiError | UpstreamFault {
  if (error instanceof ApiError || error instanceof UpstreamFault) return error;
  if (error instanceof InvalidAnswer) return invalid(`${name} sent ${error.message}.`);
  return invalid(`${name} sent an answer that can't be read.`, error);
}

function invalid(message: string, cause?: unknown): ApiError {
  return ApiError.unavailable("upstream_invalid_response", message, { cause });
}
