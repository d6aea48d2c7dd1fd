import { expect, test } from "bun:test";
import fc from "fast-check";
import type { Quirks } from "../../../src/facts/vocabulary/chat.ts";
import { type JsonObject, parseJson } from "../../../src/lib/json/json.ts";
import { anyCompletionOf } from "../../../src/providers/openai-compatible/answer.ts";
import { plainCompletionOf } from "../../../src/providers/openai-compatible/plain-answer.ts";
import { normaliseCompletion } from "../../../src/upstream/stream/normaliser.ts";
import { runs } from "../../helpers/long-form.ts";

const plain = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "Hi", refusal: null, annotations: [] },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage: {
    prompt_tokens: 1,
    completion_tokens: 2,
    total_tokens: 3,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  },
  service_tier: "default",
  system_fingerprint: "fp",
};

const values = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    undefined,
    "",
    "stop",
    "length",
    "tool_calls",
    "error",
    "chat.completion",
    true,
    false,
  ),
  fc.constantFrom<unknown>([], {}, [{}], [1], { a: 1 }, { a: "b" }, { a: null }, -1, -0, 1.5, 1e300, 2 ** 53),
  fc.nat(),
  fc.string(),
);
const names = fc.constantFrom(
  ...[
    "id",
    "object",
    "created",
    "model",
    "choices",
    "usage",
    "metadata",
    "error",
    "x_groq",
    "prompt",
    "detail",
    "toString",
  ],
  ...["index", "message", "finish_reason", "logprobs", "text", "delta", "role", "content", "refusal", "annotations"],
  ...[
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "audio",
    "thinking_blocks",
    "channel",
    "__proto__",
  ],
  ...["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"],
  ...[
    "cached_tokens",
    "reasoning_tokens",
    "prompt_cache_hit_tokens",
    "cost",
    "service_tier",
    "system_fingerprint",
    "1",
  ],
);
/** What is changed: one of the objects within, by its number, and one of its members. */
const changes = fc.array(fc.tuple(fc.nat(5), names, values), { maxLength: 3 });

function changed(by: readonly (readonly [number, string, unknown])[]): JsonObject {
  const body = structuredClone(plain);
  const choice = body.choices[0]!;
  const { prompt_tokens_details, completion_tokens_details } = body.usage;
  const within = [body, choice, choice.message, body.usage, prompt_tokens_details, completion_tokens_details];
  for (const [at, name, value] of by)
    Object.defineProperty(within[at]!, name, { value, enumerable: true, configurable: true, writable: true });
  // As it would arrive.
  return parseJson(JSON.stringify(body)) as JsonObject;
}

const outcome = (read: () => unknown): string => {
  try {
    return JSON.stringify(read()) ?? "";
  } catch (error) {
    return `thrown: ${(error as Error).message}`;
  }
};

test("an answer that is read as a plain one is read as among all others, to the byte", () => {
  let read = 0;
  const quirks = fc.constantFrom<Quirks>({}, {}, {}, { think_tags: true }, { usage_without_reasoning: true });
  fc.assert(
    fc.property(changes, quirks, (by, quirks) => {
      const found = plainCompletionOf(changed(by), quirks);
      if (found === undefined) return;
      read += 1;
      const body = changed(by);
      const any = () => anyCompletionOf(body, JSON.stringify(body), quirks, () => "id");
      expect(outcome(() => found)).toBe(outcome(any));
      const form = { thinkingRequested: true, choices: 1 };
      expect(outcome(() => normaliseCompletion(found, form))).toBe(outcome(() => normaliseCompletion(any(), form)));
    }),
    { numRuns: runs(3_000) },
  );
  expect(read).toBeGreaterThan(runs(500));
});
