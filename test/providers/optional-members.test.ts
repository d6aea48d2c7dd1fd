/**
 * What is optional in an upstream's answer never costs the answer: whatever JSON stands in such a member of any family's examples,
 * and in members that the examples lack, a client of any format gets the same text and the same calls, plain and streamed, in the
 * form that its format promises.
 */
import { describe, expect, test } from "bun:test";
import { SseParser } from "../../src/lib/streams/sse.ts";
import { chat } from "../../src/protocols/chat/chat.ts";
import { completions } from "../../src/protocols/completions/completions.ts";
import { InvalidAnswer, UpstreamFault } from "../../src/protocols/errors.ts";
import { generateContent } from "../../src/protocols/generate-content/generate-content.ts";
import { messages } from "../../src/protocols/messages/messages.ts";
import type { Protocol } from "../../src/protocols/protocol.ts";
import { responses } from "../../src/protocols/responses/responses.ts";
import type { AnsweredCall, RemoteProvider } from "../../src/providers/provider.ts";
import { type NormalForm, Normaliser, normaliseCompletion } from "../../src/upstream/stream/normaliser.ts";
import { faultsOf } from "../helpers/answer-schemas.ts";
import { decodeStream } from "../helpers/decode-stream.ts";
import { type AnsweredCase, answeredCases, callOf, fixtureFamilies } from "../helpers/fixtures.ts";
import { runs } from "../helpers/long-form.ts";
import { faultsOfEvents, faultsOfResponse } from "../helpers/open-responses.ts";
import { Random } from "../helpers/random.ts";

// biome-ignore lint/suspicious/noExplicitAny: any JSON
type Json = Record<string, any>;
type Family = "chat" | "messages" | "generate-content" | "responses" | "converse";

/** Values of kinds that nobody expects, and some that begin as expected. */
const strange: readonly unknown[] = [
  ...[null, 0, -1, 1.5, 1e308, true, false, "", "x", [], {}, [null], [[]], [{}], { a: 1 }, ["x", 1], { type: "text" }],
  ...[{ toString: 1, valueOf: 2 }, { __proto__: null, length: -1 }, [{ type: "url_citation" }], { content: "x" }],
  ...[[{ type: "url_citation", url: "u" }], [{ type: "url_citation", url_citation: { url: "u", start_index: null } }]],
  ...[[{ type: "url_citation", url_citation: 1 }], [{ type: "file", file: { name: "a.pdf" } }], [{ token: "a" }]],
  ...[{ content: [{ token: "a", logprob: -1 }] }, { content: [{ token: 1 }], refusal: [{ token: "b", logprob: "x" }] }],
  ...[{ tokens: ["a", 1], token_logprobs: "x" }, { chosenCandidates: [{}], topCandidates: 1 }, { prompt_tokens: "1" }],
  ...[{ groundingSupports: [{ segment: { endIndex: -3.5 }, groundingChunkIndices: [0] }], groundingChunks: [{}] }],
  ...[[{ type: "thinking", thinking: 1 }], [{ type: "thinking", thinking: "t", signature: 1 }], { google: 1 }],
];

/** Members that carry words and calls, or tell their order and their end: these are not optional. */
const carrying: Readonly<Record<Family, ReadonlySet<string>>> = {
  chat: new Set([
    ...[
      "choices",
      "message",
      "delta",
      "content",
      "text",
      "type",
      "tool_calls",
      "function",
      "custom",
      "name",
      "arguments",
    ],
    ...["input", "index", "error", "id", "object", "function_call"],
  ]),
  messages: new Set([
    ...["type", "content", "content_block", "delta", "index", "text", "partial_json", "name", "input", "message"],
    ...["stop_reason", "error", "id"],
  ]),
  // Claude's answers on the same platform are those of Messages.
  converse: new Set([
    ...["output", "message", "content", "text", "toolUse", "toolUseId", "name", "input", "type", "stopReason"],
    ...["reasoningContent", "citationsContent", "stop_reason", "error", "id", "__type"],
  ]),
  "generate-content": new Set([
    ...["candidates", "content", "parts", "text", "functionCall", "inlineData", "thought", "index"],
    ...["error", "promptFeedback", "blockReason", "blockReasonMessage"],
  ]),
  responses: new Set([
    ...[
      "output",
      "response",
      "item",
      "part",
      "content",
      "type",
      "text",
      "delta",
      "refusal",
      "name",
      "arguments",
      "input",
    ],
    ...["call_id", "id", "item_id", "output_index", "content_index", "summary_index", "sequence_number", "status"],
    ...["error", "result", "summary"],
  ]),
};

/** Optional members that any object of an answer gets, whether the format has them there or not. */
const optional: Readonly<Record<Family, readonly string[]>> = {
  chat: [
    ...[
      "annotations",
      "logprobs",
      "refusal",
      "audio",
      "reasoning_details",
      "thinking_blocks",
      "extra_content",
      "images",
    ],
    ...["reasoning_content", "reasoning", "metadata", "usage", "service_tier", "system_fingerprint", "ended_thought"],
    ...["stop_reason", "citations", "obfuscation", "prompt_filter_results", "x_groq", "role"],
  ],
  messages: [
    ...["citations", "citation", "usage", "signature", "container", "context_management", "stop_sequence"],
    ...["stop_details", "service_tier", "cache_creation", "thinking", "data", "caller"],
  ],
  converse: [
    ...["citations", "usage", "metrics", "trace", "performanceConfig", "serviceTier", "additionalModelResponseFields"],
    ...["cacheDetails", "guardContent", "role"],
  ],
  "generate-content": [
    ...[
      "groundingMetadata",
      "citationMetadata",
      "logprobsResult",
      "promptFeedback",
      "usageMetadata",
      "thoughtSignature",
    ],
    ...["finishMessage", "tokenCount", "safetyRatings", "continuationToken", "avgLogprobs", "modelVersion", "role"],
  ],
  responses: [
    ...["annotations", "logprobs", "phase", "service_tier", "metadata", "usage", "incomplete_details", "summary"],
    ...["encrypted_content", "obfuscation", "annotation", "role", "output_format", "action"],
  ],
};

/** What stands in a call's input is the caller's. */
const opaque = new Set(["input", "args", "arguments", "functionCall", "inlineData", "error"]);

/** They tell that a stream came to its end; a whole answer that says something needs none. */
const endings: ReadonlySet<string> = new Set(["finish_reason", "finishReason"]);

const none: ReadonlySet<string> = new Set();

/** Where a refusal's words stand, these are the answer. */
const refusals = new Set(["refusal", "stop_details", "explanation"]);

/** The value with some of its optional members changed, removed and added. */
function altered(value: unknown, family: Family, random: Random, percent: number, without = endings): unknown {
  if (Array.isArray(value)) return value.map((one) => altered(one, family, random, percent, without));
  if (typeof value !== "object" || value === null) return value;
  const members: Json = {};
  for (const [name, inner] of Object.entries(value)) {
    if (carrying[family].has(name) || without.has(name) || (refusals.has(name) && inner !== null)) {
      members[name] = opaque.has(name) ? inner : altered(inner, family, random, percent, without);
    } else if (!random.chance(percent)) members[name] = altered(inner, family, random, percent, without);
    else if (!random.chance(20)) members[name] = random.pick(strange);
  }
  for (const name of optional[family]) {
    if (!Object.hasOwn(value, name) && random.chance(percent / 5)) members[name] = random.pick(strange);
  }
  // Words of their own, where they are texts.
  for (const name of ["refusal", "reasoning", "reasoning_content"]) {
    if (typeof members[name] === "string") members[name] = (value as Json)[name] ?? null;
  }
  return members;
}

/** What a client makes of an answer. */
type Told = { text: string; calls: { name: string; written: string }[] };
type Read = { readonly told: Told; readonly faults: string[] };
type Format = {
  readonly protocol: Protocol;
  readonly path: string;
  readonly body: Json;
  readonly whole: (body: Json) => Read;
  readonly stream: (events: readonly Json[]) => Read;
};

const turns = [{ role: "user", content: "Hi" }];
const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
const join = (texts: readonly unknown[]) => texts.filter((text) => typeof text === "string").join("");

const byChat = (choice: Json, name: "message" | "delta"): Told => ({
  text: choice[name].content ?? "",
  calls: (choice[name].tool_calls ?? []).map((call: Json) => {
    const said = call["function"] ?? call["custom"] ?? {};
    return { name: said.name ?? "", written: said.arguments ?? said.input ?? "" };
  }),
});
function joinChat(pieces: readonly Json[]): Told {
  const calls: Told["calls"] = [];
  for (const { delta } of pieces) {
    const said = byChat({ delta }, "delta").calls;
    for (const [at, call] of said.entries()) {
      const index = delta.tool_calls[at].index;
      const known = calls[index] ?? { name: "", written: "" };
      calls[index] = { name: known.name + call.name, written: known.written + call.written };
    }
  }
  return { text: join(pieces.map(({ delta }) => delta.content)), calls };
}
const byResponse = ({ output }: Json): Told => ({
  text: join(output.flatMap(({ content }: Json) => (content ?? []).map(({ text }: Json) => text))),
  calls: output
    .filter(({ type }: Json) => String(type).endsWith("_call") && type !== "image_generation_call")
    .map((item: Json) => ({ name: item["name"], written: item["arguments"] ?? item["input"] })),
});
/** A refusal and its response are cut short both, or neither is. */
function faultsOfStatus({ status, output }: Json): string[] {
  const last = output.at(-1)?.content?.at(-1)?.type === "refusal" ? output.at(-1).status : status;
  return last === status ? [] : [`${status}, and its refusal ${last}`];
}
const byMessage = ({ content }: Json): Told => ({
  text: join(content.map(({ text }: Json) => text)),
  calls: content
    .filter(({ type }: Json) => type === "tool_use")
    .map(({ name, input }: Json) => ({ name, written: typeof input === "string" ? input : JSON.stringify(input) })),
});
function joinBlocks(events: readonly Json[]): Told {
  const blocks: Json[] = [];
  for (const { type, index, content_block, delta } of events) {
    if (type === "content_block_start") blocks[index] = { ...content_block, input: "" };
    else if (type === "content_block_delta" && delta.text !== undefined) blocks[index]!["text"] += delta.text;
    else if (type === "content_block_delta" && delta.partial_json !== undefined)
      blocks[index]!["input"] += delta.partial_json;
  }
  return byMessage({ content: blocks });
}
function byCandidates(answers: readonly Json[]): Told {
  const parts: Json[] = answers.flatMap(({ candidates }) =>
    (candidates ?? [])
      .filter(({ index = 0 }: Json) => index === 0)
      .flatMap(({ content }: Json) => content?.parts ?? []),
  );
  return {
    text: join(parts.filter(({ thought }) => thought !== true).map(({ text }) => text)),
    calls: parts
      .filter(({ functionCall }) => functionCall !== undefined)
      .map(({ functionCall: { name, args } }) => ({ name, written: JSON.stringify(args) })),
  };
}

const formats: Readonly<Record<string, Format>> = {
  chat: {
    protocol: chat,
    path: "/v1/chat/completions",
    body: { messages: turns },
    whole: (body) => ({ told: byChat(body["choices"][0], "message"), faults: faultsOf("completion", body) }),
    stream: (events) => ({
      told: joinChat(events.flatMap(({ choices }) => choices.filter(({ index }: Json) => index === 0))),
      faults: events.flatMap((event) => faultsOf("chunk", event)),
    }),
  },
  responses: {
    protocol: responses,
    path: "/v1/responses",
    body: { input: "Hi" },
    whole: (body) => ({ told: byResponse(body), faults: [...faultsOfResponse(body), ...faultsOfStatus(body)] }),
    stream: (events) => ({
      told: byResponse(events.at(-1)!["response"]),
      faults: [
        ...faultsOfEvents(events as { type: string; sequence_number: number }[]),
        ...faultsOfStatus(events.at(-1)!["response"]),
      ],
    }),
  },
  messages: {
    protocol: messages,
    path: "/v1/messages",
    body: { messages: turns, max_tokens: 9 },
    whole: (body) => ({ told: byMessage(body), faults: faultsOf("message", body) }),
    stream: (events) => ({
      told: joinBlocks(events),
      faults: events.flatMap((event) => faultsOf("messageEvent", event)),
    }),
  },
  "generate-content": {
    protocol: generateContent,
    path: "/v1beta/models/m:generateContent",
    body: { contents, generationConfig: { thinkingConfig: { includeThoughts: true } } },
    whole: (body) => ({ told: byCandidates([body]), faults: faultsOf("generated", body) }),
    stream: (events) => ({
      told: byCandidates(events),
      faults: events.flatMap((event) => faultsOf("generated", event)),
    }),
  },
  completions: {
    protocol: completions,
    path: "/v1/completions",
    body: { prompt: "Hi" },
    whole: (body) => ({ told: { text: body["choices"][0].text, calls: [] }, faults: faultsOf("textCompletion", body) }),
    stream: (events) => ({
      told: { text: join(events.map(({ choices }) => choices[0]?.text)), calls: [] },
      faults: events.flatMap((event) => faultsOf("textCompletion", event)),
    }),
  },
};

const envelope = { id: "answer-1", created: 1, model: "m", completed: () => 2 };
const form: NormalForm = { thinkingRequested: true, choices: 1 };

function optionsOf({ protocol, path, body }: Format, stream: boolean): unknown {
  const counts = stream && (path.endsWith("/completions") ? { stream_options: { include_usage: true } } : {});
  const parsed = { model: "m", ...body, ...(path.includes("v1beta") ? {} : { stream, ...counts }) };
  const given = stream ? path.replace(":generate", ":streamGenerate") : path;
  const query = new URLSearchParams(stream ? { alt: "sse" } : {});
  const source = { text: JSON.stringify(parsed), parsed };
  return protocol.parse(source as never, { request: { headers: new Headers() }, path: given, query }).options;
}
const options = new Map(
  Object.entries(formats).map(([name, format]) => [name, [optionsOf(format, false), optionsOf(format, true)] as const]),
);

const dataIn = (text: string): Json[] => {
  const parser = new SseParser();
  const events = [...parser.push(Buffer.from(text)), ...parser.end()];
  return events.filter(({ data }) => data !== "[DONE]").map(({ data }) => JSON.parse(data));
};

type Example = {
  readonly one: AnsweredCase;
  readonly family: Family;
  readonly provider: RemoteProvider;
  readonly call: AnsweredCall;
  readonly events: readonly { readonly name: string; readonly data: string }[] | undefined;
};

/** The answers of an example in every format; undefined where a format has no place for what was answered. */
function readAll({ provider, call, events }: Example, answer: unknown): Record<string, Read | undefined> {
  const reads: Record<string, Read | undefined> = {};
  if (events === undefined) {
    const body = provider.decode(answer, "the text", call);
    for (const [name, { protocol, whole }] of Object.entries(formats)) {
      reads[name] = inPlace(() =>
        whole(
          JSON.parse(
            JSON.stringify(protocol.completion(normaliseCompletion(body, form), envelope, options.get(name)![0])),
          ),
        ),
      );
    }
    return reads;
  }
  const bodies = [...decodeStream(provider.streamDecoder(call), [Buffer.from(answer as string)])].flat();
  for (const [name, { protocol, stream }] of Object.entries(formats)) {
    reads[name] = inPlace(() => {
      const written: string[] = [];
      const normaliser = new Normaliser(form);
      const encoder = protocol.encoder(envelope, options.get(name)![1]);
      for (const body of structuredClone(bodies))
        for (const chunk of normaliser.push(body)) encoder.push(chunk, written);
      if (!normaliser.complete) throw new InvalidAnswer("no end");
      encoder.push(normaliser.end(), written);
      encoder.end(written);
      return stream(dataIn(written.join("")));
    });
  }
  return reads;
}

function inPlace(read: () => Read): Read | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidAnswer) return undefined;
    throw error;
  }
}

/** @returns undefined for one that is an error */
function baseline(example: Example, answer: unknown): Record<string, Read | undefined> | undefined {
  try {
    const reads = readAll(example, answer);
    return Object.values(reads).some((read) => read !== undefined) ? reads : undefined;
  } catch (error) {
    if (error instanceof InvalidAnswer || error instanceof UpstreamFault) return undefined;
    throw error;
  }
}

const written = (events: NonNullable<Example["events"]>) =>
  events.map(({ name, data }) => `${name === "" ? "" : `event: ${name}\n`}data: ${data}\n\n`).join("");

function eventsIn(text: string): NonNullable<Example["events"]> {
  const parser = new SseParser();
  return [...parser.push(Buffer.from(text)), ...parser.end()].map(({ event, data }) => ({ name: event, data }));
}

const changed = (data: string, family: Family, random: Random, percent: number) =>
  data.trimStart().startsWith("{") ? JSON.stringify(altered(JSON.parse(data), family, random, percent)) : data;

const families = fixtureFamilies();
const variants = runs(8);

describe.each(families.map((family) => [family.folder, family] as const))("%s", (folder, family) => {
  const inner = ("use_responses_api" in family.extras ? "responses" : family.provider.format) as Family;

  test.each(["json", "sse"] as const)("%s: the text and the calls come through, in every format", (kind) => {
    const random = Random.fromEnvironment("TROUPE_TEST_SEED_OPTIONAL");
    for (const one of answeredCases(folder, kind)) {
      const events = kind === "sse" ? eventsIn(one.upstream) : undefined;
      const example: Example = { one, family: inner, provider: family.provider, call: callOf(one, family), events };
      const isBroken =
        events?.some(({ data }) => data.trimStart().startsWith("{") && !isJson(data)) ?? !isJson(one.upstream);
      if (isBroken) continue;
      const known = baseline(example, events === undefined ? JSON.parse(one.upstream) : one.upstream);
      if (known === undefined) continue;
      for (const [format, read] of Object.entries(known))
        expect([one.path, format, ...(read?.faults ?? [])]).toEqual([one.path, format]);
      // A list is a stream.
      const isWhole = events === undefined && !one.upstream.trimStart().startsWith("[");
      const saysAll = isWhole && Object.values(known).every((read) => read === undefined || read.told.text !== "");
      for (let variant = 0; variant < variants; variant += 1) {
        const percent = variant === 0 ? 100 : variant % 2 === 0 ? 40 : 8;
        const answer =
          events === undefined
            ? altered(JSON.parse(one.upstream), inner, random, percent, saysAll ? none : endings)
            : written(events.map(({ name, data }) => ({ name, data: changed(data, inner, random, percent) })));
        const text = events === undefined ? JSON.stringify(answer) : (answer as string);
        let reads: Record<string, Read | undefined> | undefined;
        try {
          reads = readAll(example, events === undefined ? JSON.parse(text) : text);
        } catch (error) {
          throw new Error(`${one.path}: ${(error as Error).message} ${text}`, { cause: error });
        }
        for (const [format, before] of Object.entries(known)) {
          if (before === undefined) continue;
          const { told, faults } = reads[format] ?? { told: "none", faults: [] };
          if (Bun.deepEquals(told, before.told) && faults.length === 0) continue;
          const wrong = { told, instead: before.told, faults };
          throw new Error(`${one.path}, ${format}: ${JSON.stringify(wrong)}\n${text}`);
        }
      }
    }
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
