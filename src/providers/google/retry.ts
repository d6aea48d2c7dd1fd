import { listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";

/**
 * Gemini names the time to wait in a detail of the error, and in no header.
 * @param error the body of an error, which may stand in a list
 * @returns whole seconds, rounded up; undefined where the error says nothing of it
 * Source: https://google.aip.dev/193 (google.rpc.RetryInfo)
 */
export function retryAfterSeconds(error: string): number | undefined {
  const body = parseJson(error);
  const details = listOf(objectOf(objectOf(Array.isArray(body) ? body[0] : body)?.["error"])?.["details"]);
  for (const detail of details) {
    const seconds = /^(\d+(?:\.\d+)?)s$/.exec(textOf(objectOf(detail)?.["retryDelay"]) ?? "")?.[1];
    if (seconds !== undefined) return Math.ceil(Number(seconds));
  }
  return undefined;
}
