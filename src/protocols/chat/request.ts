/** A body, read and checked: a `ChatRequest`, or the one `ApiError` that names what is wrong and where. */
import { isAscii } from "node:buffer";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { type ParseErrorCode, printParseErrorCode, visit } from "jsonc-parser";
import { nextSlice } from "../../lib/cooperative-scheduling.ts";
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { type JsonLimits, JsonScan } from "../../lib/json/scan.ts";
import { formatPath, schemaErrors } from "../../lib/schema-errors.ts";
import { ApiError } from "../errors.ts";
import type { Source } from "../source.ts";
import { withoutEmptyMembers } from "./empty-members.ts";
import { type ChatRequest, ChatRequestBody } from "./schema.ts";

/** Made for the first call: it takes milliseconds, which a start should not wait for. */
let body: TypeCheck<typeof ChatRequestBody> | undefined;

/** @throws ApiError invalid_value or missing_field */
export function checkChatRequest(parsed: JsonObject): ChatRequest {
  const { value: given, lifted } = withLiteralExtraBody(parsed);
  const value = withoutEmptyMembers(given);
  body ??= TypeCompiler.Compile(ChatRequestBody);
  if (!body.Check(value)) throw requestFault(value, lifted);
  const request = withoutNulls(value) as ChatRequest;
  checkTogether(request);
  return request;
}

/** Bytes from which on a body stays what it came as: there is no text of it to be kept and made into bytes again. */
export const largeBody = 64 * 1024;

/** Bytes from which on a body's decoding, parsing and checking are pieces of work, each in a turn of its own. */
export const hugeBody = 256 * 1024;

/** @throws ApiError invalid_json naming line and column, or the limit that it goes beyond, or that it is no object or no UTF-8 */
export function parseBody(bytes: Uint8Array<ArrayBuffer>, limits: JsonLimits): Source {
  checkBounds(new JsonScan(limits), bytes, limits);
  return parseBounded(bytes);
}

/** One piece of a body. @throws ApiError invalid_json naming the limit that the body goes beyond */
export function checkBounds(scan: JsonScan, piece: Uint8Array, limits: JsonLimits): void {
  const exceeded = scan.push(piece);
  if (exceeded !== undefined) throw ApiError.invalidJson(`The request body ${excess[exceeded](limits[exceeded])}.`);
}

const excess: Record<keyof JsonLimits, (limit: number) => string> = {
  jsonDepth: (limit) => `nests deeper than ${limit} levels (limits.json_depth)`,
  jsonValues: (limit) => `holds more than ${limit} values (limits.json_values)`,
  jsonKeys: (limit) => `holds more than ${limit} keys (limits.json_keys)`,
  jsonStringBytes: (limit) => `has a string of more than ${limit} bytes (limits.json_string_bytes)`,
};

/** A body that is known to be within its bounds. @throws ApiError as `parseBody` does, naming no place in a large one */
export function parseBounded(bytes: Uint8Array<ArrayBuffer>, isLarge = bytes.length >= largeBody): Source {
  const text = textOf(bytes);
  return sourceOf(bytes, text, parseJson(text, isLarge));
}

/** The same in pieces, which others have turns between. */
export async function parseInTurns(bytes: Uint8Array<ArrayBuffer>): Promise<Source> {
  await nextSlice();
  let parsed = parseAscii(bytes);
  let text = "";
  if (parsed === undefined) {
    await nextSlice();
    text = textOf(bytes);
    await nextSlice();
    parsed = parseJson(text, true);
  }
  const source = sourceOf(bytes, text, parsed);
  await nextSlice();
  return source;
}

/**
 * The parser of JSON lines, which is the parser of JSON, reads ASCII without making a text of it, as most large bodies are:
 * https://bun.com/docs/runtime/jsonl. It takes as long as decoding and parsing, and three bodies less of memory.
 * @returns undefined for what is not one JSON value in ASCII
 */
function parseAscii(bytes: Uint8Array): unknown {
  if (!isAscii(bytes)) return undefined;
  const { values, done, error } = Bun.JSONL.parseChunk(bytes);
  return done && error === null && values.length === 1 ? values[0] : undefined;
}

function sourceOf(bytes: Uint8Array<ArrayBuffer>, text: string, parsed: unknown): Source {
  if (!isObject(parsed)) throw ApiError.invalidJson("The request body must be a JSON object.");
  return { body: bytes.length < largeBody ? text : withoutMark(bytes), parsed };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function textOf(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw invalidUtf8();
  }
}

export const invalidUtf8 = () => ApiError.invalidJson("The request body is not valid UTF-8.");

/** @param where empty, or what is wrong in which place */
export const invalidJson = (where = "") => ApiError.invalidJson(`The request body is not valid JSON${where}.`);

/** The byte-order mark is no part of the text: decoding drops it too. */
function withoutMark(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const isMarked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return isMarked ? bytes.subarray(3) : bytes;
}

function parseJson(text: string, isLarge: boolean): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The place is looked for by a slower parser, which a large body would keep busy for seconds.
    throw invalidJson(isLarge ? "" : `: ${locateJsonFault(text)}`);
  }
}

/**
 * Some client libraries send their users' `extra_body` as it stands: its standard fields mean what they mean at the top
 * level, and are checked like those. Options stay where they are; `extras.ts` reads them there.
 */
function withLiteralExtraBody(value: Record<string, unknown>): {
  value: Record<string, unknown>;
  lifted: ReadonlySet<string>;
} {
  const literal = value["extra_body"];
  const lifted = new Set<string>();
  if (literal == null) return { value, lifted };
  if (!isObject(literal)) throw ApiError.invalidValue("extra_body", "extra_body must be an object.");
  const rest: Record<string, unknown> = {};
  const top: Record<string, unknown> = { ...value, extra_body: rest };
  for (const [key, one] of Object.entries(literal)) {
    if (!(key in ChatRequestBody.properties)) rest[key] = one;
    else if (top[key] == null) {
      top[key] = one;
      lifted.add(key);
    }
  }
  return { value: top, lifted };
}

function requestFault(value: unknown, lifted: ReadonlySet<string>): ApiError {
  const fault = schemaErrors(ChatRequestBody, value, 1)[0];
  if (fault === undefined) return ApiError.invalidJson("The request body is not a chat completion request.");
  const path = lifted.has(String(fault.path[0])) ? ["extra_body", ...fault.path] : fault.path;
  const param = formatPath(path);
  return fault.kind === "missing"
    ? ApiError.missingField(param)
    : ApiError.invalidValue(param, `${param} ${fault.message}.`);
}

/** Rules that hold between fields. */
function checkTogether(request: ChatRequest): void {
  if (request.stream_options !== undefined && request.stream !== true) {
    throw ApiError.invalidValue("stream_options", "stream_options is only allowed with stream: true.");
  }
  if (request.top_logprobs !== undefined && request.logprobs !== true) {
    throw ApiError.invalidValue("top_logprobs", "top_logprobs needs logprobs: true.");
  }
  request.messages.forEach((message, at) => {
    if (message.role !== "assistant") return;
    const says = message.content != null || message.refusal != null || message.audio != null;
    if (!says && !message.tool_calls?.length && message.function_call == null) {
      throw ApiError.missingField(`messages[${at}].content`);
    }
  });
}

function withoutNulls(value: Record<string, unknown>): Record<string, unknown> {
  for (const key in value) {
    if (value[key] === null) {
      return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== null));
    }
  }
  return value;
}

/** Where a text stops being JSON; V8-style messages name no place, so the tolerant parser is asked for its first complaint. */
function locateJsonFault(text: string): string {
  if (text.trim() === "") return "it is empty";
  let fault: { error: ParseErrorCode; offset: number } | undefined;
  const onError = (error: ParseErrorCode, offset: number) => {
    fault = { error, offset };
    throw fault;
  };
  try {
    visit(text, { onError }, { disallowComments: true, allowTrailingComma: false });
  } catch {}
  if (fault === undefined) return "it cannot be read";
  const before = text.slice(0, fault.offset);
  const line = before.split("\n").length;
  const column = fault.offset - before.lastIndexOf("\n");
  const reason = printParseErrorCode(fault.error)
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase();
  return `${reason} at line ${line}, column ${column}`;
}
