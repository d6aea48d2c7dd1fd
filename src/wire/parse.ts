/** A body's text, checked: a `ChatRequest`, or the one `ApiError` that names what is wrong and where. */
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { type ParseError, parse as parseTolerantly, printParseErrorCode } from "jsonc-parser";
import { formatPath, schemaFaults } from "../lib/schema-faults.ts";
import { type ChatRequest, ChatRequestBody } from "./chat.ts";
import { ApiError } from "./errors.ts";
import type { Source } from "./source.ts";

/** Made for the first call: it takes milliseconds, which a start should not wait for. */
let body: TypeCheck<typeof ChatRequestBody> | undefined;

export type Parsed = { readonly request: ChatRequest; readonly source: Source };

/**
 * @param maxDepth how deep arrays and objects may nest
 * @throws ApiError invalid_json, invalid_value or missing_field
 */
export function parseChatRequest(text: string, maxDepth: number): Parsed {
  const parsed = parseJsonObject(text, maxDepth);
  const { value, lifted } = withLiteralExtraBody(parsed);
  body ??= TypeCompiler.Compile(ChatRequestBody);
  if (!body.Check(value)) throw requestFault(value, lifted);
  const request = withoutNulls(value) as ChatRequest;
  checkTogether(request);
  return { request, source: { text, parsed } };
}

/** @throws ApiError invalid_json naming line and column, or that the body is no object or nests too deeply */
export function parseJsonObject(text: string, maxDepth: number): Record<string, unknown> {
  if (nestsDeeperThan(text, maxDepth)) {
    throw ApiError.invalidJson(`The request body nests deeper than ${maxDepth} levels.`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw ApiError.invalidJson(`The request body is not valid JSON: ${locateJsonFault(text)}.`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw ApiError.invalidJson("The request body must be a JSON object.");
  }
  return value as Record<string, unknown>;
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
  parseTolerantly(text, faults, { disallowComments: true, allowTrailingComma: false });
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

/** Counts brackets outside strings, so that a hostile body can't exhaust the stack of what walks it later. */
function nestsDeeperThan(text: string, limit: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 34: // "
        at = closingQuote(text, at);
        break;
      case 91: // [
      case 123: // {
        depth += 1;
        if (depth > limit) return true;
        break;
      case 93: // ]
      case 125: // }
        depth -= 1;
        break;
    }
  }
  return false;
}

function closingQuote(text: string, open: number): number {
  let quote = text.indexOf('"', open + 1);
  while (quote >= 0) {
    let slash = quote - 1;
    while (text.charCodeAt(slash) === 92) slash -= 1;
    if ((quote - slash) % 2 === 1) return quote;
    quote = text.indexOf('"', quote + 1);
  }
  return text.length;
}
