/**
 * Messages of Responses over a WebSocket: what a client's message asks for, and the messages that are errors.
 * Source: https://developers.openai.com/api/docs/guides/websocket-mode
 */
import { isObject, type JsonObject, listOf, objectOf, parseObject } from "../../lib/json/json.ts";
import { type JsonLimits, JsonScan } from "../../lib/json/scan.ts";
import type { SseEvent } from "../../lib/streams/sse.ts";
import { words } from "../../lib/text/words.ts";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import { checkBounds, hugeBody, parseBody, parseInTurns } from "../../protocols/body/body.ts";
import { patchBody } from "../../protocols/body/patched-body.ts";
import type { Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import { holdsThoughts } from "../../protocols/responses/reasoning.ts";

/** What a connection remembers of an answer that is stored nowhere: it lives and ends with the connection. */
export type Remembered = {
  readonly id: string;
  /** All items of the conversation, the answer's own last. */
  readonly items: readonly unknown[];
  /** A stored response that these items continue. */
  readonly continues?: string | undefined;
  /** Bytes of the items as JSON, about. */
  readonly size: number;
};

/** One `response.create`. */
export type SocketTurn = {
  readonly source: Source;
  readonly size: number;
  /** A name that all events of its answer bear. */
  readonly streamId: string | undefined;
};

/** One `response.cancel`: ends the response of that id, or the one under way that has that name. */
export type Cancel = {
  readonly cancels: string | undefined;
  readonly streamId: string | undefined;
};

/** A message that is answered by an event of its own, and asks for nothing. */
export type Refused = { readonly refused: JsonObject };

/** The names that turns may have. */
const streamIdForm = /^[\w.-]{1,256}$/;

const maxScanned = 1024 * 1024;

/** @throws ApiError invalid_json, invalid_value or request_too_large */
export async function parseMessage(
  message: string | Uint8Array,
  limits: JsonLimits & { readonly bodyBytes: number },
): Promise<SocketTurn | Cancel | Refused | undefined> {
  if (typeof message !== "string") throw ApiError.invalidJson("Messages must be text.");
  const bytes = Buffer.from(message);
  if (bytes.length > limits.bodyBytes) throw ApiError.requestTooLarge(limits.bodyBytes);
  const source = bytes.length < hugeBody ? parseBody(bytes, limits) : await parseHuge(bytes, limits);
  const { type, stream_id } = source.parsed;
  // Codex reports so that it has read an answer: nothing waits for it.
  if (type === "response.processed") return undefined;
  if (type === "response.steer") return { refused: steerFailed(source.parsed) };
  if (type !== "response.create" && type !== "response.cancel")
    throw ApiError.invalidValue("type", "The only events that are taken here are response.create and response.cancel.");
  if (stream_id != null && !(typeof stream_id === "string" && streamIdForm.test(stream_id)))
    throw ApiError.invalidValue("stream_id", "stream_id must be 1 to 256 letters, digits, '_', '.' and '-'.");
  const streamId = stream_id ?? undefined;
  if (type === "response.create") return { source, size: bytes.length, streamId };
  const { response_id = null } = source.parsed;
  if (response_id !== null && typeof response_id !== "string")
    throw ApiError.invalidValue("response_id", "response_id must be a string.");
  return { cancels: response_id ?? undefined, streamId };
}

/** Scans and parses in pieces, which others have turns between. */
async function parseHuge(bytes: Buffer<ArrayBuffer>, limits: JsonLimits): Promise<Source> {
  const scan = new JsonScan(limits);
  for (let at = 0; at < bytes.length; at += maxScanned) {
    checkBounds(scan, bytes.subarray(at, at + maxScanned), limits);
    await nextSlice();
  }
  return parseInTurns(bytes, scan.hasOddNumbers);
}

/** Members of a message that are no members of the request's body. */
const ofTransport = ["type", "stream_id", "generate", "service_request_id", "background"] as const;

/**
 * The body of the request that a message stands for. Unchanged members are copied as they were written.
 * @param earlier what its `previous_response_id` stands for, where the connection remembers it
 */
export function bodyOf({ source }: SocketTurn, earlier: Remembered | undefined): Blob {
  const next: JsonObject = { ...source.parsed, stream: true };
  for (const name of ofTransport) delete next[name];
  if (earlier !== undefined) {
    next["input"] = inputOf(source.parsed, earlier);
    if (earlier.continues === undefined) delete next["previous_response_id"];
    else next["previous_response_id"] = earlier.continues;
  }
  const pieces = patchBody(source, next, (name) => [name]);
  return new Blob(typeof pieces === "string" ? [pieces] : [...pieces]);
}

/** @returns the items of a message's input behind those of the conversation that it continues */
export function inputOf({ input }: JsonObject, earlier: Remembered | undefined): unknown[] {
  const items = typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listOf(input);
  return [...(earlier?.items ?? []), ...items];
}

/** @returns the items of an answer that a later turn may send back without a store: reasoning that holds nothing can't be looked up */
const keptOutput = (response: JsonObject): unknown[] =>
  listOf(response["output"]).filter((item) => !isObject(item) || item["type"] !== "reasoning" || holdsThoughts(item));

/** Codex says headers of a single request so, as a socket has only those of its handshake. */
const headerMember = /^ws_request_header_(x_openai_internal_codex_[a-z_]{1,64})$/;
const maxHeaders = 16;

/** @returns names and values of the headers that a message says for its request; what is no header's text is left out */
export function headersIn({ source }: SocketTurn): [string, string][] {
  const said = Object.entries(objectOf(source.parsed["client_metadata"]) ?? {}).flatMap(([member, value]) => {
    const name = headerMember.exec(member)?.[1];
    const isText = typeof value === "string" && /^[\x20-\x7e]{1,1024}$/.test(value);
    return name === undefined || !isText ? [] : [[name.replaceAll("_", "-"), value] as [string, string]];
  });
  return said.slice(0, maxHeaders);
}

/** Headers of a refusal that its client may act on. */
const shownHeaders = ["retry-after", "retry-after-ms", "x-should-retry", "x-request-id"];

/** The message for a request that was refused. @param body of the answer to the same request by HTTP */
export function refusalEvent(status: number, body: string, headers: Headers): JsonObject {
  const error = objectOf(parseObject(body)?.["error"]) ?? {
    type: "server_error",
    code: null,
    message: body,
    param: null,
  };
  const shown = shownHeaders.flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  const isLost = status === 404 && error["param"] === "previous_response_id";
  return {
    type: "error",
    status: isLost ? 400 : status,
    // On this code clients send the whole conversation again.
    error: isLost ? { ...error, code: "previous_response_not_found" } : error,
    ...(shown.length > 0 && { headers: Object.fromEntries(shown) }),
  };
}

/** The message for an error of the connection's own. */
export const errorEvent = (error: ApiError): JsonObject => ({
  type: "error",
  status: error.status,
  error: error.fields(),
});

/** Source: https://developers.openai.com/api/docs/guides/websocket-mode */
export const limitReached = (seconds: number): JsonObject => ({
  type: "error",
  status: 400,
  error: {
    type: "invalid_request_error",
    code: "websocket_connection_limit_reached",
    message: `This connection has reached its limit of ${seconds} s. Open a new one to continue.`,
    param: null,
  },
});

/** No upstream of ours is steered: the client gets its words back, and may say them in its next turn. */
const steerFailed = ({ previous_response_id: id, input }: JsonObject): JsonObject => ({
  type: "response.steer.failed",
  sequence_number: 0,
  error: {
    type: "invalid_request_error",
    code: "steering_not_supported",
    message: "A response under way can't be steered here. Send a response.create behind it.",
  },
  steer: { ...(typeof id === "string" && { previous_response_id: id }), input },
});

/** An error within a stream, with the status that clients look for. */
export const faultEvent = (event: JsonObject): JsonObject => ({ status: 500, ...event });

/** @returns undefined for what is no JSON object */
const terminal: ReadonlySet<unknown> = new Set(
  words("response.completed response.incomplete response.failed response.cancelled error"),
);

/** An event's text with its turn's name, which is put in front. */
export function named(data: string, streamId: string | undefined): string {
  if (streamId === undefined || !data.startsWith("{")) return data;
  return `{"stream_id":${JSON.stringify(streamId)},${data.slice(1)}`;
}

/** @returns an event that ends a response; undefined for any other */
export function terminalOf({ event, data }: SseEvent): JsonObject | undefined {
  if (event !== "" && !terminal.has(event)) return undefined;
  const body = parseObject(data);
  return terminal.has(body?.["type"]) ? body : undefined;
}

export function rememberedOf(
  answer: JsonObject,
  turn: SocketTurn,
  earlier: Remembered | undefined,
): Remembered | undefined {
  const { parsed: body } = turn.source;
  const { id } = answer;
  if (typeof id !== "string") return undefined;
  const output = keptOutput(answer);
  const stored = body["previous_response_id"];
  return {
    id,
    items: [...inputOf(body, earlier), ...output],
    continues: earlier === undefined ? (typeof stored === "string" ? stored : undefined) : earlier.continues,
    size: (earlier?.size ?? 0) + turn.size + JSON.stringify(output).length,
  };
}
