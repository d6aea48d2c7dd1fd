import { describe, expect, test } from "bun:test";
import { ApiError } from "../../../src/protocols/errors.ts";
import { cooldownAfterAnswer, cooldownAfterFault, type FailureVerdict } from "../../../src/upstream/pool/cooldowns.ts";

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const now = Date.parse("2026-11-23T12:00:00Z");
const known = (times: number) => ({ now, failures: { key: times, model: times, endpoint: times } });
const nothing: FailureVerdict = { ms: 0, isStated: false, mayRepeat: false };
const key = (reason: "unauthorized" | "quota", ms: number, isStated = false): FailureVerdict => ({
  cools: "key",
  reason,
  ms,
  isStated,
  mayRepeat: true,
});
const model = (ms: number, isStated: boolean): FailureVerdict => ({
  cools: "model",
  reason: "rate_limit",
  ms,
  isStated,
  mayRepeat: true,
});
const endpoint = (
  reason: "server_error" | "timeout",
  ms: number,
  mayRepeat: boolean,
  isStated = false,
): FailureVerdict => ({
  cools: "endpoint",
  reason,
  ms,
  isStated,
  mayRepeat,
});

describe("an answered error", () => {
  test.each<[string, number, string, Record<string, string>, number, FailureVerdict]>([
    ["a wrong key", 401, "Incorrect API key provided", {}, 1, key("unauthorized", hour)],
    [
      "Google's wrong key",
      400,
      '{"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}',
      {},
      1,
      key("unauthorized", hour),
    ],
    [
      "xAI's wrong key",
      400,
      '{"code":"x","error":"Incorrect API key provided: xa***"}',
      {},
      1,
      key("unauthorized", hour),
    ],
    ["a key without rights", 403, "forbidden", {}, 1, key("unauthorized", hour)],
    ["a filtered text", 403, "Content violates usage guidelines. Failed check: SAFETY_CHECK", {}, 1, nothing],
    [
      "a model that the project may not use",
      403,
      '{"error":{"message":"Project `p` does not have access to model `m`","code":"model_not_found"}}',
      {},
      1,
      { ...nothing, mayRepeat: true },
    ],
    ["no credit", 402, "Insufficient credits", {}, 1, key("quota", hour)],
    ["no credit with an end", 402, "", { "retry-after": "120" }, 1, key("quota", 2 * minute, true)],
    [
      "Anthropic's limit with its date",
      400,
      '{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}',
      {},
      1,
      key("quota", 7.5 * 24 * hour, true),
    ],
    [
      "a date that is over",
      400,
      '{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-11-01 at 00:00 UTC."}}',
      {},
      1,
      key("quota", hour),
    ],
    [
      "Anthropic's balance",
      400,
      '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}',
      {},
      1,
      key("quota", hour),
    ],
    [
      "OpenAI's quota",
      429,
      '{"error":{"code":"insufficient_quota"}}',
      { "retry-after": "1" },
      1,
      key("quota", second, true),
    ],
    [
      "xAI's credits",
      403,
      "Your team has either used all available credits or reached its monthly spending limit.",
      {},
      1,
      key("quota", hour),
    ],
    ["a rate limit", 429, "", { "retry-after": "7" }, 3, model(7 * second, true)],
    ["a rate limit in milliseconds", 429, "", { "retry-after": "8", "retry-after-ms": "7500" }, 1, model(7500, true)],
    ["a rate limit with a date", 429, "", { "retry-after": "Mon, 23 Nov 2026 12:01:00 GMT" }, 1, model(minute, true)],
    ["a date before now", 429, "", { "retry-after": "Mon, 23 Nov 2026 11:01:00 GMT" }, 1, model(10 * second, false)],
    ["a zero", 429, "", { "retry-after": "0" }, 1, model(10 * second, false)],
    ["a rate limit that is absurd", 429, "", { "retry-after": "99999999" }, 1, model(24 * hour, true)],
    ["a Unix time", 429, "", { "retry-after": String(now / 1000 + 30) }, 1, model(30 * second, true)],
    ["a Unix time in milliseconds", 429, "", { "retry-after": String(now + 30_000) }, 1, model(30 * second, true)],
    ["a Unix time before now", 429, "", { "retry-after": String(now / 1000 - 30) }, 1, model(10 * second, false)],
    [
      "one of a server that is overloaded",
      503,
      "",
      { "retry-after": String(now / 1000 + 30) },
      1,
      endpoint("server_error", 30 * second, true, true),
    ],
    [
      "the reset of the one limit that is used up",
      429,
      "",
      {
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-23T12:00:40Z",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-23T12:00:01Z",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2026-11-23T12:00:20Z",
      },
      1,
      model(40 * second, true),
    ],
    ["a reset in Unix seconds", 429, "", { "x-ratelimit-reset": String(now / 1000 + 12) }, 1, model(12 * second, true)],
    ["one in milliseconds", 429, "", { "x-ratelimit-reset": String(now + 12_000) }, 1, model(12 * second, true)],
    ["one as a span", 429, "", { "ratelimit-reset": "12" }, 1, model(12 * second, true)],
    [
      "OpenAI's, in words",
      429,
      "",
      {
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0.5s",
      },
      1,
      model(360.5 * second, true),
    ],
    [
      "the word of Retry-After before a reset",
      429,
      "",
      { "retry-after": "7", "x-ratelimit-reset-requests": "120ms" },
      1,
      model(7 * second, true),
    ],
    ["a reset that is over", 429, "", { "x-ratelimit-reset": String(now / 1000 - 9) }, 1, model(10 * second, false)],
    ["a reset that is none", 429, "", { "x-ratelimit-reset": "soon" }, 1, model(10 * second, false)],
    ["a reset in a year", 429, "", { "x-ratelimit-reset": String(now / 1000 + 3e7) }, 1, model(24 * hour, true)],
    [
      "a spent quota, whatever its limits say",
      429,
      '{"error":{"code":"insufficient_quota"}}',
      { "x-ratelimit-reset-requests": "1s" },
      1,
      key("quota", hour),
    ],
    ["a spent quota in a 400", 400, '{"error":{"code":"insufficient_quota","message":"x"}}', {}, 1, key("quota", hour)],
    [
      "a 400 that quotes such a code",
      400,
      JSON.stringify({ error: { code: "invalid_prompt", message: 'no: {"code":"insufficient_quota"}' } }),
      {},
      1,
      nothing,
    ],
    [
      "Anthropic's contract limit",
      429,
      '{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"contract_spend_limit_reached"}}}',
      {},
      1,
      key("quota", hour),
    ],
    [
      "the limit of its tier, in a 400",
      400,
      '{"type":"error","error":{"type":"billing_error","details":{"error_code":"enforced_spend_limit_reached"}}}',
      { "retry-after": String(now / 1000 + 7200) },
      1,
      key("quota", 2 * hour, true),
    ],
    ["a second rate limit in a row", 429, "", {}, 2, model(20 * second, false)],
    ["a hundredth", 429, "", {}, 100, model(5 * minute, false)],
    ["an error of the server", 500, "", {}, 1, endpoint("server_error", 0, true)],
    ["a third in a row", 529, "", {}, 3, endpoint("server_error", 5 * second, true)],
    ["a fifth", 503, "", {}, 5, endpoint("server_error", 20 * second, true)],
    ["a hundredth of them", 503, "", {}, 100, endpoint("server_error", 5 * minute, true)],
    ["one with an end", 503, "", { "retry-after": "30" }, 1, endpoint("server_error", 30 * second, true, true)],
    ["a proxy's time-out", 504, "", {}, 3, endpoint("timeout", 5 * second, false)],
    ["Cloudflare's", 524, "", {}, 1, endpoint("timeout", 0, false)],
    [
      "a text that its caller wrote",
      400,
      '{"error":{"message":"Invalid value: \'Your credit balance is too low\'."}}',
      {},
      1,
      nothing,
    ],
    [
      "a code that its caller wrote",
      400,
      '{"error":{"message":"no role {\\"code\\":\\"billing_not_active\\"}, insufficient_quota"}}',
      {},
      1,
      nothing,
    ],
    [
      "too little credit for so long an answer",
      402,
      "This request requires more credits, or fewer max_tokens.",
      {},
      1,
      { ...nothing, mayRepeat: true },
    ],
    ["a wrong request", 400, "This model's maximum context length is 8", {}, 1, nothing],
    [
      "a model that is called like a spent account",
      404,
      '{"error":{"message":"The model `insufficient_quota` does not exist","code":"model_not_found"}}',
      {},
      1,
      nothing,
    ],
    [
      "such a model that the project may not use",
      403,
      '{"error":{"message":"Project `p` does not have access to model `insufficient_quota`","code":"model_not_found"}}',
      {},
      1,
      { ...nothing, mayRepeat: true },
    ],
    ["a field that is quoted", 422, '{"detail":[{"input":"insufficient credits"}]}', {}, 1, nothing],
    ["no such model", 404, "model_not_found", {}, 1, nothing],
    ["too large", 413, "", {}, 1, nothing],
  ])("%s", (_, status, text, headers, failures, verdict) => {
    expect(cooldownAfterAnswer({ status, text, headers }, known(failures))).toEqual(verdict);
  });
});

describe("a call without an answer", () => {
  test.each<[ApiError, boolean, number, Partial<FailureVerdict>]>([
    [ApiError.upstreamUnreachable("x"), false, 1, { reason: "unreachable", ms: 0, mayRepeat: true }],
    [ApiError.upstreamUnreachable("x"), true, 3, { reason: "unreachable", ms: 5 * second, mayRepeat: false }],
    [ApiError.upstreamTimeout("x"), true, 4, { reason: "timeout", ms: 10 * second, mayRepeat: false }],
    [ApiError.upstreamTimeout("x"), false, 1, { reason: "timeout", mayRepeat: true }],
    [ApiError.unavailable("upstream_invalid_response", "x"), true, 1, { reason: "broken", mayRepeat: false }],
  ])("%s, sent: %p", (error, wasSent, failures, verdict) => {
    expect(cooldownAfterFault(error, wasSent, known(failures))).toMatchObject({ cools: "endpoint", ...verdict });
  });
});

test.each([401, 403])("a refused secret that is fetched anew (%p) gives its account a rest of a minute", (status) => {
  const verdict = cooldownAfterAnswer({ status, headers: {}, text: "no" }, { ...known(1), isKeyless: true });
  expect(verdict).toEqual(key("unauthorized", minute));
});
