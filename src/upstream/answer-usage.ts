/** Finds the token counts in an answer that is passed on as bytes, in whichever of the known forms it has them. */
import { isObject, type JsonObject, listOf, objectOf, parseJson } from "../lib/json/json.ts";
import { SseParser } from "../lib/streams/sse.ts";
import { billed, type Usage } from "../protocols/chat/schema.ts";
import { usageOf as googleUsage } from "../protocols/generate-content/ending.ts";
import { laterCounts, usageOf as messagesUsage } from "../protocols/messages/ending.ts";
import { countsOf as responsesCounts } from "../protocols/responses/ending.ts";
import { usageOf as chatUsage } from "../providers/openai-compatible/answer.ts";

/** The end of a plain answer that is kept: the counts stand there, behind vectors and images. */
const maxTail = 64 * 1024;
/** In characters. Longer events hold images or files; from there on no counts are looked for. */
const maxEvent = 4 * 1024 * 1024;

/** Looks through an answer's bytes as they pass. It may find nothing, and never throws. */
export class UsageFinder {
  readonly #events: SseParser | undefined;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #counts: JsonObject | undefined;
  #images = 0;
  #model: string | undefined;
  #isLost = false;

  readonly #onText: ((text: string) => void) | undefined;

  /** @param contentType of the answer @param onText is given the texts in it, as JSON writes them */
  constructor(contentType: string | null, onText?: (text: string) => void) {
    this.#onText = onText;
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
    const text = this.#events === undefined ? this.#end() : undefined;
    const usage = this.#usageIn(text);
    // Its texts stand for counts that are not there.
    if (text !== undefined && !usage?.completion_tokens) this.#texts(text);
    return usage;
  }

  #usageIn(text: string | undefined): Usage | undefined {
    try {
      const usage = usageIn(text === undefined ? this.#counts : this.#plain(text));
      return this.#images === 0 ? usage : withImages(usage ?? noTokens, this.#images);
    } catch {
      return undefined;
    }
  }

  /** The model as the answer names it. */
  get model(): string | undefined {
    return this.#model;
  }

  #keep(bytes: Buffer): void {
    // In its end a name may have begun.
    const before = this.#tail.at(-1);
    const seam = before?.toString("latin1", Math.max(0, before.length - imageName.length + 1)) ?? "";
    this.#model ??= modelIn(seam + bytes.toString("latin1", 0, maxHead));
    this.#images += imagesIn(seam, bytes);
    this.#tail.push(bytes);
    this.#tailBytes += bytes.length;
    while (this.#tailBytes - this.#tail[0]!.length >= maxTail) this.#tailBytes -= this.#tail.shift()!.length;
  }

  #end(): string {
    const tail = this.#tail.length === 1 ? this.#tail[0]! : Buffer.concat(this.#tail);
    return tail.toString();
  }

  #plain(text: string): JsonObject | undefined {
    const whole = objectOf(parseJson(text));
    if (whole !== undefined) {
      if (this.#images === 0) this.#images = listOf(whole["data"]).filter(isImage).length;
      return countsIn(whole);
    }
    // Only its end: the counts are an object of numbers, and of objects of such.
    const at = Math.max(text.lastIndexOf('"usage"'), text.lastIndexOf('"usageMetadata"'));
    const object = /^"(\w+)"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/.exec(at < 0 ? "" : text.slice(at));
    return object === null ? undefined : objectOf(parseJson(`{"${object[1]}":${object[2]}}`));
  }

  #texts(json: string): void {
    if (this.#onText === undefined) return;
    for (const [, text] of json.matchAll(words)) this.#onText(text!);
  }

  /** Counts come in parts in some formats: later ones join those before. */
  #event(data: string): void {
    this.#model ??= modelIn(data.slice(0, maxHead));
    // Not those of an event that only repeats what came before.
    if (!data.includes('"response.') || data.includes('.delta"')) this.#texts(data);
    if (!data.includes('"usage')) return;
    const event = objectOf(parseJson(data));
    const found = event && countsIn(event);
    for (const name of ["usage", "usageMetadata"]) {
      const counts = objectOf(found?.[name]);
      if (counts === undefined) continue;
      const known = objectOf(this.#counts?.[name]) ?? {};
      this.#counts = { ...this.#counts, ...besides(found!), [name]: laterCounts(known, counts) };
    }
  }
}

/** The members in which the formats have words of an answer. */
const words =
  /"(?:content|text|delta|arguments|partial_json|thinking|reasoning|reasoning_content|refusal)"\s*:\s*"((?:[^"\\]|\\.)+)"/g;

/** The object that has the counts: the answer itself, or what an event of some formats holds. */
function countsIn(value: JsonObject): JsonObject | undefined {
  return [value, value["response"], value["message"]]
    .filter(isObject)
    .find((one) => isObject(one["usage"]) || isObject(one["usageMetadata"]));
}

/** Members beside the counts that are counted too: the items and the tools of a response, the candidates of Gemini's, the tier. */
const counting = ["output", "candidates", "tool_usage", "tools", "service_tier"];

const besides = (container: JsonObject): JsonObject =>
  Object.fromEntries(counting.flatMap((name) => (container[name] == null ? [] : [[name, container[name]]])));

function usageIn(container: JsonObject | undefined): Usage | undefined {
  if (isObject(container?.["usageMetadata"])) return googleUsage(container["usageMetadata"], groundingsIn(container));
  const usage = objectOf(container?.["usage"]);
  if (usage === undefined) return undefined;
  if ("prompt_tokens" in usage) return chatUsage({ completion_tokens: 0, ...usage }, {}, besides(container!));
  // https://platform.openai.com/docs/api-reference/audio/json-object: by tokens, or by the length of the recording.
  if (usage["type"] === "duration") return withSeconds(noTokens, usage["seconds"]);
  // The Messages format alone has no total.
  if (!("total_tokens" in usage)) return messagesUsage(usage);
  const { input_token_details, ...rest } = usage;
  return withImageTokens(
    responsesCounts({ ...container, usage: { input_tokens_details: input_token_details, ...rest } }),
  );
}

const noTokens: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

const groundingsIn = ({ candidates }: JsonObject): JsonObject[] =>
  listOf(candidates)
    .map((candidate) => objectOf(objectOf(candidate)?.["groundingMetadata"]))
    .filter((grounding) => grounding !== undefined);

function withSeconds(usage: Usage, seconds: unknown): Usage | undefined {
  return typeof seconds === "number" && seconds > 0 ? { ...usage, [billed]: { audioSeconds: seconds } } : undefined;
}

/** https://platform.openai.com/docs/api-reference/images/object (usage) */
function withImageTokens(usage: Usage | undefined): Usage | undefined {
  const imageInput = usage?.prompt_tokens_details?.["image_tokens"];
  const imageOutput = usage?.completion_tokens_details?.["image_tokens"];
  if (usage === undefined || (!imageInput && !imageOutput)) return usage;
  const more = { ...(imageInput && { imageInput }), ...(imageOutput && { imageOutput }) };
  return { ...usage, [billed]: { ...usage[billed], ...more } };
}

/** Counts the output tokens of an images answer as those of images, where it does not divide them. */
function withImages(usage: Usage, images: number): Usage {
  const isTold = usage.completion_tokens_details !== undefined || usage.completion_tokens === 0;
  const imageOutput = isTold ? {} : { imageOutput: usage.completion_tokens };
  return { ...usage, [billed]: { ...imageOutput, ...usage[billed], images } };
}

const imageName = '"b64_json"';
const imageBytes = Buffer.from(imageName);

/** @param seam what came right before */
function imagesIn(seam: string, bytes: Buffer): number {
  let images = seam !== "" && (seam + bytes.toString("latin1", 0, imageName.length - 1)).includes(imageName) ? 1 : 0;
  for (let at = bytes.indexOf(imageBytes); at >= 0; at = bytes.indexOf(imageBytes, at + imageName.length)) images += 1;
  return images;
}

const isImage = (item: unknown) => isObject(item) && (typeof item["url"] === "string" || "b64_json" in item);

/** The length of an answer's beginning in which its model is looked for. */
const maxHead = 4096;

const modelIn = (text: string) => /"model(?:Version)?"\s*:\s*"([^"\\]{1,256})"/.exec(text)?.[1];
