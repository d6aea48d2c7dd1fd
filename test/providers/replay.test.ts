/**
 * Replays every case of test/fixtures (test/helpers/fixtures.ts says what a case holds) through its provider: the request it
 * makes, the answer it reads, and a stream cut into pieces in several ways.
 */
import { describe, expect, test } from "bun:test";
import { StreamFold } from "../../src/protocols/chat/fold.ts";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import type { ChunkBody, CompletionBody } from "../../src/protocols/chat/schema.ts";
import { ApiError, InvalidAnswer, UpstreamFault } from "../../src/protocols/errors.ts";
import type { AnsweredCall, RemoteProvider } from "../../src/providers/provider.ts";
import { ChatStreamWriter } from "../helpers/chat-stream.ts";
import { decodeStream } from "../helpers/decode-stream.ts";
import {
  type AnsweredCase,
  callOf,
  type ExpectedError,
  type Family,
  type FixtureCase,
  fixtureCases,
  fixtureFamilies,
  signedHeaders,
} from "../helpers/fixtures.ts";
import { textOfBody } from "../helpers/upstream-body.ts";

const encoder = new TextEncoder();

for (const family of fixtureFamilies()) {
  describe(family.folder, () => {
    for (const one of fixtureCases(family.folder)) describeCase(family, one);
  });
}

function describeCase(family: Family, one: FixtureCase): void {
  const { provider } = family;
  const title = `${one.path}: ${one.description}`;
  const call = checkedCallOf(one, family);

  test(`${title} (has a public source)`, () => expect(one.source).toMatch(/^https:\/\//));
  test(`${title} (request)`, () => {
    if (one.validation_error !== undefined) {
      expectValidationError(() => provider.encode(call), one.validation_error);
      return;
    }
    const sent = provider.encode(call);
    if (one.upstream_request !== undefined) expect(JSON.parse(textOfBody(sent.body))).toEqual(one.upstream_request);
    if (one.url !== undefined) expect(sent.url).toBe(call.account.baseUrl + one.url);
    const headers = signedHeaders(one, provider, sent);
    for (const [header, value] of Object.entries(one.headers ?? {})) {
      expect([header, headers[header] ?? null]).toEqual([header, value]);
    }
  });
  if (one.form === "json") test(`${title} (answer)`, () => expectAnswer(provider, call, one as AnsweredCase));
  if (one.form === "sse") describeStream(provider, call, one as AnsweredCase, title);
}

function describeStream(provider: RemoteProvider, call: AnsweredCall, one: AnsweredCase, title: string): void {
  for (const [way, pieces] of waysToCut(one.upstream)) {
    test(`${title} (stream, ${way})`, () => expectStream(provider, call, pieces, one.expected));
  }
  if (one.expected.error === undefined) {
    test(`${title} (stream, as clients see it)`, () => expectLegalStream(provider, call, one));
  }
}

/** The call of a case, its request checked as that of any client. */
function checkedCallOf(one: FixtureCase, family: Family): AnsweredCall {
  const body = { ...one.request, model: `${family.provider.name}/${one.model}` };
  return callOf(one, family, checkChatRequest(structuredClone(body)));
}

function expectAnswer(provider: RemoteProvider, call: AnsweredCall, { upstream, expected }: AnsweredCase): void {
  const decode = () => provider.decode(JSON.parse(upstream), upstream, call);
  if (expected.error !== undefined) {
    expectError(decode, { payload: upstream, ...expected.error });
    return;
  }
  expect(plain(decode())).toEqual(expected.completion!);
  if (expected.upstream_response_id !== undefined) {
    expect(provider.upstreamResponseId?.(JSON.parse(upstream))).toBe(expected.upstream_response_id);
  }
}

/** The same bytes in different pieces; all must give the same bodies. */
function waysToCut(sse: string): [string, Uint8Array[]][] {
  const bytes = encoder.encode(sse);
  const returns = encoder.encode(sse.replace(/\r?\n/g, "\r\n"));
  return [
    ["whole", [bytes]],
    ["byte by byte", cut(bytes, () => 1)],
    ["in odd pieces", cut(bytes, lengths(7))],
    ["in other odd pieces", cut(bytes, lengths(4242))],
    ["with CRLF, byte by byte", cut(returns, () => 1)],
    ["with CRLF, in odd pieces", cut(returns, lengths(99))],
  ];
}

function cut(bytes: Uint8Array, length: () => number): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + length();
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

/** Piece lengths of 1 to 97 bytes, the same on every run. */
function lengths(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return 1 + (state % 97);
  };
}

function expectStream(
  provider: RemoteProvider,
  call: AnsweredCall,
  pieces: Uint8Array[],
  wanted: AnsweredCase["expected"],
): void {
  const decoder = provider.streamDecoder(call);
  const decode = () => [...decodeStream(decoder, pieces)].flat();
  if (wanted.error !== undefined) {
    expectError(decode, wanted.error);
    return;
  }
  const bodies = decode();
  if (wanted.chunks !== undefined) expect(plain(bodies)).toEqual(wanted.chunks);
  expect(plain(folded(bodies))).toEqual(wanted.completion!);
  if (wanted.upstream_response_id !== undefined) expect(decoder.upstreamResponseId).toBe(wanted.upstream_response_id);
}

function folded(bodies: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(bodies);
  return fold.result();
}

/** What strict client libraries insist on, in the chunks as they are sent. */
function expectLegalStream(provider: RemoteProvider, call: AnsweredCall, one: AnsweredCase): void {
  const { request } = call;
  const writer = new ChatStreamWriter({
    envelope: { id: "id", created: 1, model: request.model },
    includeUsage: true,
    thinkingRequested: one.thinking_requested ?? provider.wantsThoughts(call),
    choices: request.n ?? 1,
  });
  const bodies = [...decodeStream(provider.streamDecoder(call), [encoder.encode(one.upstream)])].flat();
  const texts = [...writer.push(bodies), ...writer.end()];
  expect(writer.normaliser.complete).toBe(true);
  expect(texts.pop()).toBe("[DONE]");
  const chunks = texts.map((text) => JSON.parse(text));
  expect(chunks.at(-1).choices).toEqual([]);
  expect(Object.keys(chunks.at(-1).usage)).toEqual(
    expect.arrayContaining(["prompt_tokens", "completion_tokens", "total_tokens"]),
  );
  const roles = new Map<number, number>();
  const finishes = new Map<number, number>();
  const argumentsByCall = new Map<string, string>();
  for (const { choices } of chunks) {
    for (const { index, delta, finish_reason } of choices) {
      expect(finishes.has(index)).toBe(false);
      if (delta.role !== undefined) roles.set(index, (roles.get(index) ?? 0) + 1);
      if (finish_reason !== null) finishes.set(index, 1);
      expect([null, "stop", "length", "tool_calls", "content_filter", "function_call"]).toContain(finish_reason);
      for (const part of delta.tool_calls ?? []) collectArguments(argumentsByCall, index, part);
    }
  }
  expect([...roles.values()].every((count) => count === 1)).toBe(true);
  expect([...roles.keys()].sort()).toEqual([...finishes.keys()].sort());
  for (const text of argumentsByCall.values()) JSON.parse(text);
}

type CallPart = {
  index: number;
  id?: string;
  type?: string;
  custom?: object;
  function?: { name?: string; arguments?: string };
};

function collectArguments(byCall: Map<string, string>, choice: number, part: CallPart): void {
  if (part.custom !== undefined) return;
  const key = `${choice}.${part.index}`;
  const known = byCall.get(key);
  if (known === undefined) {
    expect(part.index === 0 || byCall.has(`${choice}.${part.index - 1}`)).toBe(true);
    expect([typeof part.id, part.type, typeof part.function?.name]).toEqual(["string", "function", "string"]);
  } else {
    expect([part.id, part.type, part.function?.name]).toEqual([undefined, undefined, undefined]);
  }
  byCall.set(key, (known ?? "") + (part.function?.arguments ?? ""));
}

function expectError(decode: () => unknown, wanted: ExpectedError): void {
  const fault = thrownBy(decode);
  if (wanted.invalid === true) {
    expect(fault).toBeInstanceOf(InvalidAnswer);
    return;
  }
  if (!(fault instanceof UpstreamFault)) throw fault;
  expect(fault.status).toBe(wanted.status!);
  if (wanted.payload !== undefined) expect(fault.payload).toBe(wanted.payload);
}

function expectValidationError(encode: () => unknown, wanted: { status: number; param: string }): void {
  const error = thrownBy(encode);
  if (!(error instanceof ApiError)) throw error;
  expect({ status: error.status, param: error.param }).toEqual(wanted);
}

function thrownBy(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return new Error("nothing was thrown");
}

/** As JSON sees it: keys without a value are gone. */
function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}
