/** What rows of upstreams share. */
import type { Quirks } from "../../../facts/vocabulary/chat.ts";
import { words } from "../../../lib/text/words.ts";

/** Fields that only OpenAI's own platform knows, without which the answer is the same. */
export const platformFields = words(`
  store metadata service_tier prediction safety_identifier prompt_cache_key prompt_cache_retention
  prompt_cache_options moderation verbosity
`);
export const platformFieldsBut = (...kept: string[]) => platformFields.filter((name) => !kept.includes(name));

export const strictMessageKeys = ["role", "content", "tool_calls", "tool_call_id"];
export const allRoles = ["system", "developer", "user", "assistant", "tool"];

/**
 * Hosts of open models. Their chat templates know no role developer (https://huggingface.co/docs/transformers/chat_templating), and where
 * nothing parses the answer, thoughts stand in the text: https://docs.vllm.ai/en/latest/features/reasoning_outputs.html
 */
export const openModels: Quirks = {
  max_tokens_field: "max_tokens",
  dropped: platformFields,
  developer_role: "system",
  think_tags: true,
};
