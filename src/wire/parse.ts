/** A body, read and checked: a `ChatRequest`, or the one `ApiError` that names what is wrong and where. */
import { isAscii } from "node:buffer";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { type ParseError, parse as parseTolerantly, printParseErrorCode } from "jsonc-parser";
import { isObject, type JsonObject } from "../lib/json.ts";
import { formatPath, schemaFaults } from "../lib/schema-faults.ts";
import { type ChatRequest, ChatRequestBody } from "./chat.ts";
import { ApiError } from "./errors.ts";
import type { Source } from "./source.ts";

/** Made for the first call: it takes milliseconds, which a start should not wait for. */
let body: TypeCheck<typeof ChatRequestBody> | undefined;

/** @throws ApiError invalid_value or missing_field */
export function checkChatRequest(parsed: JsonObject): ChatRequest {
  const { value, lifted } = withLiteralExtraBody(parsed);
  body ??= TypeCompiler.Compile(ChatRequestBody);
  if (!body.Check(value)) throw requestFault(value, lifted);
  const request = withoutNulls(value) as ChatRequest;
  checkTogether(request);
  return request;
}

/** Bytes from which on a body stays what it came as: there is no text of it to be made, kept and made into bytes again. */
export const largeBody = 64 * 1024;

/**
 * @param maxDepth how deep arrays and objects may nest
 * @throws ApiError invalid_json naming line and column, or that the body is no object, nests too deeply or is no UTF-8
 */
export function parseBody(bytes: Uint8Array<ArrayBuffer>, maxDepth: number): Source {
  const body = bytes.length < largeBody ? textOf(bytes) : withoutMark(bytes);
  const value = typeof body === "string" ? parseJson(body) : (parseAscii(body) ?? parseJson(textOf(body)));
  return { body, parsed: checkObject(value, maxDepth) };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function textOf(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw ApiError.invalidJson("The request body is not valid UTF-8.");
  }
}

/** The byte-order mark is no part of the text: decoding drops it too. */
function withoutMark(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const isMarked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return isMarked ? bytes.subarray(3) : bytes;
}

/**
 * The parser of JSON lines, which is the parser of JSON, reads ASCII without making a text of it, as most large bodies are:
 * https://bun.com/docs/runtime/jsonl. With other characters it is slower than decoding and parsing.
 * @returns undefined for what is not one JSON value in ASCII
 */
function parseAscii(bytes: Uint8Array): unknown {
  if (!isAscii(bytes)) return undefined;
  const { values, done, error } = Bun.JSONL.parseChunk(bytes);
  return done && error === null && values.length === 1 ? values[0] : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw ApiError.invalidJson(`The request body is not valid JSON: ${locateJsonFault(text)}.`);
  }
}

function checkObject(value: unknown, maxDepth: number): JsonObject {
  if (!isObject(value)) throw ApiError.invalidJson("The request body must be a JSON object.");
  if (!nestsDeeperThan(value, maxDepth)) return value;
  throw ApiError.invalidJson(`The request body nests deeper than ${maxDepth} levels.`);
}

/** What walks it later must not run out of stack. */
function nestsDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((one) => nestsDeeperThan(one, levels - 1));
  for (const name in value) if (nestsDeeperThan((value as JsonObject)[name], levels - 1)) return true;
  return false;
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
  if (typeof literal !== "object" || literal === null || Array.isArray(literal)) return { value, lifted };
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
  const fault = schemaFaults(ChatRequestBody, value, 1)[0];
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

/** Where a text stops being JSON; V8-style messages name no place, so the tolerant parser is asked. */
function locateJsonFault(text: string): string {
  if (text.trim() === "") return "it is empty";
  const faults: ParseError[] = [];
  try {
    parseTolerantly(text, faults, { disallowComments: true, allowTrailingComma: false });
  } catch {
    // It calls itself for each level, until there is no stack left.
    return "it nests too deeply to be read";
  }
  const fault = faults[0];
  if (fault === undefined) return "it cannot be read";
  const before = text.slice(0, fault.offset);
  const line = before.split("\n").length;
  const column = fault.offset - before.lastIndexOf("\n");
  const reason = printParseErrorCode(fault.error)
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase();
  return `${reason} at line ${line}, column ${column}`;
}
