/** Keys and budgets as the admin API has them. */
export type Key = {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly state: "active" | "expired" | "revoked";
  readonly tier: string;
  readonly per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly surfaces: readonly string[];
  readonly models: readonly string[];
  readonly tags: readonly string[];
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly old_key_expires_at: string | null;
};
export type NewKey = Key & { readonly key: string };

export type Budget = {
  readonly id: string;
  readonly scope: string;
  /** The models whose calls alone count. */
  readonly model?: string;
  readonly name: string | null;
  readonly period: string;
  readonly origin: string;
  /** Dollars, as below. */
  readonly dollars: number;
  readonly spent: number;
  readonly reserved: number;
  readonly left: number;
  readonly resets_at: string | null;
  readonly state: "ok" | "low" | "spent";
  readonly runs_out_at: string | null;
};

export type KeyStatus = {
  readonly last_call: null | {
    readonly request_id: string;
    readonly at: string;
    readonly client: string | null;
    readonly model: string;
    readonly ended: string;
  };
  readonly budgets: readonly Budget[];
};

export type Listed<T> = {
  readonly data: readonly T[];
  readonly has_more: boolean;
  readonly last_id: string | null;
  readonly total?: number;
};

export const tiers = ["free", "pro", "enterprise"];
export const surfaces = ["orchestrator", "gateway", "admin", "raw", "preview"];
export const periods = ["day", "month", "prepaid"];
export const stateTones = { active: "ok", expired: "warn", revoked: "quiet" } as const;

/** The first choice of a filter: all. */
export const anyOf = (title: string, values: readonly string[]) => [
  { value: "", title },
  ...values.map((value) => ({ value, title: value })),
];

/** A whole key that somebody looks for must not get into addresses: its beginning finds it. */
export const withoutSecret = (text: string) => text.replace(/\b(trp_\w{8})\w+/g, "$1");
