/** Words that answers are made of. */

export const keyStates = ["active", "expired", "revoked"] as const;
export type KeyState = (typeof keyStates)[number];

/** What budgets hold for: a day or a month in UTC, or altogether, for a sum that is paid in advance and stays until it is spent. */
export const periods = ["day", "month", "prepaid"] as const;
export type BudgetPeriod = (typeof periods)[number];

/** How a budget stands. `low`: four fifths are used, or reserved by calls under way. `spent`: nothing is left. */
export const healths = ["ok", "low", "spent"] as const;
export type BudgetHealth = (typeof healths)[number];

/**
 * End of an attempt. `finished`: a whole answer came. `broken`: the upstream failed, before or within its answer. `abandoned`: the
 * client left. `interrupted`: the process ended before it. `refused`: Troupe or the upstream refused the request. `replayed`, `joined`: the
 * answer is another call's.
 */
export const callEnds = ["finished", "broken", "abandoned", "interrupted", "refused", "replayed", "joined"] as const;

export type CallEnd = (typeof callEnds)[number];

/**
 * Reasons for which an attempt was left without a whole answer. The request's own: `invalid_request`, `context_length`, `content_filter`.
 * `unauthorized`, `quota`: the key is rejected, or spent. `not_found`: the address or the model is wrong. `unreachable`: nobody got the
 * request. `broken`: the answer can't be read, or ended before its end.
 */
export const failureReasons = [
  ...(["invalid_request", "context_length", "content_filter"] as const),
  ...(["unauthorized", "quota", "not_found", "rate_limit"] as const),
  ...(["server_error", "timeout", "unreachable", "broken"] as const),
] as const;

export type FailureReason = (typeof failureReasons)[number];

/** Sources of a price. `none`: nothing was billed; `unknown`: the cost is. */
export const priceSources = ["upstream", "configuration", "list", "fallback", "free", "none", "unknown"] as const;

export type PriceSource = (typeof priceSources)[number];

/**
 * Times to the first token are counted in buckets that end at these, in milliseconds; a further bucket has what took longer. Each is half as long again as
 * the one before it, or less: quantiles are as exact as that.
 */
export const firstTokenBounds: readonly number[] = [
  ...[50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200, 4800, 6400, 9600, 12_800, 19_200],
  ...[25_600, 38_400, 51_200, 76_800, 102_400],
];

/** What the audit knows, each by what it was done to. Older lines may have others. */
export type ActName =
  | `key.${"create" | "update" | "rotate" | "revoke"}`
  | `budget.${"set" | "top-up" | "remove"}`
  | `persona.${"save" | "save_tests" | "rollback" | "label" | "test"}`
  | `${"preview" | "report"}.${"push" | "drop"}`
  | `variant.${"stop" | "resume" | "promote"}`
  | `session.${"create" | "end" | "sign_out"}`
  | `facts.${"update" | "rollback"}`
  | "reconcile.run"
  | "provider.test"
  | "playground.call"
  | "content.read"
  | "doctor.call";
