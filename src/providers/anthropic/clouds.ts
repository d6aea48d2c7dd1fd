/**
 * What clouds take of Anthropic's API, as data: values of `anthropic-beta`, the members of bodies that belong to them, and versions.
 * As of 2026-11-28. What does not stand here is not sent there, as it is refused: "Unexpected value(s) `effort-2025-11-24` for the
 * `anthropic-beta` header." Sources, where no other is named: https://github.com/BerriAI/litellm/blob/main/litellm/anthropic_beta_headers_config.json,
 * https://platform.claude.com/docs/en/api/versioning.
 */

/** The version since which `temperature`, `top_p` and `top_k` are refused at any value: https://platform.claude.com/docs/en/api/migration-2026-10-21 */
export const samplingEndsWith = "2026-10-21";

/** The version that every upstream of this format takes. */
export const oldestVersion = "2023-06-01";

/** On Vertex AI the version stands in the body: the older one has a name of its own there, later ones have their date. */
export const vertexVersions: Readonly<Record<string, string>> = { [oldestVersion]: "vertex-2023-10-16" };

export type Cloud = {
  /** What a caller asks for, by the name that the cloud knows it by. */
  readonly betas: Readonly<Record<string, string>>;
};

const named = (...betas: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(betas.map((beta) => [beta, beta]));

/** Taken everywhere. */
const shared = [
  ...["computer-use-2025-01-24", "computer-use-2025-11-24", "context-1m-2025-08-07", "context-management-2025-06-27"],
  ...["dangerous-tool-use-2026-09-03", "interleaved-thinking-2025-05-14", "thinking-display-updates-2026-08-18"],
];

const searchedTools = {
  "advanced-tool-use-2025-11-20": "tool-search-tool-2025-10-19",
  "tool-search-tool-2025-10-19": "tool-search-tool-2025-10-19",
};

/** Refused there: https://github.com/anthropics/claude-code/issues/34802, https://github.com/BerriAI/litellm/issues/19984 */
export const vertexCloud: Cloud = {
  betas: {
    ...named(
      ...shared,
      ...["compact-2026-01-12", "compact-2026-09-04", "per-turn-control-2026-07-01", "web-search-2025-03-05"],
      "thinking-binding-controls-2026-08-01",
    ),
    ...searchedTools,
  },
};

/** "invalid beta flag": https://github.com/anthropics/claude-code/issues/49370, https://github.com/router-for-me/CLIProxyAPI/issues/4750 */
export const bedrockCloud: Cloud = {
  betas: {
    ...named(
      ...shared,
      ...["compact-2026-01-12", "effort-2025-11-24", "fine-grained-tool-streaming-2025-05-14"],
      ...["mid-conversation-output-config-2026-07-01", "mid-conversation-tool-changes-2026-07-01"],
      "thinking-binding-controls-2026-08-01",
    ),
    ...searchedTools,
  },
};

export const foundryCloud: Cloud = {
  betas: named(
    ...shared,
    ...["advanced-tool-use-2025-11-20", "code-execution-2025-08-25", "effort-2025-11-24", "files-api-2025-04-14"],
    ...["mcp-client-2025-04-04", "mcp-client-2025-11-20", "per-turn-control-2026-07-01", "skills-2025-10-02"],
    ...["prompt-caching-scope-2026-01-05", "structured-outputs-2025-11-13"],
    ...["web-fetch-2025-09-10", "web-search-2025-03-05"],
  ),
};

/**
 * Members of bodies that belong to a beta and go with it: the answer is the same without them. `tools[]` is each tool, `**` any block
 * that is cached. What changes the answer (servers of tools, containers) is left to the cloud to refuse.
 */
export const betaMembers: readonly { readonly betas: readonly string[]; readonly members: readonly string[] }[] = [
  // https://platform.claude.com/docs/en/build-with-claude/prompt-caching
  { betas: ["prompt-caching-scope-2026-01-05"], members: ["**.cache_control.scope"] },
  // https://platform.claude.com/docs/en/build-with-claude/context-editing, …/compaction
  { betas: ["context-management-2025-06-27", "compact-2026-01-12"], members: ["context_management"] },
  { betas: ["compact-2026-09-04"], members: ["compaction"] },
  { betas: ["cache-diagnosis-2026-04-07"], members: ["diagnostics"] },
  { betas: ["server-side-fallback-2026-07-01"], members: ["fallbacks", "fallback_credit_token"] },
  { betas: ["task-budgets-2026-03-13"], members: ["output_config.task_budget"] },
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming
  { betas: ["fine-grained-tool-streaming-2025-05-14"], members: ["tools[].eager_input_streaming"] },
];
