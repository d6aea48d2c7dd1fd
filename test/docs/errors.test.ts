import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { ApiError } from "../../src/protocols/errors.ts";

/** Every error that code can make, by calling each static in each of its forms. */
const made: ApiError[] = [
  ApiError.invalidJson("x"),
  ApiError.invalidValue("a", "x"),
  ApiError.missingField("a"),
  ApiError.unsupported("a", "x"),
  ApiError.unknownProvider("x", "m"),
  ApiError.refusedInput("context_length_exceeded", "x"),
  ApiError.refusedInput("content_filter", "x"),
  ApiError.unauthorized(),
  ApiError.refusedSignIn(),
  ApiError.sessionEnded(),
  ApiError.foreignPage(),
  ApiError.modelNotAllowed("m"),
  ApiError.surfaceNotAllowed("gateway"),
  ApiError.websocketsUnsupported(400),
  ApiError.websocketsUnsupported(426),
  ApiError.backgroundFull(1),
  ApiError.hostNotAllowed("x"),
  ApiError.originNotAllowed("x"),
  ApiError.modelNotFound("m"),
  ApiError.notFound("x"),
  ApiError.methodNotAllowed("PUT", ["GET"]),
  ApiError.requestTimeout(120),
  ApiError.requestTooLarge(1),
  ApiError.unsupportedMediaType("text/plain"),
  ApiError.idempotencyKeyReused(),
  ApiError.toolsCalled(),
  ApiError.personaNotWritable("x"),
  ApiError.personaChanged("x"),
  ApiError.personaInvalid("x"),
  ApiError.onlyForPreviews(),
  ApiError.notPreviewed("m"),
  ApiError.previewNotAllowed("x", "label"),
  ApiError.labelInUse("x"),
  ApiError.previewTooLarge(2, 1),
  ApiError.tooManyPreviews(1),
  ApiError.rateLimited(10, 3),
  ApiError.tokensExceeded({ limit: 10, used: 8, asked: 4, waitMs: 1500 }),
  ApiError.insufficientQuota("x", 3),
  ApiError.budgetHeld("x", 3),
  ApiError.modelWithoutPrice("the day's budget of all calls"),
  ApiError.internal(),
  ApiError.upstreamUnreachable("x"),
  ApiError.unavailable("upstream_invalid_response", "x"),
  ApiError.unavailable("upstream_unavailable", "x"),
  ApiError.unavailable("draining", "x"),
  ApiError.unavailable("storage_unavailable", "x"),
  ApiError.unavailable("overloaded", "x"),
  ApiError.upstreamTimeout("x"),
];

const documented = readFileSync("docs/errors.md", "utf8")
  .split("\n")
  .map((line) => /^\| (\d{3}) \| (\w+) \| `(\w+)` \|/.exec(line))
  .filter((row) => row !== null)
  .map(([, status, type, code]) => `${status} ${type} ${code}`);

test("docs/errors.md lists every error, with its status and type", () => {
  expect(documented.toSorted()).toEqual(made.map(({ status, type, code }) => `${status} ${type} ${code}`).toSorted());
});

test("no static is missing from this list", () => {
  const statics = Object.getOwnPropertyNames(ApiError).filter(
    (name) => typeof (ApiError as unknown as Record<string, unknown>)[name] === "function",
  );
  const source = readFileSync(import.meta.path, "utf8");
  expect(statics.filter((name) => !source.includes(`ApiError.${name}(`))).toEqual([]);
});

test("told by another process it is the same error", () => {
  for (const error of made) {
    expect(ApiError.fromRecord(JSON.parse(JSON.stringify(error.record())) as ReturnType<ApiError["record"]>)).toEqual(
      error,
    );
  }
});

test("every body has the four fields, all strings", () => {
  for (const error of made) {
    const body = error.fields();
    // As another node tells it.
    expect(ApiError.fromRecord(error.record()).record()).toEqual(error.record());
    expect(Object.keys(body)).toEqual(["message", "type", "param", "code"]);
    for (const value of Object.values(body)) expect(value).toBeString();
  }
});

test("what may be retried says when", () => {
  for (const error of made)
    if (error.status === 503 || error.status === 429) expect(error.headers["retry-after"]).toMatch(/^\d+$/);
});
