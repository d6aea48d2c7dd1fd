import { expect, test } from "bun:test";
import { servedBy } from "../../../src/providers/anthropic/served.ts";

test.each([
  ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929"],
  ["claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929"],
  ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"],
  ["arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-8-v1", "claude-opus-4-8"],
  ["claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"],
  ["claude-opus-4-0", "claude-opus-4-20250514"],
  ["anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929"],
  ["my-deployment", "claude-opus-4-8"],
  ["arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc", "claude-opus-4-8"],
  ["kimi-k3", "claude-opus-4-8"],
  ["claude-opus-4-8", "m"],
  ["claude-opus-4-8", undefined],
  ["claude-opus-4-8", 7],
])("%s that answers as %p is the model that was asked", (asked, answered) => {
  expect(servedBy(asked, answered)).toBeUndefined();
});

test.each([
  ["claude-fable-5", "claude-opus-4-8"],
  ["claude-fable-5", "claude-opus-5"],
  ["claude-sonnet-4-5", "claude-sonnet-4"],
  ["claude-opus-5-5@20261001", "claude-opus-5-20260701"],
])("%s that answers as %s is another one", (asked, answered) => {
  expect(servedBy(asked, answered)).toBe(answered);
});
