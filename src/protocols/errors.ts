/**
 * The kinds of failure. Ours is thrown (`ApiError`) and turned into JSON in one place; an upstream's is carried with its
 * bytes unchanged, and an adapter reports it by throwing `UpstreamFault`; what is neither an answer nor an error is told
 * by `InvalidAnswer`, which becomes an `ApiError` once the upstream's name is known.
 */
import { truncate } from "../lib/truncate.ts";

export type ErrorObject = { message: string; type: string; param: string; code: string };

/** All of an error but its cause, to be thrown again in another process. */
export type ToldError = ErrorObject & {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly model?: string;
};

type Details = { param?: string; headers?: Record<string, string>; cause?: unknown; model?: string | undefined };

/** Of a whole message, however many names it lists; a caller's text within it is cut before, so that the rest is read. */
const maxMessage = 2048;

/** Every error of our own. One static for each row of the table in `docs/errors.md`. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly param: string;
  /** Headers the answer must carry, e.g. `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The name of a model that is not known here. */
  readonly model: string | undefined;

  private constructor(status: number, type: string, code: string, message: string, details: Details = {}) {
    super(truncate(message, maxMessage), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "ApiError";
    this.status = status;
    this.type = type;
    this.code = code;
    this.param = truncate(details.param ?? "");
    this.headers = details.headers ?? {};
    this.model = details.model;
  }

  /** What clients see of it, in whatever form. */
  fields(): ErrorObject {
    return { message: this.message, type: this.type, param: this.param, code: this.code };
  }

  told(): ToldError {
    const { status, headers, model } = this;
    return { ...this.fields(), status, headers, ...(model !== undefined && { model }) };
  }

  /** What another process has told. */
  static again({ status, type, code, message, param, headers, model }: ToldError): ApiError {
    return new ApiError(status, type, code, message, { param, headers, model });
  }

  /** @returns the same error about a place that has another path in the client's own format */
  at(param: string): ApiError {
    const { status, type, code, headers, cause, model } = this;
    const message = this.message.startsWith(this.param) ? param + this.message.slice(this.param.length) : this.message;
    return new ApiError(status, type, code, message, { param, headers, cause, model });
  }

  /** @returns the same error with more in its message */
  with(hint: string): ApiError {
    const { status, type, code, message, param, headers, cause } = this;
    return new ApiError(status, type, code, message + hint, { param, headers, cause });
  }

  static invalidJson(message: string): ApiError {
    return new ApiError(400, "invalid_request_error", "invalid_json", message);
  }
  /** @param param the path of the value, e.g. `messages[0].role` */
  static invalidValue(param: string, message: string): ApiError {
    return new ApiError(400, "invalid_request_error", "invalid_value", message, { param });
  }
  static missingField(param: string): ApiError {
    return new ApiError(400, "invalid_request_error", "missing_field", `Missing required field: ${truncate(param)}.`, {
      param,
    });
  }
  /** A field the chosen model or provider can't honour, and that may not be dropped silently. */
  static unsupported(param: string, message: string): ApiError {
    return new ApiError(400, "invalid_request_error", "unsupported_parameter", message, { param });
  }
  static unknownProvider(message: string, model: string): ApiError {
    return new ApiError(400, "invalid_request_error", "unknown_provider", message, { param: "model", model });
  }
  /** A persona's backend refused the input itself; the message is ours. */
  static refusedInput(code: "context_length_exceeded" | "content_filter" | "invalid_value", message: string): ApiError {
    return new ApiError(400, "invalid_request_error", code, message, { param: "messages" });
  }
  /** One message for a missing, malformed, unknown, expired or revoked key: nothing to learn from it. */
  static unauthorized(): ApiError {
    return new ApiError(
      401,
      "authentication_error",
      "invalid_api_key",
      "Missing or invalid API key. Send it as 'Authorization: Bearer <API_KEY>', or in x-api-key, x-goog-api-key or api-key.",
      { headers: { "www-authenticate": "Bearer" } },
    );
  }
  /** @param model undefined where nothing tells which one is called, and the key may use some only */
  static modelNotAllowed(model: string | undefined): ApiError {
    const message =
      model === undefined
        ? "This API key may use some models only: here it may only POST JSON that names its model, or to a path that does."
        : `This API key may not use the model '${truncate(model)}'.`;
    return new ApiError(403, "permission_error", "model_not_allowed", message, { param: "model" });
  }
  /** @param permission a surface, or `raw` @param param the path of what needs it */
  static surfaceNotAllowed(permission: string, param = ""): ApiError {
    const message =
      permission === "raw"
        ? `${param === "" ? "This address" : param} leads to what a provider keeps for all of this server's keys: only keys with 'raw' among their surfaces may use it.`
        : `This API key may not use the ${permission}.`;
    return new ApiError(403, "permission_error", "surface_not_allowed", message, { param });
  }
  /** @param host as the request names it */
  static hostNotAllowed(host: string): ApiError {
    return new ApiError(
      403,
      "permission_error",
      "host_not_allowed",
      `This server is not called '${truncate(host)}' here. Call it as localhost or 127.0.0.1, or add the name to allowed_hosts in its configuration.`,
      { param: "host" },
    );
  }
  static modelNotFound(model: string): ApiError {
    return new ApiError(
      404,
      "invalid_request_error",
      "model_not_found",
      `The model '${truncate(model)}' does not exist.`,
      { param: "model", model },
    );
  }
  static notFound(message: string, param = ""): ApiError {
    return new ApiError(404, "invalid_request_error", "not_found", message, { param });
  }
  static methodNotAllowed(method: string, allow: readonly string[]): ApiError {
    return new ApiError(
      405,
      "invalid_request_error",
      "method_not_allowed",
      `${method} is not allowed here; use ${allow.join(" or ")}.`,
      { headers: { allow: allow.join(", ") } },
    );
  }
  /** @param seconds within which the body did not arrive */
  static requestTimeout(seconds: number): ApiError {
    return new ApiError(
      408,
      "invalid_request_error",
      "request_timeout",
      `The request body did not arrive within ${seconds} s.`,
      { headers: { connection: "close" } },
    );
  }
  static requestTooLarge(limitBytes: number): ApiError {
    return new ApiError(
      413,
      "invalid_request_error",
      "request_too_large",
      `The request body is larger than ${limitBytes} bytes.`,
    );
  }
  static unsupportedMediaType(found: string): ApiError {
    return new ApiError(
      415,
      "invalid_request_error",
      "unsupported_media_type",
      `Send the body as 'application/json'; this one is '${truncate(found)}'.`,
    );
  }
  static idempotencyKeyReused(): ApiError {
    return new ApiError(
      422,
      "invalid_request_error",
      "idempotency_key_reused",
      "This service-request-id was already used with a different request.",
      { param: "service-request-id", headers: { "x-should-retry": "false" } },
    );
  }
  /** @param retryAfterSeconds whole seconds until the next request can be taken */
  static rateLimited(limitPerMinute: number, retryAfterSeconds: number): ApiError {
    return new ApiError(
      429,
      "rate_limit_error",
      "rate_limit_exceeded",
      `Rate limit of ${limitPerMinute} requests per minute exceeded. Retry in ${retryAfterSeconds} s.`,
      { headers: { "retry-after": String(retryAfterSeconds) } },
    );
  }
  /** @param limit how many responses a key may have under way in the background */
  static backgroundFull(limit: number): ApiError {
    return new ApiError(
      429,
      "rate_limit_error",
      "rate_limit_exceeded",
      `This key has ${limit} responses under way in the background, as many as it may. Retry when one of them is done, or cancel one.`,
      { param: "background", headers: { "retry-after": "5" } },
    );
  }
  /** @param used, asked tokens; @param waitMs until they fit, Infinity: they never do */
  static tokensExceeded(
    { limit, used, asked, waitMs }: Readonly<Record<"limit" | "used" | "asked" | "waitMs", number>>,
    headers: Readonly<Record<string, string>> = {},
  ): ApiError {
    const fits = Number.isFinite(waitMs);
    const seconds = Math.ceil(waitMs / 1000);
    const remedy = fits ? `Retry in ${seconds} s.` : "Such a call never fits: shorten it, or lower its max_tokens.";
    return new ApiError(
      429,
      "rate_limit_error",
      "rate_limit_exceeded",
      `Rate limit of ${limit} tokens per minute exceeded: ${used} used, ${asked} requested. ${remedy}`,
      { headers: { ...headers, ...(fits ? { "retry-after": String(seconds) } : { "x-should-retry": "false" }) } },
    );
  }
  /** @param opensInSeconds until the budget has money again; absent: not by itself. Clients that retry at once gain nothing. */
  static insufficientQuota(message: string, opensInSeconds?: number): ApiError {
    return new ApiError(429, "insufficient_quota", "insufficient_quota", message, {
      headers: {
        "x-should-retry": "false",
        ...(opensInSeconds !== undefined && { "retry-after": String(opensInSeconds) }),
      },
    });
  }
  /** Calls under way hold what is left of a budget: there may be room in a moment. */
  static budgetHeld(message: string, retrySeconds: number): ApiError {
    return new ApiError(429, "rate_limit_error", "rate_limit_exceeded", message, {
      headers: { "retry-after": String(retrySeconds) },
    });
  }
  /** @param budget "the day's budget of all calls" @param tools that the provider runs, and may bill by the use */
  static modelWithoutPrice(budget: string, tools: readonly string[] = []): ApiError {
    const named = truncate(tools.join(", "));
    const remedy = tools.length === 0 ? "a price" : `a price, and one for each use of its tools (${named})`;
    return new ApiError(
      403,
      "permission_error",
      "model_without_price",
      `What this call may cost is not known here, so it can't be held to ${budget}. The server's configuration can give its model ${remedy}, or allow such calls by budgets.unknown_price.`,
      { param: "model" },
    );
  }
  /** @param cause goes to the log and never to the client */
  static internal(cause?: unknown): ApiError {
    return new ApiError(500, "server_error", "internal_error", "Internal server error.", { cause });
  }
  /**
   * @param status of Responses 426, on which clients that would rather have one go on by HTTP; elsewhere 400
   * Source: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.22
   */
  static websocketsUnsupported(status: 400 | 426): ApiError {
    const headers = status === 426 ? { connection: "close", upgrade: "HTTP/1.1" } : {};
    const message = "WebSockets are not supported; use HTTP.";
    return new ApiError(status, "invalid_request_error", "websockets_unsupported", message, { headers });
  }
  /** Clients are told to ask again: nobody else does it for them, as an upstream may have taken the call. */
  static upstreamUnreachable(message: string, cause?: unknown): ApiError {
    return new ApiError(503, "server_error", "upstream_unreachable", message, {
      headers: { "retry-after": "5", "x-should-retry": "true" },
      cause,
    });
  }
  static unavailable(
    code: "upstream_invalid_response" | "upstream_unavailable" | "draining" | "storage_unavailable" | "overloaded",
    message: string,
    details: { retryAfterSeconds?: number; cause?: unknown } = {},
  ): ApiError {
    return new ApiError(503, "server_error", code, message, {
      headers: { "retry-after": String(details.retryAfterSeconds ?? 5) },
      cause: details.cause,
    });
  }
  static upstreamTimeout(message: string, cause?: unknown): ApiError {
    return new ApiError(504, "timeout_error", "upstream_timeout", message, { cause });
  }
}

/**
 * An error that an upstream reported inside an answer that began as a success: a 200 whose body is an error,
 * an error event in a stream, a terminal "failed" state.
 */
export class UpstreamFault extends Error {
  /** The upstream's own JSON, as it came: the text of the body or of the event's data. */
  readonly payload: string;
  /** The status this fault stands for, when nothing was answered yet. */
  readonly status: number;

  constructor(payload: string, status: number) {
    super("the upstream reported an error inside its answer");
    this.name = "UpstreamFault";
    this.payload = payload;
    this.status = status;
  }
}

/**
 * What an upstream sent can't be read, or breaks the order of its own format: words may be missing from it, so nothing of
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
