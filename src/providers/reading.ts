/**
 * Reading of what upstreams send. Strict where words, calls and their order may stand: a value of another kind than its format
 * gives it is a fault, as leaving it out could shorten the answer. Lenient for all that is optional beside them (citations,
 * probabilities, counts, notes): there a value of another kind is absent, as it must never cost the answer. What is absent or
 * null is absent in both.
 */
import { countOf, isObject, isTooDeep, type JsonObject, listOf, objectOf, textOf } from "../lib/json/json.ts";
import type { Annotation, Metadata, ThinkingBlock, TokenLogprob } from "../protocols/chat/schema.ts";
import { InvalidAnswer } from "../protocols/errors.ts";

const empty: readonly JsonObject[] = [];

/** The JSON of an event or of a whole answer. @throws InvalidAnswer */
export function jsonIn(text: string): unknown {
  if (isTooDeep(text)) throw new InvalidAnswer("JSON that nests too deep");
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidAnswer("an event that can't be read");
  }
}

/** True if an event of that name needs no data: proxies send such events so that nobody takes the connection for dead. */
export const isSignOfLife = (name: string): boolean => /^(?:ping|keep[-_]?alive|heart[-_]?beat)$/i.test(name);

/** The JSON object of an event. @throws InvalidAnswer */
export function eventIn(data: string): JsonObject {
  const event = jsonIn(data);
  if (!isObject(event)) throw new InvalidAnswer("an event that is no JSON object");
  return event;
}

/** @throws InvalidAnswer where there is something else */
export function objectIn(object: JsonObject, name: string): JsonObject | undefined {
  const value = object[name];
  return value == null || isObject(value) ? (value ?? undefined) : wrong(name);
}

/** @throws InvalidAnswer where there is something else, or nothing */
export function objectAt(object: JsonObject, name: string): JsonObject {
  return objectIn(object, name) ?? wrong(name);
}

/** @throws InvalidAnswer where there is something else, or something else in it */
export function objectsIn(object: JsonObject, name: string): readonly JsonObject[] {
  const value = object[name] ?? empty;
  if (!Array.isArray(value)) return wrong(name);
  for (const one of value) if (!isObject(one)) wrong(name);
  return value;
}

/** @throws InvalidAnswer where there is something else */
export function textIn(object: JsonObject, name: string): string | undefined {
  const value = object[name] ?? undefined;
  return value === undefined || typeof value === "string" ? value : wrong(name);
}

/** @throws InvalidAnswer where there is something else, or nothing */
export function textAt(object: JsonObject, name: string): string {
  return textIn(object, name) ?? wrong(name);
}

/** Gives the words of an error event that is no JSON as they are. @throws InvalidAnswer for JSON that is broken */
export function plainWords(data: string): string {
  const words = data.trim();
  if (words === "" || /^[{["]/.test(words)) throw new InvalidAnswer("an error that can't be read");
  return words;
}

function wrong(name: string): never {
  throw new InvalidAnswer(`an answer whose '${name}' is missing or of the wrong kind`);
}

/** The members that are texts, as typed clients read `metadata`; undefined where there are none. */
export function metadataOf(value: unknown): Metadata | undefined {
  const texts = Object.entries(objectOf(value) ?? {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return texts.length === 0 ? undefined : Object.fromEntries(texts);
}

/**
 * Citations of web pages, in the form of chat completions or in the flat one of Responses; annotations of other kinds are left out.
 * @param offset where in the message the annotated part begins
 */
export function citationsOf(values: unknown, offset = 0): Annotation[] {
  return listOf(values).flatMap((value) => citationOf(objectOf(value) ?? {}, offset) ?? []);
}

function citationOf(annotation: JsonObject, offset: number): Annotation | undefined {
  const nested = objectOf(annotation["url_citation"]);
  const { url, title, start_index, end_index } = nested ?? annotation;
  if (typeof url !== "string" || (annotation["type"] !== "url_citation" && nested === undefined)) return undefined;
  const at = (index: unknown) => {
    const count = countOf(index);
    return count === undefined ? 0 : count + offset;
  };
  const cited = { start_index: at(start_index), end_index: at(end_index), url, title: textOf(title) ?? "" };
  return { type: "url_citation", url_citation: { ...nested, ...cited } };
}

/** All annotations; those of kinds that an upstream invents (OpenRouter's files) are the caller's to read and to send back. */
export function annotationsOf(values: unknown): Annotation[] {
  return listOf(values).flatMap((value): Annotation[] => {
    const annotation = objectOf(value) ?? {};
    const { type } = annotation;
    if (typeof type !== "string" || type === "url_citation") return citationsOf([value]);
    return [{ ...annotation, type, url_citation: undefined }];
  });
}

/** Log probabilities with all the members that the public format gives them; what names no token, or no number, is left out. */
export function logprobsOf(values: unknown): TokenLogprob[] {
  return listOf(values).flatMap((value) => {
    const entry = tokenOf(value);
    const top = listOf(objectOf(value)?.["top_logprobs"]).flatMap((one) => tokenOf(one) ?? []);
    return entry === undefined ? [] : [{ ...entry, top_logprobs: top }];
  });
}

function tokenOf(value: unknown): Omit<TokenLogprob, "top_logprobs"> | undefined {
  const { token, logprob, bytes } = objectOf(value) ?? {};
  if (typeof token !== "string" || !Number.isFinite(logprob)) return undefined;
  const isBytes = Array.isArray(bytes) && bytes.every((byte) => countOf(byte) !== undefined);
  return { token, logprob: logprob as number, bytes: isBytes ? bytes : null };
}

/** Thoughts in the shape in which they must come back; what is none is left out. */
export function thinkingBlocksOf(values: unknown): ThinkingBlock[] {
  return listOf(values).flatMap((value): ThinkingBlock[] => {
    const block = objectOf(value) ?? {};
    const { type, thinking, signature, data } = block;
    if (type === "redacted_thinking" && typeof data === "string") return [{ ...block, type, data }];
    if (type !== "thinking" || typeof thinking !== "string") return [];
    return [{ ...block, type, thinking, ...(signature != null && { signature: textOf(signature) ?? "" }) }];
  });
}
