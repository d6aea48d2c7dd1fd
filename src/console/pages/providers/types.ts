/** What the admin API gives of providers. */
import type { Tone } from "../../ui/layout.tsx";
import type { Workers } from "../../workers.ts";

export type Rest = {
  readonly model: string | null;
  readonly reason: string;
  readonly until: string;
  readonly workers: number;
};

/** A key at an endpoint. */
export type ProviderKey = {
  readonly fingerprint: string;
  readonly name: string | null;
  readonly endpoint: string;
  readonly weight: number;
  readonly calls_under_way: number;
  readonly first_token_ms: number | null;
  readonly rests: readonly Rest[];
  readonly breaker: {
    readonly state: "closed" | "open" | "half_open";
    readonly reason: string | null;
    readonly until: string | null;
    readonly workers: number;
    readonly failures: number;
  };
};

export type Provider = {
  readonly id: string;
  readonly dialect: string;
  readonly state: "ok" | "degraded" | "resting";
  readonly strategy: string;
  readonly keys: readonly ProviderKey[];
  readonly workers: Workers;
};

export type LastError = {
  readonly at: string;
  readonly request_id: string;
  readonly reason: string;
  readonly status: number | null;
  readonly error_code: string | null;
  readonly error_text: string | null;
  readonly key: string | null;
  readonly endpoint: string | null;
};

export type ProviderDetail = Provider & {
  readonly last_hour: {
    readonly attempts: number;
    readonly failures: number;
    readonly error_rate: number | null;
    readonly first_token_ms: { readonly p50: number | null; readonly p95: number | null };
  };
  readonly last_errors: readonly LastError[];
};

export const stateTones: Readonly<Record<Provider["state"], Tone>> = { ok: "ok", degraded: "warn", resting: "bad" };

/** The secret itself is nowhere: a key is known by its name in the configuration, or the beginning of a hash. */
export const keyName = ({ name, fingerprint }: Pick<ProviderKey, "name" | "fingerprint">): string =>
  name ?? (fingerprint === "" ? "no key" : fingerprint);

const words: Readonly<Record<string, string>> = {
  invalid_request: "the request was refused as invalid",
  context_length: "the request was too long for the model",
  content_filter: "a content filter refused it",
  unauthorized: "the key is rejected",
  quota: "the quota or the credit is spent",
  not_found: "the address or the model is wrong",
  rate_limit: "too many requests: the rate limit is reached",
  server_error: "the provider's own fault",
  timeout: "no answer in time",
  unreachable: "it is not reached",
  broken: "the answer ended early, or can't be read",
};
export const reasonWords = (reason: string): string => words[reason] ?? reason;

/** Of the request itself: they say nothing of the provider. */
export const ofRequest: ReadonlySet<string> = new Set(["invalid_request", "context_length", "content_filter"]);
