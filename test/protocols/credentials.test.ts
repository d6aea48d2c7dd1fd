import { expect, test } from "bun:test";
import { bearerToken } from "../../src/protocols/credentials.ts";

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
