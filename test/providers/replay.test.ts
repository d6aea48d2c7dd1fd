/**
 * Replays every case of test/fixtures/<provider>/<case>/ through the provider of that name
 * (`<provider>-<anything>/` holds more cases of the same one):
 * - `case.json`: what `Case` says. `request` is what a client sends, without `model`; `url` is what follows the base URL;
 *   `headers` are those that must be sent, null for one that must not; `refused` is where `encode` must throw our own error.
 * - `upstream-request.json`: the body that must reach the upstream. May be missing where only the answer matters.
 * - `upstream.json` or `upstream.sse`: the answer's bytes. May be missing where only the request matters.
 * - `expected.json`: for a plain answer the body; for a stream `{ chunks?, folded }`; for either `{ fault: { status, payload? } }`,
 *   where `payload` defaults to the whole answer; `upstreamResponseId` where the family has one.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { doneData, SseParser } from "../../src/lib/sse.ts";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import type { ChatRequest, ChunkBody, CompletionBody } from "../../src/protocols/chat/schema.ts";
import { ApiError, InvalidAnswer, UpstreamFault } from "../../src/protocols/errors.ts";
import type { Account, AnsweredCall, InlineMedia, RemoteProvider } from "../../src/providers/provider.ts";
import { providerNamed } from "../../src/providers/registry.ts";
import { StreamFold } from "../../src/upstream/stream/fold.ts";
import { StreamShaper, shapingFor } from "../../src/upstream/stream/shape.ts";
import { textOfBody } from "../helpers/upstream-body.ts";

type Case = {
  readonly description: string;
  readonly source: string;
  readonly model: string;
  readonly request: Record<string, unknown>;
  readonly extras?: Record<string, unknown>;
  readonly account?: Partial<Account>;
  readonly media?: Record<string, InlineMedia>;
  readonly url?: string;
  readonly headers?: Record<string, string | null>;
  readonly thinkingRequested?: boolean;
  readonly refused?: { status: number; param: string };
};
/** An error of the upstream's own, or what is neither an answer nor an error. */
type Fault = { status?: number; payload?: string; invalid?: true };
type Expected = { fault?: Fault; chunks?: ChunkBody[]; folded?: CompletionBody; upstreamResponseId?: string };

const fixtures = resolve(import.meta.dir, "../fixtures");
const encoder = new TextEncoder();

for (const family of foldersIn(fixtures)) {
  const cases = foldersIn(join(fixtures, family)).filter((name) =>
    existsSync(join(fixtures, family, name, "case.json")),
  );
  if (cases.length === 0) continue;
  const provider = providerNamed(family) ?? providerNamed(family.slice(0, family.indexOf("-")));
  describe(family, () => {
    test("is a remote provider of the registry", () => expect(provider?.kind).toBe("remote"));
    if (provider?.kind === "remote") for (const name of cases) describeCase(provider, join(family, name));
  });
}

function describeCase(provider: RemoteProvider, path: string): void {
  const folder = join(fixtures, path);
  const read = (file: string) =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8") : undefined;
  const given: Case = JSON.parse(read("case.json")!);
  const wanted: Expected & CompletionBody = JSON.parse(read("expected.json") ?? "{}");
  const upstreamRequest = read("upstream-request.json");
  const json = read("upstream.json");
  const sse = read("upstream.sse");
  const title = `${path}: ${given.description}`;
  const call = callOf(given, provider);

  test(`${title} (has a public source)`, () => expect(given.source).toMatch(/^https:\/\//));
  test(`${title} (request)`, () => {
    if (given.refused !== undefined) {
      expectRefusal(() => provider.encode(call), given.refused);
      return;
    }
    const sent = provider.encode(call);
    if (upstreamRequest !== undefined) expect(JSON.parse(textOfBody(sent.body))).toEqual(JSON.parse(upstreamRequest));
    if (given.url !== undefined) expect(sent.url).toBe(call.account.baseUrl + given.url);
    for (const [header, value] of Object.entries(given.headers ?? {})) {
      expect([header, sent.headers[header] ?? null]).toEqual([header, value]);
    }
  });
  if (json !== undefined) {
    test(`${title} (answer)`, () => {
      const decode = () => provider.decode(JSON.parse(json), json, call);
      if (wanted.fault !== undefined) {
        expectFault(decode, { payload: json, ...wanted.fault });
        return;
      }
      const { upstreamResponseId, ...body } = wanted;
      expect(plain(decode())).toEqual(body);
      if (upstreamResponseId !== undefined) {
        expect(provider.upstreamResponseId?.(JSON.parse(json))).toBe(upstreamResponseId);
      }
    });
  }
  if (sse !== undefined) {
    for (const [way, pieces] of waysToCut(sse)) {
      test(`${title} (stream, ${way})`, () => expectStream(provider, call, pieces, wanted));
    }
    test(`${title} (stream, as clients see it)`, () => {
      if (wanted.fault === undefined) expectLegalStream(provider, call, given, encoder.encode(sse));
    });
  }
}

function foldersIn(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

function callOf(given: Case, provider: RemoteProvider): AnsweredCall {
  const family = provider.name;
  const { model: _, ...request } = checkChatRequest(
    JSON.parse(JSON.stringify({ ...given.request, model: `${family}/${given.model}` })),
  );
  const account: Account = {
    name: family,
    baseUrl: provider.baseUrl || "https://upstream.test",
    apiKey: "test-key",
    headers: {},
    models: [],
    options: {},
    modelRules: [],
    ...given.account,
  };
  return {
    model: given.model,
    request: { model: `${family}/${given.model}`, ...request } as ChatRequest,
    extras: given.extras ?? {},
    account,
    media: new Map(Object.entries(given.media ?? {})),
    answerId: "chatcmpl-1",
  };
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

type Decoded = { bodies: ChunkBody[]; upstreamResponseId: string | undefined };

/** Feeds a decoder as the relay does. */
function decodeStream(provider: RemoteProvider, call: AnsweredCall, pieces: readonly Uint8Array[]): Decoded {
  const parser = new SseParser();
  const decoder = provider.streamDecoder(call);
  const bodies: ChunkBody[] = [];
  for (const piece of [...pieces, undefined]) {
    for (const event of piece === undefined ? parser.end() : parser.push(piece)) {
      bodies.push(...decoder.push(event));
      if (decoder.finished) break;
    }
    if (decoder.finished) break;
  }
  bodies.push(...decoder.end());
  return { bodies, upstreamResponseId: decoder.upstreamResponseId };
}

function expectStream(provider: RemoteProvider, call: AnsweredCall, pieces: Uint8Array[], wanted: Expected): void {
  if (wanted.fault !== undefined) {
    expectFault(() => decodeStream(provider, call, pieces), wanted.fault);
    return;
  }
  const { bodies, upstreamResponseId } = decodeStream(provider, call, pieces);
  if (wanted.chunks !== undefined) expect(plain(bodies)).toEqual(wanted.chunks);
  expect(plain(folded(bodies))).toEqual(wanted.folded!);
  if (wanted.upstreamResponseId !== undefined) expect(upstreamResponseId).toBe(wanted.upstreamResponseId);
}

function folded(bodies: readonly ChunkBody[]): CompletionBody {
  const fold = new StreamFold();
  fold.push(bodies);
  return fold.result();
}

/** What strict client libraries insist on, in the chunks as they are sent. */
function expectLegalStream(provider: RemoteProvider, call: AnsweredCall, given: Case, bytes: Uint8Array): void {
  const envelope = { id: "id", created: 1, model: call.request.model };
  const request: ChatRequest = { ...call.request, stream_options: { include_usage: true } };
  const shaping = shapingFor(request, envelope, provider.wantsThoughts(call));
  const shaper = new StreamShaper({
    ...shaping,
    thinkingRequested: given.thinkingRequested ?? shaping.thinkingRequested,
  });
  const { bodies } = decodeStream(provider, call, [bytes]);
  const texts = [...shaper.push(bodies), ...shaper.end()];
  expect(shaper.complete).toBe(true);
  expect(texts).not.toContain(doneData);
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

function expectFault(decode: () => unknown, wanted: Fault): void {
  const fault = thrownBy(decode);
  if (wanted.invalid === true) {
    expect(fault).toBeInstanceOf(InvalidAnswer);
    return;
  }
  if (!(fault instanceof UpstreamFault)) throw fault;
  expect(fault.status).toBe(wanted.status!);
  if (wanted.payload !== undefined) expect(fault.payload).toBe(wanted.payload);
}

function expectRefusal(encode: () => unknown, wanted: { status: number; param: string }): void {
  const refusal = thrownBy(encode);
  if (!(refusal instanceof ApiError)) throw refusal;
  expect({ status: refusal.status, param: refusal.param }).toEqual(wanted);
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
