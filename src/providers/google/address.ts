/** The addresses of a model's methods. */
import { segmentOf } from "../../protocols/model-id.ts";
import type { Account } from "../provider.ts";

/** @param method with its query */
export function methodUrl({ baseUrl }: Account, model: string, method: string): string {
  // Google's own libraries take a base URL without the version.
  const root = /^https?:\/\/[^/]+$/.test(baseUrl) ? `${baseUrl}/v1beta` : baseUrl;
  return `${root}/${resourceOf(model)}:${method}`;
}

/** Its documentation's paths hold the version: `v1beta/models`, `v1alpha/…`, `upload/v1beta/files`. */
export function apiRoot({ baseUrl }: Account): string {
  return baseUrl.replace(/\/v\d+\w*$/, "");
}

/** The name comes from the caller: nothing in it may lead to another resource. */
function resourceOf(model: string): string {
  const tuned = "tunedModels/";
  return model.startsWith(tuned) ? tuned + segmentOf(model.slice(tuned.length)) : `models/${segmentOf(model)}`;
}
