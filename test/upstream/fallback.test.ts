import { describe, expect, test } from "bun:test";
import { classifyFailure, type FailureClass } from "../../src/upstream/failures.ts";

const error = (status: number, body: unknown) => ({
  kind: "whole" as const,
  provider: "p",
  format: "chat",
  status,
  headers: {},
  body: new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body)),
});
const input = (code: "context_length_exceeded" | "content_filter" | "invalid_value"): FailureClass => ({
  kind: "input",
  code,
});

describe("blame", () => {
  test.each<[number, unknown, FailureClass]>([
    [
      400,
      { error: { code: "context_length_exceeded", message: "This model's maximum context length is 128000 tokens" } },
      input("context_length_exceeded"),
    ],
    [
      400,
      {
        type: "error",
        error: { type: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum" },
      },
      input("context_length_exceeded"),
    ],
    [
      400,
      {
        error: {
          code: 400,
          message: "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        },
      },
      input("context_length_exceeded"),
    ],
    [413, "", input("context_length_exceeded")],
    [
      400,
      { error: { code: "content_filter", message: "filtered due to the content management policy" } },
      input("content_filter"),
    ],
    [403, { error: "Content violates usage guidelines. Failed check: SAFETY_CHECK" }, input("content_filter")],
    [422, { detail: [{ msg: "bad" }] }, input("invalid_value")],
    [
      400,
      { error: { code: 400, status: "INVALID_ARGUMENT", message: "API key not valid. Please pass a valid API key." } },
      { kind: "configuration" },
    ],
    [400, { code: "x", error: "Incorrect API key provided: xa***" }, { kind: "configuration" }],
    [401, {}, { kind: "configuration" }],
    [402, {}, { kind: "configuration" }],
    [403, {}, { kind: "configuration" }],
    [404, {}, { kind: "configuration" }],
    [408, {}, { kind: "transient", timedOut: true }],
    [504, {}, { kind: "transient", timedOut: true }],
    [429, {}, { kind: "transient", timedOut: false }],
    [503, {}, { kind: "transient", timedOut: false }],
    [529, {}, { kind: "transient", timedOut: false }],
    [500, { error: { type: "exceed_context_size_error" } }, input("context_length_exceeded")],
    [
      500,
      { error: { message: "image input is not supported - hint: you may need to provide the mmproj" } },
      input("invalid_value"),
    ],
    [
      400,
      {
        error: {
          message:
            "`inputs` tokens + `max_new_tokens` must be <= 32769. Given: 30 `inputs` tokens and 999999999 `max_new_tokens`",
        },
      },
      input("invalid_value"),
    ],
    ...[
      "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
      "the request exceeds the available context size, try increasing it",
      "Invalid request: Your request exceeded model token limit: 8192",
      "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
      "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
      "Total tokens of image and text exceed max message tokens.",
      "Input length 203743 exceeds the maximum length 202752",
      "Prompt exceeds max length",
      "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 512 `max_new_tokens`",
      "Please reduce the length of the messages or completion.",
      "prompt is too long: 210000 tokens > 200000 maximum",
      "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
      "Input is too long for requested model.",
    ].map((message): [number, unknown, FailureClass] => [
      400,
      { error: { message } },
      input("context_length_exceeded"),
    ]),
  ])("%d %j", (status, body, expected) => expect(classifyFailure(error(status, body))).toEqual(expected));
});
