import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { KeyPlace } from "../../../src/providers/provider.ts";
import { providers } from "../../../src/providers/registry.ts";
import { Accounts } from "../../../src/upstream/accounts.ts";
import { Credentials } from "../../../src/upstream/credentials/credentials.ts";

const url = "https://up.test/v1/x";
const unsigned = (headers: Record<string, string> = {}, at = url) => ({ method: "POST", url: at, headers, body: "{}" });
const signed = (credentials: Credentials, request = unsigned(), place?: KeyPlace) => credentials.keyed(request, place);
const remotes = providers.filter((provider) => provider.kind === "remote");

describe("a key is said where its provider reads it", () => {
  test.each([
    ["as a bearer", {}, {}, { authorization: "Bearer k?&" }, url],
    ["in a header of its own", { header: "x-key" }, {}, { "x-key": "k?&" }, url],
    ["in the query", { query: "key" }, {}, {}, `${url}?key=k%3F%26`],
    ["an access token of the operator's", { header: "x-key" }, { bearer: true }, { authorization: "Bearer k?&" }, url],
    ["that in place of the query's", { query: "key" }, { bearer: true }, { authorization: "Bearer k?&" }, url],
    [
      "a token by its form",
      { header: "x-key", tokens: { begin: "k", headers: { "x-t": "1" } } },
      {},
      { authorization: "Bearer k?&", "x-t": "1" },
      url,
    ],
    [
      "a key beside such tokens",
      { header: "x-key", tokens: { begin: "t-", headers: { "x-t": "1" } } },
      {},
      { "x-key": "k?&" },
      url,
    ],
  ])("%s", (_, place, options, headers, at) => {
    const credentials = new Credentials({ apiKey: "k?&", headers: {}, options }, place);
    expect(credentials.keyed(unsigned({ a: "b" }))).toEqual({ ...unsigned({ a: "b", ...headers }), url: at });
  });

  test("where a request names another place, there alone", () => {
    const credentials = new Credentials({ apiKey: "k", headers: { "x-own": "1" }, options: {} }, { header: "x-key" });
    const place = { header: "x-api-key" };
    for (const one of [credentials, credentials.masked()]) {
      const key = one === credentials ? "k" : "***";
      const own = one === credentials ? "1" : "***";
      expect(signed(one, unsigned(), place).headers).toEqual({ "x-api-key": key, "x-own": own });
      expect(signed(one, unsigned(), {}).headers).toEqual({ authorization: `Bearer ${key}`, "x-own": own });
      expect(signed(one).headers).toEqual({ "x-key": key, "x-own": own });
    }
  });

  test("behind what else the query says", () => {
    const credentials = new Credentials({ apiKey: "k", headers: {}, options: {} }, { query: "key" });
    expect(signed(credentials, unsigned({}, `${url}?alt=sse`)).url).toBe(`${url}?alt=sse&key=k`);
  });

  test("nothing is said without one, and what a request itself says never counts before it", () => {
    for (const place of [{}, { header: "x-key" }, { query: "key" }]) {
      expect(new Credentials({ headers: {}, options: {} }, place).keyed(unsigned())).toEqual(unsigned());
    }
    const { headers } = signed(
      new Credentials({ apiKey: "own", headers: {}, options: {} }, {}),
      unsigned({ authorization: "Bearer other" }),
    );
    expect(headers).toEqual({ authorization: "Bearer own" });
  });

  test("the operator's headers go before all, and are added where they are lists", () => {
    const own = { authorization: "Basic z", "anthropic-beta": "b,c", "x-own": "1" };
    const { headers } = signed(
      new Credentials({ apiKey: "k", headers: own, options: {} }, {}),
      unsigned({ "anthropic-beta": "a,b", "x-own": "0" }),
    );
    expect(headers).toEqual({ authorization: "Basic z", "anthropic-beta": "a,b,c", "x-own": "1" });
  });

  test.each(remotes.map(({ name }) => name))("by %s, once", (name) => {
    const config = {
      ...{ name, dialect: name, baseUrl: "https://up.test", apiKey: "secret-1", headers: {}, models: [], options: {} },
      ...{ modelRules: [], timeouts: { connectSeconds: 1, firstByteSeconds: 1, idleSeconds: 1 } },
    };
    const bound = new Accounts([config], providers).find(name)!;
    const { headers } = signed(bound.credentials);
    expect(Object.values(headers).filter((value) => value.includes("secret-1"))).toHaveLength(1);
    // Whoever logs or lists an account does not show it.
    expect(Bun.inspect(bound) + JSON.stringify(bound)).not.toContain("secret-1");
  });
});

test("a key is known by itself", () => {
  const knows = (apiKey: string | undefined, text: string) =>
    new Credentials({ ...(apiKey !== undefined && { apiKey }), headers: {}, options: {} }, {}).isIn(text);
  expect([knows("k1", "Bearer k1"), knows("k1", "k2"), knows("", "x"), knows(undefined, "x")]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("no other file reads a key, but the configuration that it comes from", () => {
  const src = resolve(import.meta.dir, "../../../src");
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
  const reading = files.filter((path) =>
    /\.apiKey\b|\bapiKey[,:}\s]|`Bearer /.test(readFileSync(join(src, path), "utf8")),
  );
  // Commands call this program's own API with a key of it, reports are asked for by an admin key, and a page shows how a client is set up with one.
  const elsewhere = [
    "config/",
    "http/openapi/",
    "cli/",
    "usage/reconcile/",
    "operate/suites/answers.ts",
    "operate/doctor/clients/",
    "account/browser/set-up.ts",
  ];
  const others = reading.filter((path) => !elsewhere.some((folder) => path.startsWith(folder)));
  // An account is bound without it.
  const outside = others.filter((path) => !path.startsWith("upstream/credentials/"));
  expect(outside).toEqual(["upstream/accounts.ts"]);
});
