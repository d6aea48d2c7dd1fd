/** An upstream of the Responses format that cancels its answer, or fails without a word: clients are told in words, never by an event's JSON. */
import { describe, expect, test } from "bun:test";
import { formatNames, pathOf } from "../helpers/client-formats.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

let answer: () => Response;
const { troupe } = await served(
  () => answer(),
  (url) => ({
    providers: { openai: { baseUrl: url, modelRules: [{ match: "*", responses_only: true }] } },
  }),
);

const user = { role: "user", content: "hi" };
const bodies = {
  chat: { messages: [user] },
  responses: { input: "hi", store: false },
  messages: { messages: [user], max_tokens: 9 },
  "generate-content": { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};

const response = (status: string, error: unknown) => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "gpt-5.9",
  status,
  error,
  output: [],
});
const event = (type: string, number: number, members: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...members })}\n\n`;

function streamed(status: string, error: unknown, text: string): Response {
  const item = { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] };
  const said = [
    event("response.output_item.added", 1, { output_index: 0, item }),
    event("response.output_text.delta", 2, { item_id: "msg_1", output_index: 0, content_index: 0, delta: text }),
  ];
  return sseResponse([
    event("response.created", 0, { response: response("in_progress", null) }),
    ...(text === "" ? [] : said),
    event(`response.${status}`, 3, { response: response(status, error) }),
  ]);
}

describe.each([
  ["cancelled", null, "The provider cancelled its answer."],
  ["cancelled", {}, "The provider cancelled its answer."],
  ["failed", null, "The model failed to answer."],
  ["failed", { code: "server_error", message: "" }, "The model failed to answer."],
  ["failed", { code: "server_error", message: "Out of cheese." }, "Out of cheese."],
])("%s with %j", (status, error, words) => {
  describe.each(formatNames)("asked by %s", (format) => {
    const path = pathOf("gateway", format, "openai/gpt-5.9");
    const body = { ...bodies[format], model: "openai/gpt-5.9" };

    test("whole", async () => {
      answer = () => jsonResponse(response(status, error));
      const got = await troupe.post(path, body);
      const text = await got.text();
      expect([got.status, text]).toEqual([500, expect.stringContaining(words)]);
      expect(text).not.toMatch(/response\.|\\"/);
    });

    test.each([[""], ["Hel"]])("streamed behind '%s'", async (said) => {
      answer = () => streamed(status, error, said);
      const isGemini = format === "generate-content";
      const live = isGemini ? path.replace(":generateContent", ":streamGenerateContent?alt=sse") : path;
      const got = await troupe.post(live, isGemini ? body : { ...body, stream: true });
      const text = await got.text();
      expect(text).toContain(words);
      expect(text).not.toContain('\\"');
    });
  });
});
