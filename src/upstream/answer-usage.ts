/** Finds the token counts in an answer that is passed on as bytes, in whichever of the known forms it has them. */
import { isObject, type JsonObject, objectOf, parseJson } from "../lib/json/json.ts";
import { SseParser } from "../lib/sse.ts";
import type { Usage } from "../protocols/chat/schema.ts";
import { usageOf as messagesUsage } from "../providers/anthropic/answer.ts";
import { usageOf as googleUsage } from "../providers/google/counts.ts";
import { usageOf as chatUsage } from "../providers/openai-compatible/answer.ts";
import { usageOf as responsesUsage } from "../providers/responses/output.ts";

/** Of a plain answer so much is kept from its end, where the counts stand behind vectors and images. */
const maxTail = 64 * 1024;
/** In characters. Longer events hold images or files; from there on no counts are looked for. */
const maxEvent = 4 * 1024 * 1024;

/** Looks through an answer's bytes as they pass. It may find nothing, and never throws. */
export class UsageFinder {
  readonly #events: SseParser | undefined;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #counts: JsonObject | undefined;
  #isLost = false;

  /** @param contentType of the answer */
  constructor(contentType: string | null) {
    if (contentType?.includes("text/event-stream")) this.#events = new SseParser(maxEvent);
    else this.#isLost = contentType?.includes("json") !== true;
  }

  push(bytes: Buffer): void {
    if (this.#isLost) return;
    try {
      if (this.#events === undefined) this.#keep(bytes);
      else for (const { data } of this.#events.push(bytes)) this.#event(data);
    } catch {
      this.#isLost = true;
    }
  }

  /** @returns undefined where no counts were found */
  found(): Usage | undefined {
    if (this.#isLost) return undefined;
    try {
      return usageIn(this.#events === undefined ? this.#plain() : this.#counts);
    } catch {
      return undefined;
    }
  }

  #keep(bytes: Buffer): void {
    this.#tail.push(bytes);
    this.#tailBytes += bytes.length;
    while (this.#tailBytes - this.#tail[0]!.length >= maxTail) this.#tailBytes -= this.#tail.shift()!.length;
  }

  #plain(): JsonObject | undefined {
    const text = Buffer.concat(this.#tail).toString();
    const whole = objectOf(parseJson(text));
    if (whole !== undefined) return countsIn(whole);
    // Only its end: the counts are an object of numbers, and of objects of such.
    const at = Math.max(text.lastIndexOf('"usage"'), text.lastIndexOf('"usageMetadata"'));
    const object = /^"(\w+)"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/.exec(at < 0 ? "" : text.slice(at));
    return object === null ? undefined : objectOf(parseJson(`{"${object[1]}":${object[2]}}`));
  }

  /** Counts come in parts in some formats: later ones replace those before, name by name. */
  #event(data: string): void {
    if (!data.includes('"usage')) return;
    const event = objectOf(parseJson(data));
    const found = event && countsIn(event);
    for (const name of ["usage", "usageMetadata"]) {
      const counts = objectOf(found?.[name]);
      if (counts === undefined) continue;
      const known = objectOf(this.#counts?.[name]) ?? {};
      const told = Object.fromEntries(Object.entries(counts).filter(([, value]) => value != null));
      this.#counts = { [name]: { ...known, ...told } };
    }
  }
}

/** The object that has the counts: the answer itself, or what an event of some formats holds. */
function countsIn(value: JsonObject): JsonObject | undefined {
  return [value, value["response"], value["message"]]
    .filter(isObject)
    .find((one) => isObject(one["usage"]) || isObject(one["usageMetadata"]));
}

function usageIn(holder: JsonObject | undefined): Usage | undefined {
  if (isObject(holder?.["usageMetadata"])) return googleUsage(holder["usageMetadata"]);
  const usage = objectOf(holder?.["usage"]);
  if (usage === undefined) return undefined;
  if ("prompt_tokens" in usage) return chatUsage({ completion_tokens: 0, ...usage }, {});
  // The Messages format alone has no total.
  return "total_tokens" in usage ? responsesUsage(usage) : messagesUsage(usage);
}
