/**
 * Models that help texts, drafts and the demonstration name, and those that are meant where somebody names none. A newer model takes an
 * older one's place here alone; a test holds them to what is known, and to what does not end soon.
 */
export const exampleModels = {
  openai: "gpt-5.5",
  openaiSmall: "gpt-5.4-mini",
  anthropic: "claude-sonnet-5",
  anthropicSmall: "claude-haiku-4-5",
  googleSmall: "gemini-3.5-flash",
} as const;

/** One that the demonstration lets end soon. */
export const endingExample = "gpt-4o-mini";

/** The same behind their providers. */
export const exampleNames = {
  openai: `openai/${exampleModels.openai}`,
  openaiSmall: `openai/${exampleModels.openaiSmall}`,
  anthropic: `anthropic/${exampleModels.anthropic}`,
  anthropicSmall: `anthropic/${exampleModels.anthropicSmall}`,
  googleSmall: `google/${exampleModels.googleSmall}`,
} as const;

/** Claude Code's words for models of which the newest is meant. Source: https://code.claude.com/docs/en/sub-agents */
export const claudeFamilies: Readonly<Record<string, string>> = {
  haiku: exampleNames.anthropicSmall,
  sonnet: exampleNames.anthropic,
  opus: "anthropic/claude-opus-5",
};

/**
 * The models that work beside an answer, by what they do, where the answer names none.
 * Source: https://platform.openai.com/docs/api-reference/responses/create (tools, image generation)
 */
export const modelsBeside: Readonly<Record<string, string>> = { image_generation: "gpt-image-2.6-sunburst" };
