/** Which format a model on Vertex AI speaks, by its publisher, and its name there. */
import type { RemoteProvider } from "../provider.ts";

export type Family = Pick<RemoteProvider, "format" | "wantsThoughts" | "encode" | "decode" | "streamDecoder"> &
  Pick<RemoteProvider, "remoteMedia" | "counter" | "native">;

export type Publisher = "google" | "anthropic" | "open";

const publisherForm = /^(?:models\/)?(?:(google|anthropic)\/)?(.*)$/s;

/**
 * @param given as a caller names it: `gemini-…`, `claude-…@…`, either behind its publisher's name, or `meta/…-maas`
 * @returns the publisher, and the model's name where it stands in an address
 */
export function placeOf(given: string): { readonly publisher: Publisher; readonly model: string } {
  const [, publisher, model = given] = publisherForm.exec(given) ?? [];
  if (publisher !== undefined) return { publisher: publisher as Publisher, model };
  // All models of other makers are named behind them: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/maas/call-open-model-apis
  if (model.includes("/")) return { publisher: "open", model: given };
  return { publisher: model.startsWith("claude") ? "anthropic" : "google", model };
}
