/**
 * What an upstream says beside its counts: a chunk without choices is the one with the counts, asked for and last, as the plainest loops
 * read `chunk.choices[0]`. Events as llama.cpp's own server sends them (`timings`), recorded.
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { formats, readers } from "../helpers/answers-by-sdk.ts";
import { dataIn } from "../helpers/chat-stream.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;
const model = "llamacpp/chain";
const folder = untilEnd(new TempFolder());

const timings = { cache_n: 3, prompt_n: 1, predicted_n: 5 };
const frame = { created: 1795894706, id: "chatcmpl-F3", model: "chain.gguf", system_fingerprint: "b0-unknown" };
const usage = { completion_tokens: 5, prompt_tokens: 4, total_tokens: 9, prompt_tokens_details: { cached_tokens: 3 } };

/** The words of the server's model: A, B, C, D, one after another. A whole answer has the prefill before them, a stream has not. */
function answer({ messages, stream, stream_options }: Json): Response {
  const last = (messages as Json[]).at(-1)!;
  const said = last["role"] === "assistant" ? String(last["content"]) : "";
  const words = [..."ABCD"].slice(said.length);
  const whole = { ...frame, object: "chat.completion" };
  if (stream !== true) {
    const message = { role: "assistant", content: `${said}${words.join("")}` };
    return jsonResponse({ choices: [{ finish_reason: "stop", index: 0, message }], ...whole, usage, timings });
  }
  const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
    choices: [{ finish_reason, index: 0, delta }],
    ...frame,
    object: "chat.completion.chunk",
    ...more,
  });
  const counted = (stream_options as Json | undefined)?.["include_usage"] === true;
  const events: object[] = [
    chunk({ role: "assistant", content: null }),
    ...words.map((content) => chunk({ content })),
    chunk({}, "stop"),
    { ...chunk({}), choices: [], ...(counted && { usage }), timings },
  ];
  return sseResponse([...events.map((event) => `data: ${JSON.stringify(event)}\n\n`), "data: [DONE]\n\n"]);
}

mkdirSync(folder.file("made"));
const persona = `description: Helps.\nmodel: ${model}\nsystem: Be brief.\n`;
writeFileSync(folder.file("made/open.yaml"), persona);
writeFileSync(folder.file("made/hidden.yaml"), `${persona}hide_upstream: true\n`);
const { troupe } = await served(
  ({ json }) => answer(json as Json),
  (url) => ({
    providers: { llamacpp: { baseUrl: url } },
    personas: folder.path,
    nativeEndpoints: true,
  }),
);

const hi = [{ role: "user", content: "hi" }];
const streamed = async (path: string, body: Json) => {
  const text = await (await troupe.post(path, { messages: hi, stream: true, ...body } as never)).text();
  return dataIn(text)
    .slice(0, -1)
    .map((data) => JSON.parse(data) as { choices: Json[]; usage?: unknown; timings?: unknown });
};

test.each([true, false])(
  "no chunk is without a choice but that of the counts, the last (asked for: %p)",
  async (asked) => {
    const more = asked ? { stream_options: { include_usage: true } } : {};
    const chunks = await streamed("/gateway/v1/chat/completions", { model, ...more });
    expect(chunks.map(({ choices }) => choices.length)).toEqual(asked ? [1, 1, 1, 1, 1, 0] : [1, 1, 1, 1, 1]);
    expect(chunks.filter((chunk) => "timings" in chunk)).toEqual([chunks[4]!]);
    expect(chunks[4]).toMatchObject({
      choices: [{ finish_reason: "stop" }],
      timings,
      system_fingerprint: "b0-unknown",
    });
    if (asked) expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 9 } });
    if (asked) expect(chunks.at(-1)).not.toHaveProperty("timings");
  },
);

// Messages pass untranslated there.
test.each(formats.filter((format) => format !== "messages"))("the plainest loop of %s reads it", async (format) => {
  expect((await readers[format](troupe, model, true)).text).toBe("ABCD");
});

test.each([true, false])(
  "a persona that hides its upstream tells nothing of it beside the answer (streamed: %p)",
  async (stream) => {
    const asked = { stream_options: { include_usage: true } };
    const told = async (name: string) =>
      JSON.stringify(
        stream
          ? await streamed("/v1/chat/completions", { model: name, ...asked })
          : await (await troupe.post("/v1/chat/completions", { model: name, messages: hi })).json(),
      );
    const [open, hidden] = [await told("made/open"), await told("made/hidden")];
    // A fingerprint that nobody gives is null in whole answers.
    for (const mark of ["timings", '"system_fingerprint":"', "b0-unknown"]) {
      expect(open).toContain(mark);
      expect(hidden).not.toContain(mark);
    }
    expect(hidden).toContain('"total_tokens":9');
  },
);

describe.each([true, false])("a prefill comes back once (streamed: %p)", (stream) => {
  test("chat", async () => {
    const messages = [...hi, { role: "assistant", content: "AB" }];
    if (stream) {
      const chunks = await streamed("/gateway/v1/chat/completions", { model, messages });
      expect(chunks.map(({ choices }) => (choices[0]!["delta"] as Json)["content"] ?? "").join("")).toBe("CD");
    } else {
      const made = await troupe.post("/gateway/v1/chat/completions", { model, messages } as never);
      expect(await made.json()).toMatchObject({ choices: [{ message: { content: "CD" } }] });
    }
  });

  test("Messages and Gemini", async () => {
    const turns = [...hi, { role: "assistant", content: "AB" }];
    const contents = [
      { role: "user", parts: [{ text: "hi" }] },
      { role: "model", parts: [{ text: "AB" }] },
    ];
    const gemini = `/gateway/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`;
    const asked = { model, max_tokens: 9, messages: turns, stream };
    // Natively a stream passes as it comes, which has it once.
    const made = stream ? [] : [await troupe.post("/gateway/v1/messages", asked)];
    for (const response of [...made, await troupe.post(gemini, { contents } as never)]) {
      const text = await response.text();
      const words = [...text.matchAll(/"text":"([^"]*)"/g)].map(([, word]) => word);
      expect(words.join("")).toBe("CD");
    }
  });
});
