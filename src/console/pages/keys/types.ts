export type { Budget } from "../../../api/budgets.ts";
export type { Key, KeyPage, KeyStatus, NewKey } from "../../../api/keys.ts";

export const tiers = ["free", "pro", "enterprise"];
export const surfaces = ["orchestrator", "gateway", "admin", "raw", "preview"];
export const periods = ["day", "month", "prepaid"];
export const stateTones = { active: "ok", expired: "warn", revoked: "quiet" } as const;

/** A whole key that somebody looks for must not get into addresses: its beginning finds it. */
export const withoutSecret = (text: string) => text.replace(/\b(trp_\w{8})\w+/g, "$1");
