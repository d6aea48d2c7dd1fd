/** Names of operations by the GenAI conventions. Source: https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/ */

/** What a route asks a model for; the conventions have no word for pictures and recordings, which are content too. */
export function operationOf(route: string): string {
  if (/embed/i.test(route)) return "embeddings";
  if (/(?<!\/chat)\/completions$/.test(route)) return "text_completion";
  return /\/(?:images|audio)\//.test(route) ? "generate_content" : "chat";
}
