import { expect, test } from "bun:test";
import { retryAfterSeconds } from "../../../src/providers/google/retry.ts";

const withDetails = (...details: unknown[]) => ({ error: { code: 429, status: "RESOURCE_EXHAUSTED", details } });
const wait = (retryDelay: unknown) => ({ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay });

test.each<[unknown, number | undefined]>([
  [withDetails(wait("34.4s")), 35],
  [withDetails(wait("34s")), 34],
  [withDetails(wait("0.002s")), 1],
  [withDetails(wait("0s")), 0],
  [[withDetails({ "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [] }, wait("7.000000001s"))], 8],
  [withDetails(wait("-1s")), undefined],
  [withDetails(wait(3)), undefined],
  [withDetails(wait("soon")), undefined],
  [withDetails(null, "x"), undefined],
  [{ error: { details: {} } }, undefined],
  [{ error: "no" }, undefined],
  [[], undefined],
  [null, undefined],
])("%j names %p", (body, seconds) => {
  expect(retryAfterSeconds(JSON.stringify(body))).toBe(seconds);
});

test("what is no JSON names nothing", () => {
  expect(retryAfterSeconds("<html>")).toBeUndefined();
});
