/**
 * Changes a request that goes to a model of Google's as it came, and ends a stream of theirs that breaks.
 * Source: https://ai.google.dev/api/generate-content
 */
import {
  derive,
  isObject,
  type JsonObject,
  keepSame,
  listOf,
  numberOf,
  objectOf,
  parseJson,
} from "../../lib/json/json.ts";
import { snakeCase } from "../../lib/text/snake-case.ts";
import { putInsertions } from "../body/insertion.ts";
import { saidBefore } from "../body/said-before.ts";
import type { FunctionTool } from "../chat/schema.ts";
import { doneData } from "../chat/stream.ts";
import type { NativeChange, NativeEncoder } from "../protocol.ts";
import { isSeal } from "../state/seal.ts";
import { fieldsBody } from "./errors.ts";
import { contentOf, countedPrompt, listed } from "./request.ts";
import { inOneSpelling } from "./spelling.ts";
import { anySignature } from "./state.ts";
import type { Framing } from "./stream.ts";

/** @returns the body itself where nothing changes; undefined where the change has no words in this format */
export function patchGenerateContent(body: JsonObject, change: NativeChange): JsonObject | undefined {
  const { before, within = [], fields, members = {}, model, needsSignatures = true } = change;
  const patch = new Patch(body);
  if ("variables" in body) patch.set("variables", undefined);
  if (body["model"] !== undefined) patch.set("model", `models/${model}`);
  if (!patch.fields(fields)) return undefined;
  for (const [name, value] of Object.entries(members)) patch.merge(name, value);
  const said = saidBefore(before);
  if (said === undefined) return undefined;
  patch.instruct(said.system);
  const given = patch.get("contents");
  const own = withoutForeignSeals(given === undefined ? [] : listed(given), needsSignatures);
  const contents = putInsertions(own, within, isOfUser, preceded);
  if (contents === undefined) return undefined;
  const examples = said.examples.map(({ role, content }) => ({
    role: role === "user" ? "user" : "model",
    parts: [{ text: content }],
  }));
  if (examples.length > 0) patch.set("contents", derive(contents, [...examples, ...contents]));
  else if (contents !== given && !(contents.length === 1 && contents[0] === given)) patch.set("contents", contents);
  return patch.body;
}

const isResult = (part: unknown): boolean =>
  isObject(part) && (part["functionResponse"] ?? part["function_response"]) != null;

/** Results of functions alone are no message of the user. */
function isOfUser({ role, parts }: JsonObject): boolean {
  return (role ?? "user") === "user" && parts != null && listed(parts).some((part) => !isResult(part));
}

function preceded(content: JsonObject, text: string): JsonObject {
  const parts = listed(content["parts"]);
  const at = parts.findIndex((part) => !isResult(part));
  return derive(content, { ...content, parts: [...parts.slice(0, at), { text }, ...parts.slice(at)] });
}

/** A prompt to be counted: contents alone, or a whole request. */
export function patchCount(body: JsonObject, change: NativeChange): JsonObject | undefined {
  const prompt = countedPrompt(body);
  const patched = patchGenerateContent(prompt, change);
  if (patched === undefined || (patched === body && prompt === body)) return patched;
  return { generateContentRequest: { ...patched, model: `models/${change.model}` } };
}

/** A body with some of its members changed, under whichever of its two names each stands. */
class Patch {
  #body: JsonObject;
  #isCopy = false;

  constructor(body: JsonObject) {
    this.#body = body;
  }

  get body(): JsonObject {
    return this.#body;
  }

  get(name: string): unknown {
    return this.#body[name] ?? this.#body[snakeCase(name)] ?? undefined;
  }

  /** @param value undefined: removed */
  set(name: string, value: unknown): void {
    if (!this.#isCopy) this.#body = { ...this.#body };
    this.#isCopy = true;
    delete this.#body[snakeCase(name)];
    if (value === undefined) delete this.#body[name];
    else this.#body[name] = value;
  }

  /** @param value an object's members are set one by one */
  merge(name: string, value: unknown): void {
    const known = objectOf(this.get(name));
    this.set(name, isObject(value) && known !== undefined ? { ...inOneSpelling(known), ...value } : value);
  }

  /** The persona's text stands before the caller's. */
  instruct(texts: readonly string[]): void {
    if (texts.length === 0) return;
    const own = objectOf(contentOf(this.get("systemInstruction"))) ?? {};
    const said = listOf(own["parts"]);
    this.set("systemInstruction", { ...own, parts: derive(said, [...texts.map((text) => ({ text })), ...said]) });
  }

  /** @returns false for a field that nobody can say */
  fields(fields: NativeChange["fields"]): boolean {
    for (const [name, value] of Object.entries(fields)) {
      if (value === undefined) continue;
      if (name === "tools") {
        if (!this.#declare(listOf(value) as FunctionTool[])) return false;
      } else if (unsayable.has(name)) return false;
    }
    return true;
  }

  /** Those of the persona stand before the caller's, which stay as they came; all functions in one entry. */
  #declare(joined: readonly FunctionTool[]): boolean {
    const given = this.get("tools");
    const own = given === undefined ? [] : listed(given);
    const at = own.findIndex((tool) => isObject(tool) && declarationsIn(tool).length > 0);
    const entry = objectOf(own[at]) ?? {};
    const known = declarationsIn(entry);
    const names = new Set(
      own.flatMap((tool) => declarationsIn(objectOf(tool) ?? {})).map((one) => objectOf(one)?.["name"]),
    );
    const added = joined.filter(({ function: { name } }) => !names.has(name));
    const functionDeclarations = [...added.map(declarationOf), ...known];
    const { function_declarations: _, ...rest } = entry;
    const whole = { ...rest, functionDeclarations };
    if (added.length > 0) this.set("tools", at < 0 ? [whole, ...own] : own.with(at, whole));
    return added.every(({ type }) => type === "function");
  }
}

/** The caller's tools and choice among them can't be changed by a persona without being read. */
const unsayable: ReadonlySet<string> = new Set(["tool_choice", "modalities"]);

const declarationsIn = ({ functionDeclarations, function_declarations }: JsonObject): readonly unknown[] =>
  listed(functionDeclarations ?? function_declarations ?? []);

function declarationOf({ function: { name, description, parameters } }: FunctionTool): JsonObject {
  const takes = Object.keys(objectOf((parameters as JsonObject | null | undefined)?.["properties"]) ?? {}).length > 0;
  return {
    name,
    ...(description != null && { description }),
    ...(takes && { parametersJsonSchema: parameters }),
  };
}

/**
 * Without thinking that Google did not make: its signatures, and thoughts and empty parts that held nothing else. A content without
 * parts goes too.
 * @returns the list itself where there was none
 */
function withoutForeignSeals(contents: readonly unknown[], needed: boolean): readonly unknown[] {
  const kept = contents.flatMap((content) => {
    if (!isObject(content) || content["parts"] == null) return [content];
    const said = listed(content["parts"]);
    const parts = keepSame(
      said,
      said.flatMap((part) => ownPart(part, needed)),
    );
    if (parts === said) return [content];
    return parts.length === 0 ? [] : [derive(content, { ...content, parts })];
  });
  return keepSame(contents, kept);
}

function ownPart(part: unknown, needed: boolean): unknown[] {
  if (!isObject(part)) return [part];
  const signature = part["thoughtSignature"] ?? part["thought_signature"];
  if (typeof signature !== "string" || !isSeal(signature)) return [part];
  const { thoughtSignature: _, thought_signature: __, ...rest } = part;
  const isCall = rest["functionCall"] != null || rest["function_call"] != null;
  if (isCall) return [derive(part, needed ? { ...rest, thoughtSignature: anySignature } : rest)];
  const isEmpty = Object.entries(rest).every(([name, value]) => name === "text" && value === "");
  return isEmpty || rest["thought"] === true ? [] : [derive(part, rest)];
}

/** @param list the client wants one JSON list, of what comes as events */
export function nativeEncoder(framing: Framing, list: boolean): NativeEncoder {
  const close = (events: string[]) => {
    const end = framing.end();
    if (end !== "") events.push(end);
  };
  return {
    fault(error, _last, events) {
      events.push(framing.answer(JSON.stringify(fieldsBody(error))));
      close(events);
    },
    // The format has no such word, and Google's clients can't read it.
    shown: (event) => (event.data === doneData ? [] : [event]),
    // https://github.com/googleapis/js-genai/blob/main/src/_api_client.ts (throwIfStreamErrorChunk): others pass unseen.
    knowsFault({ data }) {
      const code = numberOf(objectOf(objectOf(parseJson(data))?.["error"])?.["code"]) ?? 0;
      return code >= 400 && code < 600;
    },
    readsLines: true,
    ...(list && { framing: { event: (data: string) => framing.answer(data), end: close } }),
  };
}
