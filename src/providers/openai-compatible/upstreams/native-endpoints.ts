/**
 * The native endpoints of upstreams that speak chat completions (`../../native-endpoints.ts`): what each documents of its other formats. A format that no public
 * page describes has no native endpoint here.
 *
 * Thinking comes back to all of them as they gave it, signed or not. Where cache marks (`cache_control`) are read, the row says so:
 * elsewhere prefixes are cached without them, as for translated calls.
 */
import type { NativeEndpoints } from "../../native-endpoints.ts";

/** Parts with text that a translated call carries. */
const textDocuments = ["document", "search_result"];

/** What other makers' servers did in earlier turns: refused where it is translated. */
const foreignResults = [
  ...["code_execution_tool_result", "mcp_tool_use", "mcp_tool_result", "container_upload"],
  ...["bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "web_fetch_tool_result"],
];

export const deepseekEndpoints: NativeEndpoints = {
  // https://api-docs.deepseek.com/guides/anthropic_api: "x-api-key: Fully Supported"; `container`, `mcp_servers`, `service_tier`, `top_k`,
  // `thinking.budget_tokens` and each `cache_control` are ignored, of `output_config` all but the effort; documents and search results are
  // not supported. https://api-docs.deepseek.com/api/create-message: the choice `any` is treated as `auto`; assistant turns are to
  // come back whole, thinking included.
  messages: {
    path: "/anthropic",
    besides: ["/v1", "/beta"],
    keyPlace: { header: "x-api-key" },
    tools: ["web_search"],
    drops: {
      fields: ["mcp_servers", "output_config.format", "output_format", "tool_choice.type=any"],
      parts: [...textDocuments, ...foreignResults],
    },
    rules: { thinking: "adaptive", thinking_off: "disabled", efforts: ["high", "max"], sampling: "both" },
  },
};

export const moonshotEndpoints: NativeEndpoints = {
  // https://platform.kimi.ai/docs/api/messages: for Kimi K3 alone, by a bearer; `cache_control` is read at the top of the body, and
  // nowhere else; efforts are low, high and max; samplings are fixed.
  messages: {
    path: "/anthropic",
    models: [{ match: "kimi-k*", since: "3" }],
    tools: ["web_search"],
    drops: { fields: ["mcp_servers"], parts: [...textDocuments, ...foreignResults] },
    rules: { thinking: "adaptive", thinking_off: "never", efforts: ["low", "high", "max"], sampling: "none" },
  },
  // https://platform.kimi.ai/docs/api/responses: `store` is always false and `previous_response_id` null; tools of other types are refused.
  // Reasoning comes in clear text and is taken back.
  responses: {
    models: [{ match: "kimi-k*", since: "3" }],
    tools: ["namespace", "custom name=apply_patch", "web_search"],
  },
};

export const zaiEndpoints: NativeEndpoints = {
  // https://docs.z.ai/devpack/tool/claude: no field is documented there. URLs of images and system turns are refused:
  // https://github.com/vybestack/llxprt-code/pull/3704, https://github.com/zai-org/GLM-5/issues/74. Prefixes are cached without marks:
  // https://github.com/zai-org/feedback/issues/411
  messages: {
    path: "/api/anthropic",
    besides: ["/api/coding/paas/v4"],
    drops: { fields: ["mcp_servers"], parts: ["image source.type=url"] },
    rules: { thinking: "adaptive", thinking_off: "disabled", efforts: ["low", "high", "max"], sampling: "both" },
  },
};

export const minimaxEndpoints: NativeEndpoints = {
  // https://platform.minimax.io/docs/api-reference/text-anthropic-api: `stop_sequences`, `mcp_servers`, `container`, `service_tier` and `top_k`
  // are ignored, documents are no input; turns are to come back whole. https://platform.minimax.io/docs/api-reference/text-chat-anthropic:
  // of tool choices, only auto and none; a bearer is recommended. Tools: https://platform.minimax.io/docs/guides/server-tools
  messages: {
    path: "/anthropic",
    tools: ["web_search"],
    drops: {
      fields: ["stop_sequences", "mcp_servers", "tool_choice.type=any", "tool_choice.type=tool"],
      parts: [...textDocuments, ...foreignResults],
    },
  },
};

/** https://docs.databricks.com/aws/en/machine-learning/model-serving/query-anthropic-messages: for its own Claude models, by a bearer. */
export const databricksEndpoints: NativeEndpoints = {
  messages: {
    path: "/serving-endpoints/anthropic",
    besides: ["/serving-endpoints"],
    models: [{ match: "databricks-claude-*" }],
    checksThinking: true,
  },
};

export const openrouterEndpoints: NativeEndpoints = {
  // https://openrouter.ai/docs/guides/coding-agents/claude-code-integration: by a bearer. Cache marks are read:
  // https://openrouter.ai/docs/features/prompt-caching
  messages: {},
  // https://openrouter.ai/docs/api/reference/responses/error-handling: stateless; `store: true` and `previous_response_id` are refused
  responses: {},
};

export const groqEndpoints: NativeEndpoints = {
  // https://console.groq.com/docs/responses-api#unsupported-features. Tools: #built-in-tools, #model-context-protocol-mcp
  responses: {
    tools: ["mcp", "browser_search", "code_interpreter"],
    drops: { fields: ["prompt", "truncation=auto", "include=message.output_text.logprobs"] },
    leavesOut: [
      ...["include", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "moderation"],
      ...["safety_identifier", "truncation"],
    ],
  },
};

export const ollamaEndpoints: NativeEndpoints = {
  // https://docs.ollama.com/api/anthropic-compatibility: from version 0.14.0 on; images inline only, no documents, no cache marks, no
  // counting. `tool_choice` is known in neither format. https://docs.ollama.com/api/authentication: bearers only
  messages: {
    tools: [],
    drops: {
      fields: ["output_config.format", "output_format", "mcp_servers"],
      parts: ["image source.type=url", ...textDocuments],
    },
  },
  // https://docs.ollama.com/api/openai-compatibility#v1%2Fresponses: from version 0.13.3 on, stateless; fields that are not listed there
  responses: {
    tools: [],
    drops: {
      fields: ["text.format.type=json_schema", "text.format.type=json_object", "truncation=auto", "prompt"],
      parts: ["input_image", "input_file"],
    },
  },
};

export const vllmEndpoints: NativeEndpoints = {
  // https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/anthropic/protocol.py: `thinking` is no field of it, and parts and
  // tools of other kinds are refused. https://docs.vllm.ai/en/latest/usage/security.html: keys guard /v1, as bearers
  messages: {
    countsTokens: true,
    systemTurns: true,
    tools: [],
    drops: { fields: ["thinking", "mcp_servers"], parts: textDocuments },
  },
  // https://github.com/vllm-project/vllm/pull/22137: the server keeps nothing unless it is told to, and then only until it ends
  responses: { tools: ["mcp", "code_interpreter", "web_search_preview"] },
};

export const llamacppEndpoints: NativeEndpoints = {
  // https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md#post-v1messages-anthropic-compatible-messages-api
  messages: {
    countsTokens: true,
    tools: [],
    drops: { fields: ["output_config.format", "output_format", "mcp_servers"], parts: textDocuments },
    repeatsPrefill: true,
  },
};

export const lmstudioEndpoints: NativeEndpoints = {
  // https://lmstudio.ai/docs/developer/anthropic-compat: by `x-api-key` or a bearer; https://lmstudio.ai/docs/developer/rest: of tools,
  // there are the caller's alone
  messages: { tools: [], drops: { fields: ["mcp_servers"] } },
  // https://lmstudio.ai/docs/developer/openai-compat/responses: from version 0.3.29 on. What the server keeps ends with it.
  responses: { tools: ["mcp"] },
};

/** https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api: for Claude alone, by a bearer. */
export const snowflakeEndpoints: NativeEndpoints = {
  messages: {
    path: "/api/v2/cortex",
    besides: ["/api/v2/cortex/v1"],
    models: [{ match: "claude*" }],
    checksThinking: true,
  },
};
