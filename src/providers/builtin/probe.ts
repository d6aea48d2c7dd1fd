/**
 * What `troupe doctor --client` asks: the model `probe` answers with what of its request arrived, in pieces with the pauses that the caller
 * states, so that a client sees what stands between it and the server. It says so to the caller of that request alone, and no secret of it.
 */
import { isObject, parseJson } from "../../lib/json/json.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { words } from "../../lib/text/words.ts";

/** Headers that clients of the formats send, whose values are no secrets. */
const told = [
  ...words(`
    accept accept-encoding content-encoding content-length content-type transfer-encoding user-agent x-app
    originator session_id session-id thread-id version traceparent anthropic-version anthropic-beta
    anthropic-dangerous-direct-browser-access x-claude-code-session-id openai-beta x-goog-api-client
    x-client-request-id idempotency-key service-request-id last-event-id x-stainless-lang
    x-stainless-package-version x-stainless-runtime x-stainless-retry-count x-stainless-helper-method
    x-stainless-timeout
  `),
];
/** Of these only that they arrived. */
const secrets = ["authorization", "x-api-key", "x-goog-api-key"];

/** By their names in lower case. */
type Arrived = Readonly<Record<string, string>>;

export function arrivedOf(headers: Headers): Arrived {
  const found = (names: readonly string[], value: (text: string) => string) =>
    names.flatMap((name) => {
      const text = headers.get(name);
      return text === null ? [] : [[name, value(text)] as const];
    });
  return Object.fromEntries([...found(told, (text) => truncate(text, 1024)), ...found(secrets, () => "(not told)")]);
}

const maxPauses = 64;
const maxPauseMs = 60_000;

/** The pauses that a text states, in milliseconds: `{"pauses": [300, 300]}`. Together they are no longer than a minute. */
export function pausesIn(text: string): number[] {
  const asked = text.startsWith("{") && text.length < 4096 ? parseJson(text) : undefined;
  const list = isObject(asked) && Array.isArray(asked["pauses"]) ? asked["pauses"].slice(0, maxPauses) : [];
  let left = maxPauseMs;
  return list.map((one) => {
    const ms = typeof one === "number" && one > 0 ? Math.min(one, left) : 0;
    left -= ms;
    return ms;
  });
}

/** @returns as many pieces as there are pauses, and one more */
export function inPieces(text: string, pauses: readonly number[]): string[] {
  const size = Math.ceil(text.length / (pauses.length + 1));
  return Array.from({ length: pauses.length + 1 }, (_, at) => text.slice(at * size, (at + 1) * size));
}
