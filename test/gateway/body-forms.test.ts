/** Answers whose body is not what their content type says, and streams where a plain answer was asked for. */
import { describe, expect, test } from "bun:test";
import { served } from "../helpers/served.ts";

const fragment = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "u", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const sse = `${fragment({ role: "assistant", content: "Hel" })}${fragment({ content: "lo" })}${fragment({}, "stop")}data: [DONE]\n\n`;
const json = JSON.stringify({
  id: "u",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
});
const error = '{\n  "error": {"message": "Slow down", "code": 429}\n}\n';

let body: string | readonly string[];
let type: string | undefined;

const { troupe } = await served(
  () => {
    const pieces = typeof body === "string" ? [body] : body;
    const encoder = new TextEncoder();
    let next = 0;
    const stream = new ReadableStream({
      pull: (controller) =>
        next < pieces.length ? controller.enqueue(encoder.encode(pieces[next++])) : controller.close(),
    });
    return new Response(stream, { headers: type === undefined ? {} : { "content-type": type } });
  },
  (url) => ({ providers: { openai: { baseUrl: url } } }),
);

const ask = (stream: boolean) =>
  troupe.post("/gateway/v1/chat/completions", {
    model: "openai/gpt-4.1",
    messages: [{ role: "user", content: "Hi" }],
    stream,
  });

async function textOf(response: Response): Promise<string> {
  const text = await response.text();
  if (!text.startsWith("data: ")) return JSON.parse(text).choices[0].message.content;
  expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  const chunks = text.split("\n\n").slice(0, -2);
  return chunks.map((chunk) => JSON.parse(chunk.slice("data: ".length)).choices[0].delta.content ?? "").join("");
}

const forms: readonly [string, string | readonly string[], string | undefined][] = [
  ["events", sse, "text/event-stream"],
  ["events, byte by byte, after a byte-order mark and blank lines", [..."\uFEFF\n\n", ...sse], "text/event-stream"],
  ["events after a comment", [": hello", "\n\n", sse], "text/event-stream; charset=utf-8"],
  ["JSON that calls itself events", ["\n ", json.slice(0, 9), json.slice(9)], "text/event-stream"],
  ["JSON", ["\n\n", json], "application/json"],
  ["JSON without a type", json, undefined],
];

describe("an answer is read by its form", () => {
  test.each(forms)("%s", async (_, sent, named) => {
    [body, type] = [sent, named];
    for (const stream of [true, false]) expect(await textOf(await ask(stream))).toBe("Hello");
  });

  test.each(["text/plain", "application/octet-stream", "application/json", undefined])(
    "events that call themselves %p, where a stream was asked for",
    async (named) => {
      [body, type] = [[..."\r\n", ...sse], named];
      expect(await textOf(await ask(true))).toBe("Hello");
    },
  );
});

test("an error that calls itself events is an error, byte for byte", async () => {
  [body, type] = [["\n", error], "text/event-stream"];
  for (const stream of [true, false]) {
    const response = await ask(stream);
    expect([response.status, await response.text()]).toEqual([429, `\n${error}`]);
    expect(response.headers.get("content-type")).toBe("application/json");
  }
});

test("an error event that is no JSON is told as the text it is", async () => {
  [body, type] = ["event: error\ndata: out of memory\n\n", "text/event-stream"];
  const response = await ask(true);
  expect([response.status, await response.text()]).toEqual([503, "out of memory"]);
  expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
});

test("what is neither is told as broken, as is a body without anything", async () => {
  for (const sent of ["<html>oops</html>", "", "\n\n"]) {
    for (const named of ["text/event-stream", "text/html", "application/json"]) {
      for (const stream of [true, false]) {
        [body, type] = [sent, named];
        const response = await ask(stream);
        expect(response.status).toBe(503);
        expect(((await response.json()) as { error: object }).error).toMatchObject({
          type: "server_error",
          code: "upstream_invalid_response",
        });
      }
    }
  }
});

test("a stream that breaks off is no plain answer", async () => {
  [body, type] = [sse.slice(0, sse.indexOf("lo") + 20), "text/event-stream"];
  const response = await ask(false);
  expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([
    503,
    "upstream_invalid_response",
  ]);
});
