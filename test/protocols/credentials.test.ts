import { expect, test } from "bun:test";
import { bearerToken, callerKey } from "../../src/protocols/credentials.ts";

const tokenIn = (authorization?: string) =>
  bearerToken(new Headers(authorization === undefined ? {} : { authorization }));

test("a bearer token is read in any spelling of its scheme", () => {
  for (const given of ["Bearer trp_x", "bearer trp_x", "BEARER   trp_x "]) expect(tokenIn(given)).toBe("trp_x");
});

test("what is no bearer token is none", () => {
  for (const given of [undefined, "", "trp_x", "Basic trp_x", "Bearer", "Bearer ", "Bearer trp_x x", "Bearertrp_x"]) {
    expect(tokenIn(given)).toBeUndefined();
  }
});

test.each(["x-api-key", "X-Goog-Api-Key", "api-key"])("a key in %s counts where there is no bearer token", (name) => {
  expect(callerKey(new Headers({ [name]: "trp_x" }))).toBe("trp_x");
  expect(callerKey(new Headers({ [name]: "trp_x", authorization: "Basic abc" }))).toBe("trp_x");
  expect(callerKey(new Headers({ [name]: "trp_x", authorization: "Bearer trp_y" }))).toBe("trp_y");
});

test("an empty header is passed over", () => {
  expect(callerKey(new Headers({ "x-api-key": "", "api-key": "trp_x" }))).toBe("trp_x");
  expect(callerKey(new Headers({ "x-api-key": "" }))).toBeUndefined();
});
