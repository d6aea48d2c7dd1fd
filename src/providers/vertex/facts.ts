/**
 * In what Gemini's requests on Vertex AI differ from those of the Gemini API, as data. As of 2026-11-28.
 * Sources: https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1/projects.locations.endpoints/generateContent,
 * what Google's own library refuses to send there (https://github.com/googleapis/js-genai, 3.1: "parameter is only supported in Gemini
 * Developer API mode"), and where named.
 */

/** Members that a body may not have there, by the object that they stand in. */
export const unknownMembers = {
  // The model stands in the address alone, the tier in a header.
  body: ["model", "store", "serviceTier"],
  generationConfig: ["enableEnhancedCivicAnswers"],
  toolConfig: ["includeServerSideToolInvocations"],
  part: ["partMetadata"],
  functionCall: ["id"],
  functionResponse: ["id", "willContinue"],
  /** Of a function's response. */
  responsePart: ["mediaProcessing"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/**
 * A tier of the body is refused or overlooked there: https://github.com/googleapis/python-genai/issues/2847,
 * https://docs.cloud.google.com/vertex-ai/generative-ai/docs/priority-paygo
 */
export const tierHeader = "x-vertex-ai-llm-shared-request-type";
/** Tiers that are asked for; any other is the usual one. */
export const headerTiers: ReadonlySet<string> = new Set(["flex", "priority"]);

/** Parts that only the Gemini API has: calls of tools that it ran itself. */
export const unknownParts: readonly string[] = ["toolCall", "toolResponse"];

/** Members that a count of tokens takes: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens */
export const countedMembers: readonly string[] = ["contents", "systemInstruction", "tools", "generationConfig"];
