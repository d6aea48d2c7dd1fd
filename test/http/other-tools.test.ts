/** Calls of tools that are no functions, by models that speak chat completions, in the formats of other clients. */
import { expect, test } from "bun:test";
import { SseParser } from "../../src/lib/streams/sse.ts";
import { chunk, completionOf, endingOf } from "../helpers/chat-upstream.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

let answer: () => Response;

const { troupe } = await served(
  () => answer(),
  (url) => ({ providers: { groq: { baseUrl: url } } }),
);

/** An item, a block or a part of an answer. */
type Item = {
  readonly type?: string;
  readonly id: string;
  readonly call_id?: string;
  readonly name: string;
  readonly input?: unknown;
  readonly arguments: string;
  readonly functionCall?: { readonly id: string; readonly name: string; readonly args: unknown };
};
/** Where the formats' answers have theirs. */
type Body = {
  readonly content?: readonly Item[];
  readonly output?: readonly Item[];
  readonly candidates?: readonly { readonly content?: { readonly parts: readonly Item[] } }[];
};
type Event = Body & {
  readonly type?: string;
  readonly index: number;
  readonly response?: Body;
  readonly content_block?: Item;
  readonly delta?: { readonly type?: string; readonly partial_json: string };
};
type Called = readonly (readonly [id: string, name: string, input: unknown])[];

/** How each format asks, and what calls are in its answers. */
const formats: Record<string, { ask(stream: boolean): [path: string, body: object]; calls(answer: Body): Called }> = {
  messages: {
    ask: (stream) => [
      "/gateway/v1/messages",
      { model: "groq/x", max_tokens: 9, stream, messages: [{ role: "user", content: "hi" }] },
    ],
    calls: ({ content = [] }) =>
      content.filter(({ type }) => type === "tool_use").map(({ id, name, input }) => [id, name, input]),
  },
  responses: {
    ask: (stream) => ["/gateway/v1/responses", { model: "groq/x", stream, store: false, input: "hi" }],
    calls: ({ output = [] }) =>
      output
        .filter(({ call_id }) => call_id !== undefined)
        .map((item) => [item.call_id!, item.name, item.input ?? JSON.parse(item.arguments)]),
  },
  gemini: {
    ask: (stream) => [
      `/gateway/v1beta/models/groq/x:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
      { contents: [{ parts: [{ text: "hi" }] }] },
    ],
    calls: ({ candidates = [] }) =>
      candidates[0]!.content!.parts.flatMap(({ functionCall }) =>
        functionCall === undefined ? [] : [[functionCall.id, functionCall.name, functionCall.args] as const],
      ),
  },
};

const text = 'say "hi"\n\u{1f600}{}';
const custom = { id: "call_0", type: "custom", custom: { name: "patch", input: text } };
const plain = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };
const unknown = { id: "call_2", type: "browser", browser: { url: "https://a.example" } };

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const whole = (...tool_calls: object[]) =>
  jsonResponse(completionOf({ content: null, tool_calls }, "tool_calls", usage));
const fragment = (index: number, call: object) => chunk({ tool_calls: [{ index, ...call }] });
const end = endingOf("tool_calls");

async function post(format: string, stream: boolean, key = troupe.key): Promise<Response> {
  const [path, body] = formats[format]!.ask(stream);
  return await troupe.post(path, body, { key });
}

const eventsIn = async (response: Response): Promise<Event[]> =>
  new SseParser().push(await response.bytes()).map(({ data }) => JSON.parse(data) as Event);

/** The answer that a stream's events tell. */
function foldOf(events: readonly Event[]): Body {
  const { response, candidates } = events.at(-1)!;
  if (response !== undefined) return response;
  if (candidates !== undefined) {
    const parts = events.flatMap((event) => event.candidates?.[0]?.content?.parts ?? []);
    return { candidates: [{ content: { parts } }] };
  }
  const content: Item[] = [];
  const written: string[] = [];
  for (const { index, content_block, delta } of events) {
    if (content_block !== undefined) content[index] = content_block;
    if (delta?.type === "input_json_delta") written[index] = (written[index] ?? "") + delta.partial_json;
  }
  return { content: content.map((block, at) => ({ ...block, input: JSON.parse(written[at] || "{}") })) };
}

const expected = (format: string): Called => [
  ["call_0", "patch", format === "responses" ? text : { input: text }],
  ["call_1", "weather", { city: "Oslo" }],
];

test.each(Object.keys(formats))("%s: a custom tool's call holds its text, plain and streamed", async (format) => {
  const { calls } = formats[format]!;
  answer = () => whole(custom, plain);
  expect(calls((await (await post(format, false)).json()) as Body)).toEqual(expected(format));
  const [begun, ...pieces] = ["", ...text];
  const { name, arguments: args } = plain.function;
  answer = () =>
    sseResponse([
      fragment(0, { ...custom, custom: { name: "patch", input: begun } }),
      fragment(0, { custom: { input: pieces[0] } }),
      // Parallel calls come in turns.
      fragment(1, { ...plain, function: { name, arguments: args.slice(0, 3) } }),
      ...pieces.slice(1).map((input) => fragment(0, { custom: { input } })),
      fragment(1, { function: { arguments: args.slice(3) } }),
      ...end,
    ]);
  expect(calls(foldOf(await eventsIn(await post(format, true))))).toEqual(expected(format));
});

const refusal = "groq sent a call of a tool of type 'browser', which has no place in this format.";

/** What a key that is asked with once has used. */
const used = async (key: string): Promise<unknown> => {
  const { data } = (await (await troupe.fetch("/gateway/v1/usage", { key })).json()) as { data: unknown[] };
  return data[0];
};

test.each(Object.keys(formats))(
  "%s: a call of a kind that has no place is told, and what was counted counts",
  async (format) => {
    const key = await troupe.createKey({ name: format, tier: "pro" });
    answer = () => whole(plain, unknown);
    const refused = await post(format, false, key);
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining(refusal)]);
    expect(await used(key)).toMatchObject({ ended: { broken: 1 }, tokens: { input: 3, output: 2 } });
    answer = () => sseResponse([chunk({ content: "Let me see." }), fragment(0, unknown), ...end]);
    const streamed = await post(format, true);
    expect([streamed.status, await streamed.text()]).toEqual([200, expect.stringContaining(refusal)]);
  },
);
