/** What the admin API gives of providers. */
import type { Provider, ProviderKey } from "../../../api/providers.ts";
import type { Tone } from "../../ui/layout.tsx";

export type {
  Provider,
  ProviderCooldown as Rest,
  ProviderDetail,
  ProviderError as LastError,
  ProviderKey,
} from "../../../api/providers.ts";

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
