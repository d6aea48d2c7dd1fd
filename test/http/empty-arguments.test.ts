/** Calls without arguments in the spellings that models and clients have for them: `{}` in every format, and what can't be read stays. */
import { describe, expect, test } from "bun:test";
import { familyNames, models, Stage } from "../clients/stage.ts";
import { formatNames, pathOf } from "../helpers/client-formats.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

let answer: () => Response;
const { troupe } = await served(
  () => answer(),
  (url) => ({ providers: { groq: { baseUrl: url } } }),
);
const stage = untilEnd(await Stage.start());

const head = { id: "c", created: 1, model: "m" };
const call = (written: unknown) => ({
  index: 0,
  id: "call_1",
  type: "function",
  function: { name: "f", arguments: written },
});

function whole(written: unknown): Response {
  const message = { role: "assistant", content: null, tool_calls: [call(written)] };
  return jsonResponse({ ...head, choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
}

/** @param isApart the name comes before the arguments */
function streamed(written: unknown, isApart: boolean): Response {
  const first = isApart ? call("") : call(written);
  const rest = isApart ? [{ tool_calls: [{ index: 0, function: { arguments: written } }] }] : [];
  const deltas = [{ tool_calls: [first] }, ...rest].map((delta) => ({ index: 0, delta, finish_reason: null }));
  const choices = [...deltas, { index: 0, delta: {}, finish_reason: "tool_calls" }];
  return sseResponse([
    ...choices.map((choice) => `data: ${JSON.stringify({ ...head, choices: [choice] })}\n\n`),
    "data: [DONE]\n\n",
  ]);
}

const user = { role: "user", content: "hi" };
const bodies = {
  chat: { messages: [user] },
  responses: { input: "hi", store: false },
  messages: { messages: [user], max_tokens: 9 },
  "generate-content": { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};
/** How each format says that there are none. */
const said = { chat: '"arguments":"{}"', responses: '"arguments":"{}"', messages: '"input":{}' };

describe.each([["null"], ["[]"], [" null\n"], ["[ ]"], [""], [null], [[]]])("%j", (written) => {
  test.each(formatNames)("of an upstream of chat completions, asked by %s", async (format) => {
    const path = pathOf("gateway", format, "groq/m");
    answer = () => whole(written);
    const got = await (await troupe.post(path, { ...bodies[format], model: "groq/m" })).text();
    expect(got).toContain(format === "generate-content" ? '"functionCall":{' : said[format]);
    expect(got).not.toMatch(/null\W*"\}|_raw|\[ ?\]"/);
    for (const isApart of [true, false]) {
      answer = () => streamed(written, isApart);
      const isGemini = format === "generate-content";
      const live = isGemini ? path.replace(":generateContent", ":streamGenerateContent?alt=sse") : path;
      const body = { ...bodies[format], ...(!isGemini && { stream: true, model: "groq/m" }) };
      const text = await (await troupe.post(live, body)).text();
      const pieces = [...text.matchAll(/"(?:arguments|partial_json|delta)":"((?:[^"\\]|\\.)*)"/g)].map(
        ([, one]) => one,
      );
      if (!isGemini) expect(pieces.filter((piece) => piece !== "")).toContain("{}");
      expect(text).not.toMatch(/"(?:null|\[ ?\])"|null\\n"|_raw/);
    }
  });

  test.each(familyNames)("sent back to %s", async (family) => {
    if (typeof written !== "string") return;
    const { index: _, ...made } = call(written);
    const messages = [
      user,
      { role: "assistant", content: null, tool_calls: [made] },
      { role: "tool", tool_call_id: "call_1", content: "ok" },
    ];
    const response = await stage.troupe.post("/gateway/v1/chat/completions", { model: models[family], messages });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    const sent = stage.last.text;
    expect(sent).toMatch(/"(?:arguments":"\{\}"|input":\{\}|args":\{\}|functionCall":\{"name":"f"\})/);
  });
});

test("what can't be read stays as it was", async () => {
  answer = () => whole('{"a":');
  const got = await (await troupe.post("/gateway/v1/chat/completions", { messages: [user], model: "groq/m" })).text();
  expect(got).toContain(String.raw`"arguments":"{\"a\":"`);
});
