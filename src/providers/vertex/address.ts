/**
 * Addresses of models on Google's Vertex AI: the model, its publisher, the project and its location stand in the path.
 * Source: https://docs.cloud.google.com/gemini-enterprise-agent-platform/resources/locations
 */
import { ApiError } from "../../protocols/errors.ts";
import { segmentOf } from "../../protocols/model-id.ts";
import type { Account } from "../provider.ts";

export const vertexUrl = "https://aiplatform.googleapis.com/v1";

/** Locations of several regions, which have hosts of another form. */
const multiRegions: ReadonlySet<string> = new Set(["us", "eu"]);

/** @returns the base URL of an account's location; an address that the operator gave stays */
function rootOf({ baseUrl }: Account, location: string): string {
  if (baseUrl !== vertexUrl || location === "global") return baseUrl;
  const host = multiRegions.has(location)
    ? `aiplatform.${location}.rep.googleapis.com`
    : `${location}-aiplatform.googleapis.com`;
  return `https://${host}/v1`;
}

/** The models that a key of express mode reaches without a project: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/start/express-mode/overview */
const inExpressMode = "google";

/** @param path of what is asked for below the location */
function urlBelow(account: Account, path: string, publisher?: string): string {
  const { project, location = "global" } = account.options;
  if (typeof project === "string")
    return `${rootOf(account, String(location))}/projects/${encodeURIComponent(project)}/locations/${encodeURIComponent(String(location))}/${path}`;
  if (publisher === inExpressMode) return `${rootOf(account, "global")}/${path}`;
  throw ApiError.unsupported(
    "model",
    "This model needs a project: set options.project of its provider, or GOOGLE_CLOUD_PROJECT.",
  );
}

/** @param method with its query */
export const methodUrl = (account: Account, publisher: string, model: string, method: string): string =>
  // An `@` before a model's version is no more than a character of its name.
  urlBelow(account, `publishers/${publisher}/models/${segmentOf(model).replaceAll("%40", "@")}:${method}`, publisher);

/** Chat completions of open models: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/maas/call-open-model-apis */
export const openUrl = (account: Account, operation: string): string =>
  urlBelow(account, `endpoints/openapi/${operation}`);
