import { expect, test } from "bun:test";
import { contentLength } from "../../src/call/read/request-body.ts";

test.each([
  ["0", 0],
  ["12", 12],
  [" 7 ", 7],
  ["5, 5", undefined],
  ["5, 6", undefined],
  ["5.5", undefined],
  ["1e400", undefined],
  ["-5", undefined],
])("a length of %p is %p", (said, length) => {
  expect(contentLength(new Headers({ "content-length": said }))).toBe(length);
});

test("none that is said is none that is known", () => {
  expect(contentLength(new Headers())).toBeUndefined();
});
