import { describe, expect, test } from "bun:test";
import { configOf, errorsOf } from "./loading.ts";

const modelsOf = (text: string, env: Record<string, string> = {}) =>
  configOf({ yaml: `providers:\n  ollama:\n    models: [${text}]\n`, env }).providers[0]!.models;

describe("a reference in the file", () => {
  test.each([
    ["'${A}'", ["one"]],
    ["'x-${A}-${B}'", ["x-one-two"]],
    ["'${NONE:-three}'", ["three"]],
    ["'${EMPTY:-three}'", ["three"]],
    ["'${A:-three}'", ["one"]],
    ["'${NONE:-a:b/c $ d}'", ["a:b/c $ d"]],
    ["'$${A}'", ["${A}"]],
    ["'$A $ {A} $$'", ["$A $ {A} $$"]],
    ["'$$${A}'", ["$${A}"]],
  ])("%s becomes %p", (text, models) => {
    expect(modelsOf(text, { A: "one", B: "two", EMPTY: "" })).toEqual(models);
  });

  test("what a variable holds is not read again", () => {
    expect(modelsOf("'${A}'", { A: "${B} $& $1", B: "no" })).toEqual(["${B} $& $1"]);
  });

  test("becomes a number or a truth value where one belongs", () => {
    const yaml = "tiers: {free: '${FREE}'}\nlog: {content: '${CONTENT}'}\ntimeouts: {idle_seconds: '${IDLE:-1.5}'}\n";
    const config = configOf({ yaml, env: { FREE: "7", CONTENT: "true", OPENAI_API_KEY: "k" } });
    expect(config.tiers.free).toBe(7);
    expect(config.log.content).toBe(true);
    expect(config.providers[0]!.timeouts.idleSeconds).toBe(1.5);
  });

  test("stays text where text belongs", () => {
    const yaml = "providers:\n  openai: {api_key: '${KEY}'}\n";
    expect(configOf({ yaml, env: { KEY: "12345" } }).providers[0]!.apiKey).toBe("12345");
  });

  test("to nothing leaves its key out", () => {
    const yaml = "tiers: {free: '${FREE:-}'}\nproviders:\n  ollama: {base_url: '${URL:-}', api_key: '${KEY}'}\n";
    const { tiers, providers } = configOf({ yaml, env: { KEY: "" } });
    expect(tiers.free).toBe(10);
    expect(providers[0]!.baseUrl).toBe("http://localhost:11434/v1");
    expect(providers[0]).not.toHaveProperty("apiKey");
  });

  test("to what is not set, or to nothing at all, is an error at its place, told once", () => {
    const yaml =
      "providers:\n  openai:\n    api_key: ${MYCORP_KEY}\n    base_url: https://${2}/\ntiers: {free: '${X}'}\n";
    expect(errorsOf({ yaml })).toEqual([
      "troupe.yaml:3:14: providers.openai.api_key: refers to MYCORP_KEY, which is not set; ${MYCORP_KEY:-…} would give a default",
      "troupe.yaml:4:15: providers.openai.base_url: has a '${' that is no reference: write ${NAME} or ${NAME:-default}, or $${ for the two characters",
      "troupe.yaml:5:15: tiers.free: refers to X, which is not set; ${X:-…} would give a default",
    ]);
  });

  test("of a wrong kind is an error of the value", () => {
    expect(errorsOf({ yaml: "tiers: {free: '${FREE}'}", env: { FREE: "some" } })).toEqual([
      "troupe.yaml:1:15: tiers.free: must be an integer from 1 to 1000000",
    ]);
  });

  test("reads secrets from where variables do not show them", () => {
    const yaml = "providers:\n  openai: {api_key: '${MYCORP}'}\n";
    const keyOf = (env: Record<string, string>, files: Record<string, string>) =>
      configOf({ yaml, env, files }).providers[0]!.apiKey;
    expect(keyOf({ MYCORP_FILE: "/run/secrets/m" }, { "/run/secrets/m": "k1\n" })).toBe("k1");
    expect(keyOf({ CREDENTIALS_DIRECTORY: "/run/c" }, { "/run/c/MYCORP": "k2" })).toBe("k2");
    expect(keyOf({ CREDENTIALS_DIRECTORY: "/run/c" }, { "/run/c/mycorp": "k3" })).toBe("k3");
  });
});
