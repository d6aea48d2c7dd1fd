/** Models as other programs name them, by the names of providers here. */

/** Names of providers elsewhere. */
const providers: Readonly<Record<string, string>> = {
  ...{
    googleai: "google",
    "google-genai": "google",
    gemini: "google",
    vertex: "google",
    vertexai: "google",
    palm: "google",
  },
  ...{
    azure_openai: "azure",
    azureopenai: "azure",
    "azure-openai": "azure",
    azure_ai_inference: "azure",
    foundry: "azure",
  },
  ...{ grok: "xai", "x-ai": "xai", togetherai: "together", together_ai: "together", fireworksai: "fireworks" },
  ...{
    openai: "openai",
    anthropic: "anthropic",
    google: "google",
    mistral: "mistral",
    mistralai: "mistral",
    ollama: "ollama",
  },
  ...{
    xai: "xai",
    deepseek: "deepseek",
    groq: "groq",
    openrouter: "openrouter",
    perplexity: "perplexity",
    azure: "azure",
  },
  ...{ together: "together", fireworks: "fireworks", cerebras: "cerebras", moonshot: "moonshot", vllm: "vllm" },
};

/** Beginnings of models' names, and who makes them. */
const makers: readonly (readonly [RegExp, string])[] = [
  [/^(?:gpt-|o\d|chatgpt-|codex-)/i, "openai"],
  [/^claude-/i, "anthropic"],
  [/^gemini-/i, "google"],
  [/^(?:mistral|magistral|codestral|ministral|pixtral)-/i, "mistral"],
  [/^grok-/i, "xai"],
  [/^deepseek-(?:chat|reasoner)$/i, "deepseek"],
];

/** Why a model is left out, as a sentence without its subject. */
export const unknownMaker = "is of no provider that is known here: --model names one";

/** @param provider as the other program names it @returns undefined where none here is known by that name */
export const providerNamed = (provider: string): string | undefined =>
  Object.hasOwn(providers, provider.toLowerCase()) ? providers[provider.toLowerCase()] : undefined;

/**
 * @param model a bare name, `<provider>/<model>`, or a name with its size behind a colon
 * @param provider as the other program names it
 * @returns `<provider>/<model>`; undefined where nothing says whose it is
 */
export function modelReference(model: string, provider?: string): string | undefined {
  const name = model.trim();
  if (name === "" || /\s/.test(name)) return undefined;
  const named = provider === undefined ? undefined : providerNamed(provider);
  if (named !== undefined) return `${named}/${name}`;
  const slash = name.indexOf("/");
  const prefix = slash > 0 ? providerNamed(name.slice(0, slash)) : undefined;
  if (prefix !== undefined) return `${prefix}/${name.slice(slash + 1)}`;
  const maker = makers.find(([beginning]) => beginning.test(name))?.[1];
  if (maker !== undefined) return `${maker}/${name}`;
  // Ollama's names end in a tag; others without a maker are not guessed.
  return /^[\w./-]+:[\w.-]+$/.test(name) ? `ollama/${name}` : undefined;
}
