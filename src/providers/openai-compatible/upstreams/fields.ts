/** Lists that rows of upstreams share. */

/** Fields that only OpenAI's own platform knows, without which the answer is the same. */
export const platformFields = [
  "store",
  "metadata",
  "service_tier",
  "prediction",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "verbosity",
];
export const platformFieldsBut = (...kept: string[]) => platformFields.filter((name) => !kept.includes(name));

export const strictMessageKeys = ["role", "content", "tool_calls", "tool_call_id"];
export const allRoles = ["system", "developer", "user", "assistant", "tool"];
