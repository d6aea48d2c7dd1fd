/** An answer's choices are numbered from 0, whatever numbers the upstream gives them: no client format loses the text. */
import { describe, expect, test } from "bun:test";
import { dataIn } from "../helpers/chat-stream.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

type Choice = readonly [index: number, text: string];

let answered: readonly Choice[];
const { troupe } = await served(
  ({ json }) => ((json as { stream?: boolean }).stream === true ? streamed(answered) : whole(answered)),
  (url) => ({ providers: { groq: { baseUrl: url } } }),
);

function whole(choices: readonly Choice[]): Response {
  const said = choices.map(([index, content]) => ({
    ...{ index, message: { role: "assistant", content }, finish_reason: "stop" },
  }));
  return jsonResponse({ id: "1", object: "chat.completion", created: 1, model: "x", choices: said });
}

/** One choice behind the other, word by word. */
function streamed(choices: readonly Choice[]): Response {
  const chunks = choices.flatMap(([index, text]) => [
    ...["", ...text.split(/(?<= )/)].map((content) => ({ index, delta: { content }, finish_reason: null })),
    { index, delta: {}, finish_reason: "stop" },
  ]);
  const events = chunks.map((choice) =>
    JSON.stringify({ id: "1", object: "chat.completion.chunk", choices: [choice] }),
  );
  return sseResponse([...events, "[DONE]"].map((data) => `data: ${data}\n\n`));
}

// biome-ignore lint/suspicious/noExplicitAny: the official shape of each format is another
type Json = any;
type Format = {
  readonly path: (stream: boolean) => string;
  readonly body: object;
  readonly whole: (body: Json) => unknown;
  /** The text of one event, where it has some. */
  readonly event: (event: Json) => string | undefined;
};
const user = { role: "user", content: "Hi" };
const textOf = (candidate: Json) => candidate?.content?.parts?.[0]?.text;
const formats: Record<string, Format> = {
  chat: {
    path: () => "/v1/chat/completions",
    body: { messages: [user] },
    whole: ({ choices }) => choices.find(({ index }: Json) => index === 0).message.content,
    event: ({ choices }) => choices.find(({ index }: Json) => index === 0)?.delta.content,
  },
  responses: {
    path: () => "/v1/responses",
    body: { input: "Hi", store: false },
    whole: ({ output }) => output[0].content[0].text,
    event: ({ type, delta }) => (type === "response.output_text.delta" ? delta : undefined),
  },
  messages: {
    path: () => "/v1/messages",
    body: { messages: [user], max_tokens: 100 },
    whole: ({ content }) => content[0].text,
    event: ({ delta }) => delta?.text,
  },
  "generate-content": {
    path: (stream) => `/v1beta/models/groq/x:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ parts: [{ text: "Hi" }] }] },
    whole: ({ candidates }) => textOf(candidates.find(({ index = 0 }: Json) => index === 0)),
    event: ({ candidates }) => textOf(candidates?.find(({ index = 0 }: Json) => index === 0)),
  },
};

async function ask({ path, body }: Format, stream: boolean, more: object = {}): Promise<string> {
  const isNamed = !path(stream).includes("groq/x");
  const named = isNamed ? { model: "groq/x", ...(stream && { stream }), ...more } : {};
  const response = await troupe.post(`/gateway${path(stream)}`, { ...body, ...named });
  expect(response.status).toBe(200);
  return await response.text();
}

const eventsOf = (text: string): Json[] =>
  dataIn(text)
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data));

describe.each(Object.entries(formats))("%s", (_, format) => {
  test.each<[string, readonly Choice[], string]>([
    ["the only choice has number 1", [[1, "two words more"]], "two words more"],
    ["the only choice has number 7", [[7, "two words more"]], "two words more"],
    [
      "the choice with number 0 comes first",
      [
        [0, "the first one"],
        [1, "not asked for"],
      ],
      "the first one",
    ],
    [
      "no choice has number 0",
      [
        [1, "the first one"],
        [2, "not asked for"],
      ],
      "the first one",
    ],
    [
      "the choice with number 0 comes last",
      [
        [3, "the first one"],
        [0, "not asked for"],
      ],
      "the first one",
    ],
  ])("%s: the text is there, whole and streamed", async (_, choices, text) => {
    answered = choices;
    expect(format.whole(JSON.parse(await ask(format, false)))).toBe(text);
    const events = eventsOf(await ask(format, true));
    expect(events.map((event) => format.event(event) ?? "").join("")).toBe(text);
  });
});

/** The texts of all choices by number. */
function textsIn(choices: readonly Json[]): Record<number, string> {
  const texts: Record<number, string> = {};
  for (const { index, message, delta } of choices)
    texts[index] = (texts[index] ?? "") + ((message ?? delta).content ?? "");
  return texts;
}

test.each<[string, readonly Choice[], Record<number, string>]>([
  [
    "numbers that were asked for stay, in whatever order they come",
    [
      [1, "b"],
      [0, "a"],
    ],
    { 0: "a", 1: "b" },
  ],
  [
    "numbers from 1 fill up what is free",
    [
      [1, "a"],
      [2, "b"],
    ],
    { 0: "b", 1: "a" },
  ],
])("of two choices, %s", async (_, choices, texts) => {
  answered = choices;
  const { chat } = formats;
  expect(textsIn(JSON.parse(await ask(chat!, false, { n: 2 })).choices)).toEqual(texts);
  expect(textsIn(eventsOf(await ask(chat!, true, { n: 2 })).flatMap((event) => event.choices))).toEqual(texts);
});
