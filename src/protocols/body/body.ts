/** A request's body, of whatever format: decoded, bounded and parsed, or the one `ApiError` that names what is wrong and where. */
import { isAscii } from "node:buffer";
import { type ParseErrorCode, printParseErrorCode, visit } from "jsonc-parser";
import { keepNumbers } from "../../lib/json/exact.ts";
import { keepNumbersInTurns } from "../../lib/json/exact-in-turns.ts";
import { isObject } from "../../lib/json/json.ts";
import { type JsonLimits, JsonScan } from "../../lib/json/scan.ts";
import { parseInSlices } from "../../lib/json/sliced-parse.ts";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import { ApiError } from "../errors.ts";
import { refuseDoubledNames } from "./doubled-names.ts";
import type { Source } from "./source.ts";

/** Bytes from which on a body stays what it came as: there is no text of it to be kept and made into bytes again. */
export const byteBody = 4 * 1024;

/** Bytes from which on the place of a fault is not looked for. */
export const largeBody = 64 * 1024;

/** Bytes from which on a body's decoding, parsing and checking are pieces of work, each in a turn of its own. */
export const hugeBody = 256 * 1024;

/** @throws ApiError invalid_json naming line and column, or the limit that it goes beyond, or that it is no object or no UTF-8; invalid_value for a doubled name */
export function parseBody(bytes: Uint8Array<ArrayBuffer>, limits: JsonLimits): Source {
  const scan = new JsonScan(limits, undefined, bytes.length >= byteBody);
  checkBounds(scan, bytes, limits);
  const text = textOf(bytes);
  const { body, parsed } = sourceOf(bytes, parseJson(text, bytes.length >= largeBody), text, scan.hasOddNumbers);
  refuseDoubledNames(bytes, scan.outerKeys, parsed);
  return typeof body === "string" ? { body, parsed, keys: scan.keys } : { body, parsed, ...scanned(scan, bytes) };
}

/** What a scan tells of a body. @param bytes at its beginning */
export function scanned(
  { keys, hasOddNumbers, outerColons }: JsonScan,
  bytes: Uint8Array,
): Pick<Source, "keys" | "hasOddNumbers" | "outerColons"> {
  return { keys, hasOddNumbers, outerColons: isMarked(bytes) ? undefined : outerColons };
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

/**
 * A large body that is known to be within its bounds.
 * @param hasOddNumbers as its scan tells
 * @throws ApiError as `parseBody` does, naming no place
 */
export function parseBounded(bytes: Uint8Array<ArrayBuffer>, hasOddNumbers: boolean): Source {
  const text = textOf(bytes);
  return sourceOf(bytes, parseJson(text, true), text, hasOddNumbers);
}

/** The same in pieces, which others have turns between. */
export async function parseInTurns(bytes: Uint8Array<ArrayBuffer>, hasOddNumbers: boolean): Promise<Source> {
  await nextSlice();
  let parsed = (await parseLists(bytes)) ?? parseAscii(bytes);
  if (parsed === undefined) {
    await nextSlice();
    const text = textOf(bytes);
    await nextSlice();
    parsed = parseJson(text, true);
  }
  await nextSlice();
  const source = sourceOf(bytes, parsed);
  const { buffer, byteOffset, length } = source.body as Uint8Array<ArrayBuffer>;
  if (hasOddNumbers) await keepNumbersInTurns(parsed, Buffer.from(buffer, byteOffset, length));
  await nextSlice();
  return source;
}

/** Bytes that take some 25 ms to be parsed where each character is an escape. */
const maxAtOnce = 4 * 1024 * 1024;

/** @returns undefined for a body that is parsed at once */
async function parseLists(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
  if (bytes.length < maxAtOnce) return undefined;
  try {
    const { buffer, byteOffset, length } = bytes;
    return await parseInSlices(Buffer.from(buffer, byteOffset, length), (text) => parseJson(text, true));
  } catch (error) {
    throw error instanceof ApiError ? error : invalidUtf8();
  }
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

/** @param text where the body may be short */
function sourceOf(bytes: Uint8Array<ArrayBuffer>, parsed: unknown, text = "", hasOddNumbers = false): Source {
  if (!isObject(parsed)) throw ApiError.invalidJson("The request body must be a JSON object.");
  if (hasOddNumbers) keepNumbers(parsed, text);
  return { body: bytes.length < byteBody ? text : withoutMark(bytes), parsed };
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
const isMarked = (bytes: Uint8Array) => bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
const withoutMark = (bytes: Uint8Array<ArrayBuffer>) => (isMarked(bytes) ? bytes.subarray(3) : bytes);

function parseJson(text: string, isLarge: boolean): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The place is looked for by a slower parser, which a large body would keep busy for seconds.
    throw invalidJson(isLarge ? "" : `: ${locateJsonFault(text)}`);
  }
}

/** Finds where a text stops being JSON; V8-style messages name no place, so the tolerant parser is asked for its first error. */
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
