/** What the page asks of its server. Addresses are relative, for proxies with a prefix. */

type Sums = {
  readonly calls: number;
  readonly tokens: Readonly<Record<string, number>>;
  readonly cost_micro_dollars: number;
  readonly unknown_cost_calls: number;
};
export type Budget = {
  readonly id: string;
  readonly scope: string;
  readonly model?: string;
  readonly period: string;
  readonly limit_micro_dollars: number;
  readonly spent_micro_dollars: number;
  readonly left_micro_dollars: number;
  readonly resets_at: string | null;
};
export type Model = { readonly id: string; readonly surface: string; readonly description?: string };
export type FailedCall = {
  readonly at: string;
  readonly request_id: string;
  readonly model: string;
  readonly ended: string;
  readonly status: number | null;
  readonly error_code: string | null;
  readonly error_text: string | null;
};
/** As `GET /v1/account` answers. */
export type Account = {
  readonly key: {
    readonly name: string;
    readonly tier: string;
    readonly surfaces: readonly string[];
    readonly expires_at: string | null;
    readonly old_key_expires_at: string | null;
  };
  readonly limits: { readonly requests_per_minute: number; readonly tokens_per_minute: number | null };
  readonly usage: {
    readonly since: string;
    readonly until: string;
    readonly by_day: readonly (Sums & { readonly day: string })[];
    readonly by_model: readonly (Sums & { readonly model: string })[];
    readonly total: Sums;
  };
  readonly budgets: readonly Budget[];
  readonly models: { readonly data: readonly Model[]; readonly has_more: boolean };
  readonly failed: readonly FailedCall[];
  readonly rotation: { readonly allowed: boolean; readonly grace_seconds: number };
  readonly base_urls: Readonly<Record<string, string>>;
};

/** An answer that is an error, in the server's words. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @throws Refused; TypeError where the server does not answer */
export async function ask<T>(path: string, method = "GET", body?: object): Promise<T> {
  const answer = await fetch(`account/${path}`, {
    method,
    ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text) as T;
  throw refusedBy(answer.status, text);
}

function refusedBy(status: number, text: string): Refused {
  try {
    const { error } = JSON.parse(text) as { readonly error: { readonly code?: string; readonly message: string } };
    return new Refused(status, error.code ?? "", error.message);
  } catch {
    return new Refused(status, "", `The server answered ${status}.`);
  }
}

export const wordsOf = (error: unknown): string =>
  error instanceof Refused ? error.message : "The server does not answer. Try again in a moment.";
