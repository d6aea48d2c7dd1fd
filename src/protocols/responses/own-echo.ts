/**
 * Rewrites what an upstream's answer repeats of its request, where a persona changed that: the caller is shown the request as it was asked,
 * and no word of the persona's. Answers repeat the request in the whole response object, which plain answers are and some events hold.
 */
import { isObject, type JsonObject, keepSame, objectOf, parseJson, withEach } from "../../lib/json/json.ts";
import { type Pieces, patchBody } from "../body/patched-body.ts";
import type { Message, Metadata } from "../chat/schema.ts";
import { textOfContent } from "../chat/texts.ts";
import { echoOf, type ResponsesOptions } from "./options.ts";

/** Texts that are shorter stand in other places by chance. */
const minHidden = 16;

/**
 * @param asked the caller's body @param sent the same as it went out @param before the persona's messages
 * @param added what joins their `metadata`
 * @returns what rewrites a plain answer or the data of an event; it holds nothing of the request but what an answer repeats of it
 */
export function ownEcho(
  options: ResponsesOptions,
  asked: JsonObject,
  sent: JsonObject,
  before: readonly Message[],
  added?: Metadata,
): (data: string) => string {
  const echo = echoOf(options);
  const names = Object.keys({ ...asked, ...sent }).filter((name) => asked[name] !== sent[name] && name !== "model");
  const hidden = before.map(({ content }) => textOfContent(content)).filter((text) => text.trim().length >= minHidden);
  const repeated = new Set(["instructions", "input", ...names]);
  const asAsked = (response: JsonObject): JsonObject => {
    const entries = Object.entries(response).map(([name, value]) => {
      if (name === "output") return [name, value];
      return [name, repeated.has(name) ? (echo[name] ?? null) : without(value, hidden)];
    });
    const own: JsonObject = Object.fromEntries(entries);
    if (added !== undefined) own["metadata"] = { ...objectOf(own["metadata"]), ...added };
    // An upstream that was sent none has no place for it.
    if (echo["prompt"] !== undefined && !("prompt" in response)) own["prompt"] = echo["prompt"];
    return keepSame(response, own);
  };
  const rewritten = (said: JsonObject): JsonObject => {
    if (said["object"] === "response") return asAsked(said);
    const response = objectOf(said["response"]);
    if (response !== undefined) return keepSame(said, { ...said, response: asAsked(response) });
    // The model's own words have their place in the output.
    return "output_index" in said ? said : (without(said, hidden) as JsonObject);
  };
  return (data) => {
    const said = objectOf(parseJson(data));
    if (said === undefined) return data;
    const next = rewritten(said);
    return next === said ? data : textOf(patchBody({ body: data, parsed: said }, next, (name) => [name]));
  };
}

/** A value without these texts, wherever it holds them. @returns the value itself where it holds none */
function without(value: unknown, hidden: readonly string[]): unknown {
  if (typeof value === "string") return hidden.reduce((text, one) => text.replaceAll(one, ""), value);
  if (Array.isArray(value)) {
    return withEach(value, (one) => without(one, hidden));
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, one]) => [name, without(one, hidden)]);
  return keepSame(value, Object.fromEntries(entries) as JsonObject);
}

function textOf(pieces: Pieces): string {
  if (typeof pieces === "string") return pieces;
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece))).toString();
}
