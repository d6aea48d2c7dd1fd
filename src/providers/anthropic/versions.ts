/** Versions of Anthropic's API by which bodies differ: https://platform.claude.com/docs/en/api/versioning */

/** The version since which `temperature`, `top_p` and `top_k` are refused at any value: https://platform.claude.com/docs/en/api/migration-2026-10-21 */
export const samplingEndsWith = "2026-10-21";

/** The version that every upstream of this format takes. */
export const oldestVersion = "2023-06-01";
