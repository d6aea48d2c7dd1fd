/** What becomes of LiteLLM's settings that have no counterpart in a configuration here. */
import type { PathPart } from "../../lib/json/schema-errors.ts";

/** What to do instead, by the path without indexes; a path stands for all below it. */
const advice: Readonly<Record<string, string>> = {
  "general_settings.master_key": "is not taken over: the first start makes a key, `troupe keys create` makes others",
  "general_settings.database_url":
    "is LiteLLM's own database: its virtual keys, teams, budgets and spend stay there; make keys by `troupe keys create`",
  "general_settings.store_model_in_db":
    "models that LiteLLM keeps in its database are out of reach: name them in `providers`",
  "general_settings.alerting": "see `alerts`",
  "general_settings.max_parallel_requests": "see `limits.concurrent_requests`",
  "general_settings.global_max_parallel_requests": "see `limits.concurrent_requests`",
  "general_settings.proxy_batch_write_at": "the ledger is written within a second",
  "litellm_settings.context_window_fallbacks":
    "a request that is too long is answered with its error, so that an agent can shorten it",
  "litellm_settings.content_policy_fallbacks":
    "a request that a provider refuses for its content is answered with its error",
  "litellm_settings.num_retries": "each key, endpoint and model is tried once while nothing was answered",
  "litellm_settings.allowed_fails": "what goes into cooldown, and for how long, follows from the error",
  "litellm_settings.drop_params":
    "fields that a provider never takes are left out where they say nothing; others get its own error",
  "litellm_settings.success_callback": "see OpenTelemetry and /metrics",
  "litellm_settings.failure_callback": "see OpenTelemetry, /metrics and `alerts`",
  "litellm_settings.callbacks": "see OpenTelemetry and /metrics",
  "litellm_settings.cache": "answers are not cached; retries with a service-request-id get the stored one",
  "litellm_settings.cache_params": "answers are not cached; retries with a service-request-id get the stored one",
  "litellm_settings.json_logs": "logs are JSON wherever no terminal is",
  "litellm_settings.set_verbose": "see `log.level`",
  "router_settings.context_window_fallbacks":
    "a request that is too long is answered with its error, so that an agent can shorten it",
  "router_settings.content_policy_fallbacks":
    "a request that a provider refuses for its content is answered with its error",
  "router_settings.num_retries": "each key, endpoint and model is tried once while nothing was answered",
  "router_settings.retry_policy": "each key, endpoint and model is tried once while nothing was answered",
  "router_settings.allowed_fails": "what goes into cooldown, and for how long, follows from the error",
  "router_settings.allowed_fails_policy": "what goes into cooldown, and for how long, follows from the error",
  "router_settings.cooldown_time": "what goes into cooldown, and for how long, follows from the error",
  "router_settings.redis_host": "see `coordination`, which counts limits over several nodes",
  "router_settings.redis_port": "see `coordination`",
  "router_settings.redis_password": "see `coordination`",
  environment_variables: "belongs into the environment of the service",
  "model_list.litellm_params.rpm":
    "limits are of keys: `troupe keys create --per-minute`; a 429 puts the key into cooldown",
  "model_list.litellm_params.tpm":
    "limits are of keys: `troupe keys create --tokens-per-minute`; a 429 puts the key into cooldown",
  "model_list.litellm_params.temperature": "belongs into the `defaults` of a persona",
  "model_list.litellm_params.max_tokens": "belongs into the `defaults` of a persona",
  "model_list.litellm_params.top_p": "belongs into the `defaults` of a persona",
  "model_list.litellm_params.aws_access_key_id": "put it into AWS_ACCESS_KEY_ID, or use a profile",
  "model_list.litellm_params.aws_secret_access_key": "put it into AWS_SECRET_ACCESS_KEY, or use a profile",
  "model_list.litellm_params.num_retries": "each key, endpoint and model is tried once while nothing was answered",
};

const noCounterpart = "has no counterpart";
/** @returns what is said of a setting that has no counterpart */
export const adviceFor = (path: readonly PathPart[]): string => {
  const names = path.filter((part) => typeof part === "string");
  for (let length = names.length; length > 0; length -= 1) {
    const found = advice[names.slice(0, length).join(".")];
    if (found !== undefined) return found;
  }
  return noCounterpart;
};
