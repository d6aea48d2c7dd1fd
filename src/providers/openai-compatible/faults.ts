/** Errors that came with a 200: what says so, and the status that each stands for. */
import { isObject, type JsonObject, saysNothing } from "../../lib/json/json.ts";

/**
 * True for an error that came with a 200, in any of its known forms: `{"error":…}` (OpenRouter, Groq, xAI, llama.cpp…),
 * `{"object":"error",…}` (Mistral, older vLLM), `{"detail":…}` (FastAPI servers), `{"message":…}` (Cerebras, Together),
 * `{"fault":…}` (Fireworks), `{"base_resp":{"status_code":1004,…}}` (MiniMax).
 */
export function isFault(body: JsonObject): boolean {
  if (saysError(body["error"]) || (isObject(body["x_groq"]) && saysError(body["x_groq"]["error"]))) return true;
  if (body["object"] === "error" || minimaxCode(body) !== undefined) return true;
  return body["choices"] === undefined && errorNames.some((name) => saysError(body[name]));
}

/** @returns undefined where it says that all is well, or nothing: https://platform.minimax.io/docs/api-reference/errorcode */
function minimaxCode({ base_resp: state }: JsonObject): number | undefined {
  const code = isObject(state) ? state["status_code"] : undefined;
  return typeof code === "number" && code !== 0 ? code : undefined;
}

/** The statuses of MiniMax's codes; 500 for others. */
const minimaxStatuses: ReadonlyMap<number, number> = new Map([
  [1001, 504],
  [1002, 429],
  [1004, 401],
  [1008, 402],
  [1026, 400],
  [1027, 400],
  [2013, 400],
  [2049, 401],
]);

const errorNames = ["detail", "message", "fault"];

export function saysError(error: unknown): boolean {
  return error !== false && !saysNothing(error);
}

/** The statuses that the words of an error stand for, where it names none. */
const statusWords: readonly (readonly [RegExp, number])[] = [
  [/rate.?limit|too many|quota|throttl/i, 429],
  [/overloaded|unavailable|capacity/i, 503],
  [/time.?out/i, 504],
  [/authentication|api.?key|unauthorized/i, 401],
  [/permission|forbidden/i, 403],
  [/not.?found/i, 404],
  [/server.?error|internal/i, 500],
  [/invalid|context.?length|bad.?request|unsupported|tool_use_failed|json_validate_failed/i, 400],
];

/** The status that an error stands for which came with a 200; 503, worth a retry, when it says nothing of it. */
export function faultStatus(body: unknown): number {
  const outer = isObject(body) ? body : {};
  const code = minimaxCode(outer);
  if (code !== undefined) return minimaxStatuses.get(code) ?? 500;
  const inner = isObject(outer["error"]) ? outer["error"] : outer;
  for (const value of [inner["status_code"], inner["status"], inner["code"], outer["code"], outer["status"]]) {
    const status = typeof value === "string" ? Number(value) : value;
    if (typeof status !== "number") continue;
    if (Number.isInteger(status) && status >= 400 && status <= 599) return status;
  }
  for (const value of [inner["code"], inner["type"], outer["code"]]) {
    if (typeof value !== "string") continue;
    const found = statusWords.find(([words]) => words.test(value));
    if (found !== undefined) return found[1];
  }
  return 503;
}
