/**
 * Decides what is in cooldown after a failed call, and for how long: one table, without a clock or a memory of its own.
 *
 * A key is given a cooldown for what is wrong with the key, an endpoint for what is wrong with the server. What is wrong with the request
 * gives nothing a cooldown, and is asked of nobody else: the caller gets that answer.
 */
import { resetMs, retryAfterMs } from "../../lib/http/retry-after.ts";
import { ApiError } from "../../protocols/errors.ts";

/** `model`: the key, for one model. */
export type CooldownScope = "key" | "model" | "endpoint";

export type CooldownReason =
  | "unauthorized"
  | "quota"
  | "rate_limit"
  | "server_error"
  | "timeout"
  | "unreachable"
  | "broken";

export type FailureVerdict = {
  /** Absent: nothing does. */
  readonly cools?: CooldownScope;
  readonly reason?: CooldownReason;
  /** Milliseconds; 0: not yet, it is counted only. */
  readonly ms: number;
  /** True if the upstream named the end. */
  readonly isStated: boolean;
  /** True if nothing was answered and nothing billed, so that another key or endpoint may be asked the same. */
  readonly mayRepeat: boolean;
};

export type Failure = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The beginning of the body. */
  readonly text: string;
};

/** What is known beside the failure. */
export type Known = {
  /** Unix time in milliseconds. */
  readonly now: number;
  /** Failures of that kind in a row, this one included, for each thing that may be in cooldown. */
  readonly failures: Readonly<Record<CooldownScope, number>>;
  /** True without a key: a token or a signature's secret that is refused is fetched anew. */
  readonly isKeyless?: boolean;
};

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Without a stated end: a rejected or spent key. */
const keyCooldown = hour;
/** A refused secret that the server fetches itself: the next one may be good, and is fetched after a minute at the soonest. */
const secretCooldown = minute;
/** A rate limit that names no end: doubled with each in a row. */
const rateLimitCooldown = { first: 10 * second, longest: 5 * minute };
/** An endpoint is in cooldown from this failure in a row on; each one more doubles the cooldown. */
const failuresToCooldown = 3;
const endpointCooldown = { first: 5 * second, longest: 5 * minute };
/** Nobody means a longer one; a spent month is no longer. */
const longest = { rateLimit: day, quota: 32 * day, endpoint: hour };

const nothing: FailureVerdict = { ms: 0, isStated: false, mayRepeat: false };

/** The statuses of a spent account. Others, as a 404 or a 422, may quote whatever their caller wrote, such as a model's name. */
const spentStatuses: ReadonlySet<number> = new Set([402, 403, 429]);

/**
 * Texts of a spent account. Sources:
 * OpenAI, 429 `insufficient_quota`: https://platform.openai.com/docs/guides/error-codes
 * DeepSeek, 402 "Insufficient Balance": https://api-docs.deepseek.com/quick_start/error_codes
 * Moonshot, 403 for an insufficient balance: https://www.kimi.com/help/kimi-api/api-troubleshooting
 * xAI, 403 and 429 "used all available credits or reached its monthly spending limit": https://github.com/continuedev/continue/issues/10373
 * Anthropic, `contract_spend_limit_reached` and its like: `ErrorDetails` of https://github.com/anthropics/anthropic-sdk-typescript
 */
const spent =
  /insufficient_quota|spend_limit_reached|linked_organization_billing_unavailable|exceeded_current_quota|billing_hard_limit_reached|billing_not_active|insufficient (?:account )?(?:balance|credits?|funds)|used all available credits|monthly spending limit/i;

/**
 * The same where the status is that of a wrong request, which may quote what its caller wrote: at the beginning of the message, or as a code.
 * Sources: https://platform.claude.com/docs/en/api/errors, https://github.com/anthropics/claude-code/issues/38038 (the date),
 * https://github.com/anthropics/claude-code/issues/867 (the balance)
 */
const spentByRequest =
  /"message"\s*:\s*"(?:You have reached your specified (?:workspace )?API usage limits|Your credit balance is too low)|"(?:error_)?(?:code|type)"\s*:\s*"(?:insufficient_quota|\w*spend_limit_reached|billing_(?:hard_limit_reached|not_active))"/i;

/** OpenRouter has some credit left, but not for so long an answer. Source: https://github.com/can1357/oh-my-pi/issues/9569 */
const tooLongToPay = /requires more credits, or fewer max_tokens/i;

/** A wrong key that is answered with 400. Sources: https://ai.google.dev/gemini-api/docs/troubleshooting, https://docs.x.ai/docs/key-information/debugging */
const wrongKey =
  /"reason"\s*:\s*"API_KEY_INVALID"|"(?:message|error)"\s*:\s*"(?:Incorrect API key|API key (?:not valid|not found|expired|is invalid))/i;

/** 403 for what the request says, or for the model alone: the key is good. */
const ofRequest = /content.?(?:filter|policy|management)|safety|moderation|prohibited|usage (?:policies|guidelines)/i;
const ofModel =
  /model_not_found|(?:access to|allowed to (?:use|sample from)) (?:the )?model|model.{0,80}(?:access|not allowed)/i;

/** @returns what is in cooldown after an error that the upstream answered */
export function cooldownAfterAnswer(failure: Failure, known: Known): FailureVerdict {
  const { status, text } = failure;
  if (status === 402 && tooLongToPay.test(text)) return { ...nothing, mayRepeat: true };
  if (isSpent(failure)) return quota(failure, known.now);
  if (status === 401 || (status === 400 && wrongKey.test(text))) return unauthorized(known);
  if (status === 403 && ofRequest.test(text)) return nothing;
  if (isOfModel(failure)) return { ...nothing, mayRepeat: true };
  if (status === 403) return unauthorized(known);
  if (status === 429) return rateLimit(failure, known);
  // A proxy's time-out, 524 is Cloudflare's: what is behind it may have answered, and billed.
  if (status === 408 || status === 504 || status === 524) return endpoint("timeout", known, false);
  if (status >= 500) return endpoint("server_error", known, true, statedMs(failure, known.now));
  return nothing;
}

/** It quotes the name of the model, which its caller may have made up. */
const isOfModel = ({ status, text }: Pick<Failure, "status" | "text">): boolean => status === 403 && ofModel.test(text);

/** True for an account whose money or quota is spent, whatever the status says. */
export function isSpent({ status, text }: Pick<Failure, "status" | "text">): boolean {
  if (status === 402) return true;
  if (status === 400) return spentByRequest.test(text);
  return spentStatuses.has(status) && !isOfModel({ status, text }) && spent.test(text);
}

/** True for an error that is the upstream's, or of the way to it. */
export const isUpstreamFault = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.status >= 500 && error.code.startsWith("upstream_");

/** @param wasSent false if the upstream can't have got the whole request @returns what is in cooldown after a call without a whole answer */
export function cooldownAfterFault(error: ApiError, wasSent: boolean, known: Known): FailureVerdict {
  const reason =
    error.code === "upstream_timeout" ? "timeout" : error.code === "upstream_unreachable" ? "unreachable" : "broken";
  return endpoint(reason, known, !wasSent);
}

const unauthorized = ({ isKeyless }: Known): FailureVerdict => ({
  cools: "key",
  reason: "unauthorized",
  ms: isKeyless === true ? secretCooldown : keyCooldown,
  isStated: false,
  mayRepeat: true,
});

function quota(failure: Failure, now: number): FailureVerdict {
  const stated = statedDate(failure.text, now) ?? statedMs(failure, now);
  const ms = Math.min(stated ?? keyCooldown, longest.quota);
  return { cools: "key", reason: "quota", ms, isStated: stated !== undefined, mayRepeat: true };
}

/** Providers limit each model for itself. Sources: https://platform.openai.com/docs/guides/rate-limits, https://platform.claude.com/docs/en/api/rate-limits */
function rateLimit(failure: Failure, { now, failures }: Known): FailureVerdict {
  const stated = statedMs(failure, now) ?? resetIn(failure, now);
  const ms = stated === undefined ? doubled(rateLimitCooldown, failures.model) : Math.min(stated, longest.rateLimit);
  return { cools: "model", reason: "rate_limit", ms, isStated: stated !== undefined, mayRepeat: true };
}

function endpoint(reason: CooldownReason, { failures }: Known, mayRepeat: boolean, stated?: number): FailureVerdict {
  const isBroken = failures.endpoint >= failuresToCooldown;
  const own = isBroken ? doubled(endpointCooldown, failures.endpoint - failuresToCooldown + 1) : 0;
  const ms = stated === undefined ? own : Math.max(own, Math.min(stated, longest.endpoint));
  return { cools: "endpoint", reason, ms, isStated: stated !== undefined && stated >= own, mayRepeat };
}

const doubled = (cooldown: { readonly first: number; readonly longest: number }, times: number) =>
  Math.min(cooldown.longest, cooldown.first * 2 ** Math.min(30, Math.max(0, times - 1)));

/**
 * Reads `retry-after-ms` and `Retry-After`.
 * Source: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/quota
 */
function statedMs({ headers }: Failure, now: number): number | undefined {
  const ms = Number(headers["retry-after-ms"]?.trim() || Number.NaN);
  return ms > 0 && Number.isFinite(ms) ? ms : retryAfterMs(headers["retry-after"], now);
}

/**
 * Headers that say when a limit is reset, each beside one that says what remains of it. Sources:
 * https://platform.claude.com/docs/en/api/rate-limits#response-headers, https://platform.openai.com/docs/guides/rate-limits (headers),
 * https://openrouter.ai/docs/api-reference/limits, https://console.groq.com/docs/rate-limits,
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers
 */
const resetHeader = /^(?:anthropic-|x-)?ratelimit-(?:[a-z0-9-]+-)?reset(?:-[a-z0-9-]+)?$/;

/** True for a header that says how much of a limit is left, or when it is reset. */
export const isLimitHeader = (name: string): boolean => resetHeader.test(name.replace("remaining", "reset"));

/** @returns the time until the last of the limits that are used up is reset; until the first of all where none says that it is */
function resetIn({ headers }: Failure, now: number): number | undefined {
  const all: number[] = [];
  const spent: number[] = [];
  for (const [name, text] of Object.entries(headers)) {
    const ms = resetHeader.test(name) ? resetMs(text, now) : undefined;
    if (ms === undefined) continue;
    all.push(ms);
    if (Number(headers[name.replace("reset", "remaining")]?.trim() || 1) <= 0) spent.push(ms);
  }
  if (spent.length > 0) return Math.max(...spent);
  return all.length > 0 ? Math.min(...all) : undefined;
}

/** "You will regain access on 2026-04-01 at 00:00 UTC." */
function statedDate(text: string, now: number): number | undefined {
  const [, on = "", at = "00:00"] = /regain access on (\d{4}-\d{2}-\d{2})(?:(?: at |T)(\d{2}:\d{2}))?/.exec(text) ?? [];
  const date = Date.parse(`${on}T${at}:00Z`);
  return date > now ? date - now : undefined;
}
