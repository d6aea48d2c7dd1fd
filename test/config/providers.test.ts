import { describe, expect, test } from "bun:test";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { configOf, errorsOf, loaded } from "./loading.ts";

const usual = { connectSeconds: 10, firstByteSeconds: 300, idleSeconds: 120 };
const bare = { headers: {}, models: [], options: {}, modelRules: [], timeouts: usual };
const openai = { name: "openai", dialect: "openai", baseUrl: "https://api.openai.com/v1", ...bare };

describe("a provider whose usual variable is there", () => {
  test("is set up without a word in any file", () => {
    const env = { OPENAI_API_KEY: "k1", GOOGLE_API_KEY: "k2", OLLAMA_MODELS: "/models" };
    expect(configOf({ env }).providers).toEqual([
      { ...openai, apiKey: "k1" },
      {
        ...bare,
        name: "google",
        dialect: "google",
        apiKey: "k2",
        baseUrl: "https://generativelanguage.googleapis.com",
      },
      { ...bare, name: "ollama", dialect: "ollama", baseUrl: "http://localhost:11434/v1" },
    ]);
  });

  test("takes the first variable that has a value", () => {
    const keyOf = (env: Record<string, string>) => configOf({ env }).providers[0]?.apiKey;
    expect(keyOf({ GEMINI_API_KEY: "a", GOOGLE_API_KEY: "b" })).toBe("a");
    expect(keyOf({ GEMINI_API_KEY: " ", GOOGLE_API_KEY: " b\n" })).toBe("b");
    expect(keyOf({ GEMINI_API_KEY: "" })).toBeUndefined();
  });

  test("takes its key from a file or from systemd's credentials", () => {
    const files = { "/run/secrets/k": "k1\n", "/run/c/OPENAI_API_KEY": "k2", "/run/d/openai_api_key": "k3\n" };
    const keyOf = (env: Record<string, string>) => configOf({ env, files }).providers[0]?.apiKey;
    expect(keyOf({ OPENAI_API_KEY_FILE: "/run/secrets/k" })).toBe("k1");
    expect(keyOf({ CREDENTIALS_DIRECTORY: "/run/c" })).toBe("k2");
    expect(keyOf({ CREDENTIALS_DIRECTORY: "/run/d" })).toBe("k3");
    expect(keyOf({ CREDENTIALS_DIRECTORY: "/run/c", OPENAI_API_KEY: "k4" })).toBe("k4");
    expect(keyOf({ CREDENTIALS_DIRECTORY: "/run/none" })).toBeUndefined();
  });

  test("says when that can't be done", () => {
    const files = { "/locked": new Error("EACCES: permission denied") };
    expect(errorsOf({ env: { OPENAI_API_KEY_FILE: "/none" } })).toEqual([
      "environment: OPENAI_API_KEY_FILE: names /none, which does not exist",
    ]);
    expect(errorsOf({ env: { OPENAI_API_KEY_FILE: "/locked" }, files })).toEqual([
      "environment: OPENAI_API_KEY_FILE: names /locked, which can't be read: EACCES: permission denied",
    ]);
    expect(errorsOf({ env: { OPENAI_API_KEY: "a", OPENAI_API_KEY_FILE: "/b" } })).toEqual([
      "environment: OPENAI_API_KEY: is set, and OPENAI_API_KEY_FILE too: unset one",
    ]);
    expect(errorsOf({ env: { OPENAI_API_KEY: "two words" } })).toEqual([
      "environment: OPENAI_API_KEY: holds a space or a character that no key has",
    ]);
  });

  test.each([
    ["http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1"],
    ["http://box", "http://box/v1"],
    ["https://box:444/", "https://box:444/v1"],
    ["box", "http://box:11434/v1"],
    ["box:9", "http://box:9/v1"],
    ["127.0.0.1:9", "http://127.0.0.1:9/v1"],
    ["http://box/own/path", "http://box/own/path"],
  ])("moves to %s", (address, baseUrl) => {
    expect(configOf({ env: { OLLAMA_HOST: address } }).providers[0]?.baseUrl).toBe(baseUrl);
  });

  test("may need no key where it moved to", () => {
    expect(configOf({ env: { OPENAI_BASE_URL: "http://127.0.0.1:1/v1" } }).providers).toEqual([
      { ...openai, baseUrl: "http://127.0.0.1:1/v1" },
    ]);
  });

  test("may have options from the environment, which the file goes before", () => {
    const env = {
      AZURE_OPENAI_AD_TOKEN: "t",
      AZURE_OPENAI_ENDPOINT: "https://r.test",
      OPENAI_API_VERSION: "2024-10-21",
    };
    const optionsOf = (input: Parameters<typeof configOf>[0]) => configOf(input).providers[0]?.options;
    expect(optionsOf({ env })).toEqual({ api_version: "2024-10-21", bearer: true });
    expect(optionsOf({ env: { ...env, AZURE_OPENAI_API_KEY: "k" } })).toEqual({ api_version: "2024-10-21" });
    expect(optionsOf({ env, yaml: "providers:\n  azure: { options: { api_version: v1, bearer: false } }" })).toEqual({
      api_version: "v1",
      bearer: false,
    });
    expect(optionsOf({ env, yaml: "providers:\n  azure: { api_key: k }" })).toEqual({ api_version: "2024-10-21" });
  });

  test("is left out with a warning when something else is missing", () => {
    const env = { AZURE_OPENAI_API_KEY: "k", OPENAI_BASE_URL: "https://api.openai.com/v1/" };
    const { config, warnings } = loaded({ env });
    expect(config.providers).toEqual([]);
    expect(warnings.map(formatDiagnostic)).toEqual([
      "environment: OPENAI_BASE_URL: does not set up the provider openai: it needs a key, from OPENAI_API_KEY",
      "environment: AZURE_OPENAI_API_KEY: does not set up the provider azure: it needs an address, from AZURE_OPENAI_ENDPOINT",
    ]);
  });

  test("has the defaults of its options", () => {
    const env = { AZURE_OPENAI_API_KEY: "k", AZURE_OPENAI_ENDPOINT: "https://me.openai.azure.com/" };
    expect(configOf({ env }).providers).toEqual([
      {
        ...bare,
        name: "azure",
        dialect: "azure",
        apiKey: "k",
        baseUrl: "https://me.openai.azure.com",
        options: { api_version: "v1" },
      },
    ]);
  });

  test("can be turned off, and then nothing is asked of it", () => {
    const yaml = "providers:\n  openai: {enabled: false}\n  azure: {enabled: false}\n";
    const { config, warnings, hints } = loaded({ yaml, env: { OPENAI_API_KEY: "k" } });
    expect([config.providers, warnings]).toEqual([[], []]);
    // Where a key for it is set all the same, whoever asks is told.
    expect(hints.map(formatDiagnostic)).toEqual([
      "troupe.yaml:2:21: providers.openai.enabled: turns openai off, though a key for it is set (OPENAI_API_KEY)",
    ]);
    const inFile = loaded({ yaml: "providers:\n  openai: {enabled: false, api_key: k}\n" });
    expect(inFile.hints.map(({ message }) => message)).toEqual([
      "turns openai off, though a key for it is set (its api_key)",
    ]);
  });

  test("is not set up by an empty file, which is told; an empty variable is usual", () => {
    const env = { CREDENTIALS_DIRECTORY: "/run/c", OPENAI_API_KEY: "", GEMINI_API_KEY_FILE: "/k" };
    const { warnings } = loaded({ env, files: { "/run/c/AZURE_OPENAI_API_KEY": "\n", "/k": "" } });
    expect(warnings.map(formatDiagnostic)).toEqual([
      "environment: GEMINI_API_KEY: does not set up the provider google: /k is empty",
      "environment: AZURE_OPENAI_API_KEY: does not set up the provider azure: /run/c/AZURE_OPENAI_API_KEY is empty",
    ]);
  });
});

describe("a provider in the file", () => {
  test("takes from the environment what the file leaves open", () => {
    const yaml =
      "providers:\n  openai:\n    models: [gpt-5.4]\n    headers: {OpenAI-Project: p}\n    timeouts: {idle_seconds: 5}\n";
    expect(configOf({ yaml, env: { OPENAI_API_KEY: "k" } }).providers).toEqual([
      {
        ...openai,
        apiKey: "k",
        models: ["gpt-5.4"],
        headers: { "openai-project": "p" },
        timeouts: { ...usual, idleSeconds: 5 },
      },
    ]);
  });

  test("is above the environment where it speaks for itself", () => {
    const yaml = "providers:\n  openai: {api_key: mine, base_url: 'https://eu.api.openai.com/v1/'}\n";
    const env = { OPENAI_API_KEY: "other", OPENAI_BASE_URL: "https://other.example" };
    expect(configOf({ yaml, env }).providers).toEqual([
      { ...openai, apiKey: "mine", baseUrl: "https://eu.api.openai.com/v1" },
    ]);
  });

  test("of an own name speaks another's dialect and has variables by the same custom", () => {
    const yaml = `providers:
  my-corp:
    dialect: openai
    base_url: https://llm.corp.example/v1
    options: {}
    model_rules:
      - {match: "o*", reasoning: true}
  second: {dialect: openai}
`;
    const env = { MY_CORP_API_KEY: "k1", SECOND_API_KEY: "k2", SECOND_BASE_URL: "http://two/v1" };
    expect(configOf({ yaml, env }).providers).toEqual([
      {
        ...openai,
        name: "my-corp",
        baseUrl: "https://llm.corp.example/v1",
        apiKey: "k1",
        modelRules: [{ match: "o*", reasoning: true }],
      },
      { ...openai, name: "second", baseUrl: "http://two/v1", apiKey: "k2" },
    ]);
  });

  test("needs a key at the public address, unless a header carries one", () => {
    expect(errorsOf({ yaml: "providers:\n  openai:\n    models: [x]\n" })).toEqual([
      "troupe.yaml:2:3: providers.openai: has no key: set OPENAI_API_KEY or api_key, or enabled: false",
    ]);
    expect(errorsOf({ yaml: "providers:\n  openai: {headers: {Authorization: 'Bearer x'}}\n" })).toEqual([]);
    expect(errorsOf({ yaml: "providers:\n  openai: {base_url: 'http://127.0.0.1:1/v1'}\n" })).toEqual([]);
    expect(errorsOf({ yaml: "providers:\n  ollama: {}\n" })).toEqual([]);
  });

  test.each([
    [
      "mycorp: {}",
      "2:3: providers.mycorp: is no built-in provider, so it needs a dialect: one of openai, google, ollama, azure",
    ],
    ["a: {dialect: opnai}", "2:16: providers.a.dialect: is no built-in provider; did you mean 'openai'?"],
    [
      "a: {dialect: builtin}",
      "2:16: providers.a.dialect: is no built-in provider: one of openai, google, ollama, azure",
    ],
    ["builtin: {}", "2:3: providers.builtin: is always there and takes no settings"],
    [
      "Open/AI: {dialect: ollama}",
      "2:3: providers[\"Open/AI\"]: must be of 1 to 64 lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit",
    ],
    ["azure: {api_key: k}", "2:3: providers.azure: needs base_url, or AZURE_OPENAI_ENDPOINT in the environment"],
    ["ollama: {options: {a: 1}}", "2:22: providers.ollama.options.a: is not a known key"],
    ["ollama: {model_rules: [{reasoning: true}]}", "2:26: providers.ollama.model_rules[0].match: is required"],
    [
      "ollama: {model_rules: [{match: x, y: 1}]}",
      "2:37: providers.ollama.model_rules[0].y: is not a known key; known here: match",
    ],
    ["ollama: {headers: {'a b': x}}", '2:22: providers.ollama.headers["a b"]: is no name for a header'],
    ["ollama: {headers: {a: 3}}", "2:25: providers.ollama.headers.a: must be a string"],
    [
      "ollama: {timeouts: {idle_seconds: 0}}",
      "2:37: providers.ollama.timeouts.idle_seconds: must be a number from 0.1 to 86400",
    ],
  ])("%s is invalid", (entry, diagnostic) => {
    expect(errorsOf({ yaml: `providers:\n  ${entry}\n` })).toEqual([`troupe.yaml:${diagnostic}`]);
  });

  test.each([
    "ftp://x",
    "file:///etc/passwd",
    "https://user:pass@x",
    "https://user@x",
    "https://x?key=1",
    "https://x?",
    "https://x#a",
    "x",
    "https://",
  ])("%s is no address for it", (address) => {
    expect(errorsOf({ yaml: `providers:\n  ollama: {base_url: "${address}"}\n` })).toEqual([
      "troupe.yaml:2:22: providers.ollama.base_url: must be an http or https URL without user, password, query and fragment",
    ]);
  });
});
