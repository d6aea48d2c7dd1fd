/** Several keys and endpoints: of the file and of the environment. */
import { describe, expect, test } from "bun:test";
import { printConfig } from "../../src/config/print.ts";
import { configOf, errorsOf, loaded } from "./loading.ts";

const poolOf = (given: Parameters<typeof configOf>[0]) => configOf(given).providers[0]!;
const address = "https://api.openai.com/v1";

describe("numbered variables", () => {
  test.each<[Record<string, string>, string[]]>([
    [{ OPENAI_API_KEY: "a", OPENAI_API_KEY_1: "b", OPENAI_API_KEY_2: "c" }, ["a", "b", "c"]],
    [{ OPENAI_API_KEY: "a", OPENAI_API_KEY_2: "c", OPENAI_API_KEY_4: "e" }, ["a", "c"]],
    [{ OPENAI_API_KEY_1: "b", OPENAI_API_KEY_2: "c" }, ["b", "c"]],
    [{ OPENAI_API_KEY: "a", OPENAI_API_KEY_1: "a", OPENAI_API_KEY_2: "b" }, ["a", "b"]],
    [{ GEMINI_API_KEY: "a", GOOGLE_API_KEY: "z", GEMINI_API_KEY_1: "b" }, ["a", "b"]],
  ])("%j", (env, keys) => {
    const { apiKey, baseUrl, pool } = poolOf({ env });
    expect(apiKey).toBe(keys[0]!);
    expect(pool).toEqual({ strategy: "sticky", members: keys.map((key) => ({ apiKey: key, baseUrl, weight: 1 })) });
  });

  test("one of them alone is a key like any other", () => {
    expect(poolOf({ env: { OPENAI_API_KEY_1: "b" } })).toMatchObject({ apiKey: "b" });
    expect(poolOf({ env: { OPENAI_API_KEY_1: "b" } }).pool).toBeUndefined();
  });

  test("come from files too", () => {
    const env = { OPENAI_API_KEY: "a", OPENAI_API_KEY_1_FILE: "/run/secrets/b" };
    expect(poolOf({ env, files: { "/run/secrets/b": "b\n" } }).pool?.members.map(({ apiKey }) => apiKey)).toEqual([
      "a",
      "b",
    ]);
  });

  test("do not count where the file has keys", () => {
    const env = { OPENAI_API_KEY: "a", OPENAI_API_KEY_1: "b" };
    expect(poolOf({ yaml: "providers: { openai: { api_key: c } }", env }).pool).toBeUndefined();
  });
});

describe("the file", () => {
  test("has keys with names and weights", () => {
    const yaml = "providers: { openai: { api_keys: [a, { key: b, name: team, weight: 2 }], strategy: least_busy } }";
    expect(poolOf({ yaml }).pool).toEqual({
      strategy: "least_busy",
      members: [
        { apiKey: "a", baseUrl: address, weight: 1 },
        { apiKey: "b", keyName: "team", baseUrl: address, weight: 2 },
      ],
    });
  });

  test("has endpoints, whose keys divide their weight", () => {
    const yaml = `providers:
  azure:
    api_keys: [a, b]
    endpoints:
      - https://one.example/
      - { base_url: https://two.example, api_keys: ["\${TWO}"], weight: 3, models: [gpt] }
`;
    const { baseUrl, apiKey, pool } = poolOf({ yaml, env: { TWO: "c" } });
    expect([baseUrl, apiKey]).toEqual(["https://one.example", "a"]);
    expect(pool?.members).toEqual([
      { apiKey: "a", baseUrl: "https://one.example", weight: 0.5 },
      { apiKey: "b", baseUrl: "https://one.example", weight: 0.5 },
      { apiKey: "c", baseUrl: "https://two.example", weight: 3, models: ["gpt"] },
    ]);
  });

  test("has endpoints that need no key", () => {
    const yaml = "providers: { ollama: { endpoints: [http://a:1/v1, http://b:1/v1] } }";
    expect(poolOf({ yaml }).pool?.members).toEqual([
      { baseUrl: "http://a:1/v1", weight: 1 },
      { baseUrl: "http://b:1/v1", weight: 1 },
    ]);
  });

  test.each([
    ["{ api_key: a, api_keys: [b] }", "api_key: stands beside api_keys, which holds all keys"],
    ["{ api_keys: [a, a] }", "api_keys[1]: is there twice"],
    ["{ api_keys: [{ key: '' }] }", "api_keys[0].key: is empty"],
    ["{ api_keys: ['two words'] }", "api_keys[0]: holds a space or a character that no key has"],
    [
      "{ api_keys: [a], endpoints: [ftp://x] }",
      "endpoints[0]: must be an http or https URL without user, password, query and fragment",
    ],
    ["{ api_keys: [a], endpoints: [https://x, https://x/] }", "endpoints[1]: is there twice"],
    [
      "{ api_keys: [a], base_url: https://y, endpoints: [https://x] }",
      "base_url: stands beside endpoints, which hold all addresses",
    ],
  ])("%s is refused", (provider, message) => {
    const [first, ...others] = errorsOf({ yaml: `providers: { openai: ${provider} }` });
    expect(first).toEndWith(`providers.openai.${message}`);
    expect(others).toEqual([]);
  });

  test("is printed without a secret", () => {
    const yaml = `providers:
  openai: { api_keys: [secret-one, { key: secret-two, name: team }] }
  azure: { api_keys: [secret-three], endpoints: [https://one.example, { base_url: https://two.example, api_keys: [secret-four] }] }
`;
    const text = printConfig(loaded({ yaml }));
    expect(text).not.toContain("secret");
    for (const part of ["name: team", "https://one.example", "https://two.example", "strategy: sticky"])
      expect(text).toContain(part);
  });
});
