/** One path, one answer: what a proxy in front keeps closed can't be had by another spelling. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import type { Host } from "../../src/call/context.ts";
import { buildApp } from "../../src/http/app.ts";
import { runs } from "../helpers/long-form.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const troupe = untilEnd(await Troupe.start());

const send = (target: string, method = "GET") => {
  const head = `${method} ${target} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${troupe.key}`;
  return sendRaw(troupe.url, `${head}\r\nconnection: close\r\n\r\n`);
};
/** Whether anything stands at that address, the platform's bare 400 counting as nothing. */
const leadsSomewhere = async (target: string, method = "GET") => {
  const { status, body } = await send(target, method);
  const isRefusedQuery = body.includes('"There is no parameter');
  return (status !== 400 || isRefusedQuery) && !body.includes('"There is nothing at');
};

const { app } = buildApp({ surfaces: ["orchestrator", "gateway"] as const } as unknown as Host, () => undefined);
/** Each with what stands before the first part that a caller chooses; but those that may be anybody's path. */
const routes = app.routes
  .filter(({ path }) => path !== "/*" && !path.includes("/:namespace/"))
  .map(({ path }) => ({ path: path.replace(/:\w+|\*/g, "x"), fixed: path.split(/\/[:*]/)[0]! }));
const paths = new Set(routes.map(({ path }) => path));

/** Whether that is another route's path, whose last part a caller chooses: `responses/x` beside `responses/input_tokens`. */
function isParameter(respelt: string, path: string): boolean {
  const [parent, beside] = [respelt, path].map((one) => one.slice(0, one.lastIndexOf("/") + 1));
  return parent === beside && paths.has(`${parent}x`);
}

/** Ways to write a path that some programs take for the path itself. */
const spellings: Record<string, (path: string, at: number) => string> = {
  "a slash more": (path, at) => `${path.slice(0, at)}/${path.slice(at)}`,
  "a backslash more": (path, at) => `${path.slice(0, at)}\\${path.slice(at)}`,
  "a backslash for a slash": (path, at) => `${path.slice(0, at)}${path.slice(at).replace("/", "\\")}`,
  "a dot segment": (path, at) => path.slice(0, at) + path.slice(at).replace("/", "/./"),
  "an encoded dot segment": (path, at) => path.slice(0, at) + path.slice(at).replace("/", "/%2E/"),
  "a detour": (path, at) => path.slice(0, at) + path.slice(at).replace("/", "/x/../"),
  "an encoded detour": (path, at) => path.slice(0, at) + path.slice(at).replace("/", "/x/.%2e/"),
  "a detour by backslashes": (path, at) => path.slice(0, at) + path.slice(at).replace("/", "/x\\..\\"),
  "an encoded character": (path, at) =>
    `${path.slice(0, at)}%${path.charCodeAt(at).toString(16).padStart(2, "0")}${path.slice(at + 1)}`,
  "another case": (path, at) => path.slice(0, at) + path.slice(at).replace(/[a-z]/, (letter) => letter.toUpperCase()),
  "a parameter": (path, at) => `${path.slice(0, at)};a=b${path.slice(at)}`,
  "a null": (path, at) => `${path.slice(0, at)}%00${path.slice(at)}`,
};

test("no route answers to another spelling of its path", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...routes),
      fc.constantFrom(...Object.keys(spellings)),
      fc.nat(),
      fc.constantFrom("GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"),
      async ({ path, fixed }, spelling, place, method) => {
        fc.pre(fixed.length > 1);
        const respelt = spellings[spelling]!(fixed, place % fixed.length) + path.slice(fixed.length);
        fc.pre(respelt !== path && !isParameter(respelt, path));
        expect([method, respelt, await leadsSomewhere(respelt, method)]).toEqual([method, respelt, false]);
      },
    ),
    { numRuns: runs(1500) },
  );
});

test("every route answers to its own", async () => {
  for (const { path } of routes) {
    for (const target of [path, `${path}?a=b`, `http://127.0.0.1${path}`]) {
      expect([target, await leadsSomewhere(target)]).toEqual([target, true]);
    }
  }
});

test("a slash behind the documentation's address leads there, below a proxy's prefix too", async () => {
  const { status, headers } = await send("/docs/");
  expect([status, headers.get("location")]).toEqual([308, "../docs"]);
  expect(headers.get("x-ratelimit-limit")).not.toBeNull();
});

test("a model's id is all that follows, slashes and encoded ones included", async () => {
  const found = async (id: string) => (await troupe.fetch(`/v1/models/${id}`)).status;
  expect(await found("troupe/guide")).toBe(200);
  expect(await found("troupe%2Fguide")).toBe(200);
  for (const id of ["troupe/guide/", "troupe//guide", "v1/models/troupe/guide", ""]) expect(await found(id)).toBe(404);
});
