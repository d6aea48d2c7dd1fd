/**
 * What upstreams really send, and what a careful reader takes from it, through the gateway: by the official client and by
 * plain HTTP. The cases are in `fidelity/`, family by family.
 */
import { describe, expect, test } from "bun:test";
import type OpenAI from "openai";
import { APIError } from "openai";
import { providers } from "../../src/providers/registry.ts";
import { dataIn } from "../helpers/chat-stream.ts";
import { some } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import { anthropic } from "./fidelity/anthropic.ts";
import { accents, common } from "./fidelity/chat.ts";
import { google } from "./fidelity/google.ts";
import { type Case, chunksOf, empty, readChunks, readPlain } from "./fidelity/reading.ts";
import { responses } from "./fidelity/responses.ts";

const speaksChat = providers.flatMap((one) => (one.kind === "remote" && one.format === "chat" ? one.name : []));
/** All that answer in a way of their own, and some of those that differ by their names alone. */
const someChat = [
  ...speaksChat.filter((name) => accents[name] !== undefined),
  ...some(
    speaksChat.filter((name) => accents[name] === undefined),
    6,
  ),
];
const thinks = { use_responses_api: true };

/** Family, the model that is asked, what each request says besides, and the cases. */
const families: readonly (readonly [string, string, object, readonly Case[]])[] = [
  ["anthropic", "claude-sonnet-4-5", {}, anthropic],
  ["google", "gemini-2.5-flash", {}, google],
  ["openai", "gpt-5.4", thinks, responses],
  ["xai", "grok-4.3", thinks, responses],
  // What is common to all of one decoder is tried with another third of it for each.
  ...someChat.map((name, at) => [name, "some-model", {}, [...some(common, 3, at), ...(accents[name] ?? [])]] as const),
];

let next: () => Response;

const upstream = untilEnd(new UpstreamServer(() => next()));
const named = families.map(([name]) => [name, { baseUrl: upstream.url }]);
const troupe = untilEnd(await Troupe.start({ providers: Object.fromEntries(named) }));

function answerOf({ status = 200, json, sse }: Case): Response {
  const type = sse === undefined ? "application/json" : "text/event-stream";
  const body = sse ?? (typeof json === "string" ? json : JSON.stringify(json));
  return new Response(body, { status, headers: { "content-type": type } });
}

describe.each(
  families.map(([name, model, more, cases]) => [`${name} ${JSON.stringify(more)}`, name, model, more, cases] as const),
)("%s", (_, name, usualModel, more, cases) => {
  test.each(cases.map((one) => [one.name, one] as const))("%s", async (_name, one) => {
    next = () => answerOf(one);
    const body = {
      model: `${name}/${one.model ?? usualModel}`,
      messages: [{ role: "user" as const, content: "Hi" }],
      ...more,
      ...one.ask,
    };
    const { want } = one;
    if ("error" in want) return expectError(body, want, one);
    if ("breaks" in want) return expectBreak(body, want.breaks, want.text ?? "");
    const wanted = { ...empty, ...want };
    const streamed = { ...body, stream: true as const, stream_options: { include_usage: true } };
    const raw = await troupe.post("/gateway/v1/chat/completions", streamed);
    expect([raw.status, raw.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
    expect(readChunks(chunksOf(await raw.text()))).toEqual(wanted);
    const client = troupe.client("gateway");
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of await client.chat.completions.create(streamed)) chunks.push(chunk);
    expect(readChunks(chunks)).toEqual(wanted);
    // Upstreams are asked for the form that the caller wants, but whichever comes is read.
    const plain = await client.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsNonStreaming);
    expect(readPlain(plain)).toEqual(wanted);
  });
});

async function expectError(body: object, want: { error: number; body?: string }, one: Case): Promise<void> {
  const forms = one.sse === undefined || one.status !== undefined ? [true, false] : [true];
  for (const stream of forms) {
    const response = await troupe.post("/gateway/v1/chat/completions", { ...body, stream });
    expect(response.status).toBe(want.error);
    const text = await response.text();
    if (want.body !== undefined) expect(text).toBe(want.body);
    else expect(typeof JSON.parse(text)).toBe("object");
  }
  const asking = troupe.client("gateway").chat.completions.create({ ...body, stream: true } as never);
  const error = await Promise.resolve(asking).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(APIError);
  expect(error.status).toBe(want.error);
}

/** The text so far goes out, then an error object and `[DONE]`; the official client throws. */
async function expectBreak(body: object, words: string, before: string): Promise<void> {
  const response = await troupe.post("/gateway/v1/chat/completions", { ...body, stream: true });
  const data = dataIn(await response.text());
  expect([response.status, data.pop()]).toEqual([200, "[DONE]"]);
  const chunks = data.map((one) => JSON.parse(one));
  const last = chunks.pop();
  expect(chunks.pop()).toEqual(last);
  expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe(before);
  expect(Object.keys(last)).toEqual(["error", "id", "object", "created", "model"]);
  expect(last.error.message).toContain(words);
  expect(last.id).toBe(chunks[0].id);
  const stream = await troupe.client("gateway").chat.completions.create({ ...body, stream: true } as never);
  const reading = (async () => {
    for await (const _ of stream as unknown as AsyncIterable<unknown>);
  })();
  expect(await reading.catch((thrown) => thrown)).toBeInstanceOf(APIError);
}
