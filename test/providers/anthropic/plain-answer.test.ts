import { expect, test } from "bun:test";
import fc from "fast-check";
import { type JsonObject, parseJson } from "../../../src/lib/json/json.ts";
import { plainCompletionOf } from "../../../src/providers/anthropic/plain-answer.ts";
import { AnthropicStream } from "../../../src/providers/anthropic/stream.ts";
import { normaliseCompletion } from "../../../src/upstream/stream/normaliser.ts";
import { runs } from "../../helpers/long-form.ts";

const plain = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  content: [
    { type: "text", text: "Good " },
    { type: "text", text: "morning", citations: null },
  ],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 5, cache_read_input_tokens: 2, service_tier: "standard" },
};

const values = fc.oneof(
  fc.constantFrom<unknown>(null, undefined, "", "text", "tool_use", "thinking", "refusal", "max_tokens", true),
  fc.constantFrom<unknown>([], {}, [{}], [{ type: "web_search_result_location", url: "u" }], -1, 1.5, 2 ** 53),
  fc.nat(),
  fc.string(),
);
const names = fc.constantFrom(
  ...["type", "text", "citations", "input", "name", "id", "thinking", "signature", "content", "stop_reason", "usage"],
  ...["stop_details", "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"],
  ...["cache_creation", "output_tokens_details", "server_tool_use", "service_tier", "speed", "__proto__"],
);
/** What is changed: one of the objects within, by its number, and one of its members. */
const changes = fc.array(fc.tuple(fc.nat(3), names, values), { maxLength: 3 });

function changed(by: readonly (readonly [number, string, unknown])[]): JsonObject {
  const body = structuredClone(plain);
  const within = [body, ...body.content, body.usage];
  for (const [at, name, value] of by)
    Object.defineProperty(within[at]!, name, { value, enumerable: true, configurable: true, writable: true });
  // As it would arrive.
  return parseJson(JSON.stringify(body)) as JsonObject;
}

const account = { name: "anthropic", baseUrl: "", models: [], options: {}, modelRules: [] };
const request = { model: "m", messages: [] };
const call = { model: "m", request, extras: {}, account, media: new Map(), answerId: "a" };

const written = (read: () => ReturnType<AnthropicStream["whole"]>): string => {
  try {
    return JSON.stringify(normaliseCompletion(read(), { thinkingRequested: true, choices: 1 }));
  } catch (error) {
    return `thrown: ${(error as Error).message}`;
  }
};

test("an answer that is read as a plain one is read as among all others, to the byte", () => {
  let read = 0;
  fc.assert(
    fc.property(changes, (by) => {
      const found = plainCompletionOf(changed(by), call.model);
      if (found === undefined) return;
      read += 1;
      expect(written(() => found)).toBe(written(() => new AnthropicStream(call).whole(changed(by))));
    }),
    { numRuns: runs(3_000) },
  );
  expect(read).toBeGreaterThan(runs(500));
});
