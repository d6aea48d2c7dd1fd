/** The file of facts, and who answers of it. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TObject } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { factsAsOf, factsOf, listedModels, rowsOf } from "../../src/facts/facts.ts";
import { FactsFile, vocabulary } from "../../src/facts/file.ts";
import data from "../../src/facts/models.json";
import { providers } from "../../src/providers/registry.ts";

describe("the file", () => {
  test("has its form, and a day that there is", () => {
    expect([...Value.Errors(FactsFile, data)].map(({ path, message }) => `${path} ${message}`)).toEqual([]);
    expect(new Date(factsAsOf).toISOString().slice(0, 10)).toBe(factsAsOf);
  });

  test("docs/facts.schema.json is the form", () => {
    const kept = readFileSync(join(import.meta.dir, "../../docs/facts.schema.json"), "utf8");
    expect(JSON.parse(kept)).toEqual({
      $schema: "http://json-schema.org/draft-07/schema#",
      title: "What Troupe knows of models",
      ...JSON.parse(JSON.stringify(FactsFile)),
    });
  });

  test("names providers and facts that there are", () => {
    const known = providers.map(({ name }) => name);
    const named = [...Object.values(data.rules).flatMap(Object.keys), ...Object.keys(data.providers)];
    expect(named.filter((name) => !known.includes(name))).toEqual([]);
    expect(Object.keys(data.rules)).toEqual(Object.keys(vocabulary));
  });

  test("has each model of a provider once with limits, and once with an end", () => {
    for (const [provider, { models = [] }] of Object.entries(FactsOf(data))) {
      for (const fact of ["context", "ends"] as const) {
        const named = models.flatMap((row) => (row[fact] === undefined ? [] : row.model));
        expect([provider, fact, named.length]).toEqual([provider, fact, new Set(named).size]);
      }
    }
  });

  test.each([
    [
      "a word that is none of a fact's",
      ["rules", "chat", "openai", 0],
      { match: "x", tools_road: "carrier", source: "s" },
    ],
    [
      "a fact of another format",
      ["rules", "messages", "anthropic", 0],
      { match: "x", tools_road: "chat", source: "s" },
    ],
    ["a row without its source", ["rules", "chat", "xai", 0], { match: "x", sampling: "never" }],
    ["a version in words", ["rules", "chat", "xai", 0], { match: "x*", since: "v5", source: "s" }],
    ["a day that is text", ["providers", "openai", "models", 0], { model: "x", ends: "soon", source: "s" }],
    ["a context of text", ["providers", "openai", "models", 0], { model: "x", context: "1M", source: "s" }],
    ["a later form", ["schema"], 2],
  ])("refuses %s", (_, path, value) => {
    const changed = structuredClone(data) as never as Record<string | number, unknown>;
    const holder = path.slice(0, -1).reduce<Record<string | number, unknown>>((at, key) => at[key] as never, changed);
    holder[path.at(-1)!] = value;
    expect(Value.Check(FactsFile, changed)).toBe(false);
  });
});

type ProviderRow = {
  readonly models?: readonly { readonly model: unknown; readonly context?: number; readonly ends?: string }[];
};
const FactsOf = ({ providers: rows }: typeof data) => rows as never as Readonly<Record<string, ProviderRow>>;

describe("a known model", () => {
  test.each([
    ["openai", "gpt-6.1-sol", 1_050_000, 128_000],
    ["openai", "openai/GPT-6.1-Sol", 1_050_000, 128_000],
    ["openai", "gpt-5.4-2026-03-05", 1_050_000, 128_000],
    ["azure", "gpt-5.6-luna", 1_050_000, 128_000],
    ["anthropic", "claude-haiku-4-5-20251001", 200_000, 64_000],
    ["bedrock", "us.anthropic.claude-opus-4-6-v1", 1_000_000, 128_000],
    ["vertex", "claude-opus-4-6@20260205", 1_000_000, 128_000],
    ["vertex", "publishers/google/models/gemini-3.6-flash", 1_048_576, 65_536],
    ["groq", "openai/gpt-oss-120b", 131_072, 65_536],
  ])("%s/%s has its limits", (provider, model, context, output) => {
    expect(factsOf(provider, model)).toMatchObject({ context, output, tools: true });
    expect(factsOf(provider, model).assumed).toBeUndefined();
  });

  test("ends where its own provider says so", () => {
    expect(factsOf("openai", "gpt-4o")).toMatchObject({ ends: "2027-01-14", context: 128_000 });
    expect(factsOf("azure", "gpt-4o")).toMatchObject({ context: 128_000 });
    expect(factsOf("azure", "gpt-4o").ends).toBeUndefined();
  });
});

test.each([
  ["openrouter", "anthropic/claude-opus-4.5", "anthropic", "claude-opus-4-5"],
  ["openrouter", "google/gemini-4-argon", "google", "gemini-4-argon"],
  ["vercel", "openai/gpt-5.4-mini", "openai", "gpt-5.4-mini"],
  ["cloudflare-gateway", "anthropic/claude-opus-5-5", "anthropic", "claude-opus-5-5"],
])("a gateway's %s/%s has the facts of its maker, however its number is written", (gateway, name, maker, model) => {
  const { ends: _, ...facts } = factsOf(maker, model);
  expect(facts.context).toBeNumber();
  expect(factsOf(gateway, name)).toEqual(facts);
});

describe("a model nobody knows", () => {
  test.each([
    ["openai", "gpt-7-sol", "gpt-6.1-sol"],
    ["openai", "gpt-7-sol-2027-02-01", "gpt-6.1-sol"],
    ["openai", "gpt-6.0-luna", "gpt-6-luna"],
    ["openai", "gpt-5.9-luna", "gpt-5.6-luna"],
    ["openai", "ft:gpt-7-luna:acme::x", "gpt-6-luna"],
    ["azure", "gpt-7-luna", "gpt-6-luna"],
    ["anthropic", "claude-opus-6", "claude-opus-5-5"],
    ["anthropic", "claude-opus-4-9-20261201", "claude-opus-4-8"],
    ["anthropic", "claude-opus-latest", "claude-opus-5-5"],
    ["bedrock", "eu.anthropic.claude-sonnet-6-v1:0", "claude-sonnet-5-5"],
    ["google", "models/gemini-3.9-flash", "gemini-3.8-flash"],
    ["xai", "grok-5", "grok-4.7"],
    ["moonshot", "kimi-k4-pro", "kimi-k3.1-pro"],
    ["zai", "glm-6", "glm-5.3"],
    ["mistral", "mistral-large-5", "mistral-large-4"],
    ["groq", "qwen/qwen4-27b", "qwen/qwen3.8-27b"],
    ["openrouter", "anthropic/claude-opus-6", "claude-opus-5-5"],
    ["vercel", "openai/gpt-7-sol", "gpt-6.1-sol"],
    ["cloudflare-gateway", "google-ai-studio/gemini-3.9-flash", "gemini-3.8-flash"],
  ])("%s/%s is taken for %s", (provider, model, assumed) => {
    const { assumed: _, ends: _e, ...facts } = factsOf(provider, assumed);
    expect(factsOf(provider, model)).toEqual({ ...facts, assumed });
  });

  test.each([
    ["openai", "davinci-9"],
    ["openai", "gpt-image-9"],
    ["openai", ""],
    ["openai", "__proto__"],
    ["__proto__", "gpt-6"],
    ["constructor", "gpt-6"],
    ["ollama", "gpt-6"],
    ["openai", "x".repeat(10_000)],
    ["openai", "1-2-3"],
  ])("of no line that is known, %s/%s, has no facts", (provider, model) => {
    expect(factsOf(provider, model)).toEqual({});
  });

  test("is answered for again by the same object, and answers are bounded", () => {
    const first = factsOf("openai", "gpt-7-sol");
    expect(factsOf("openai", "gpt-7-sol")).toBe(first);
    for (let at = 0; at < 600; at++) factsOf("openai", `gpt-7-sol-${at}x`);
    expect(factsOf("openai", "gpt-7-sol")).not.toBe(first);
  });
});

test("rows come without what is for people, one for each glob", () => {
  const rows = rowsOf("chat", "openai");
  expect(rows.filter((row) => "source" in row || "note" in row || typeof row.match !== "string")).toEqual([]);
  expect(rows.map(({ match }) => match)).toContain("gpt-*-codex*");
  expect([rowsOf("chat", "nobody"), rowsOf("chat", "__proto__"), listedModels("nobody")]).toEqual([[], [], []]);
});

test("an account's model_rules may hold every fact of its format", () => {
  const keysOf = (schema: TObject | undefined) => Object.keys(schema?.properties ?? {});
  const format = { anthropic: "messages", google: "generate-content", bedrock: "converse", openai: "chat" } as const;
  for (const { name, ...provider } of providers)
    if (Object.hasOwn(format, name) && provider.kind === "remote") {
      const facts = keysOf(vocabulary[format[name as keyof typeof format]]).toSorted();
      expect([name, keysOf(provider.modelRules).toSorted()]).toEqual([name, facts]);
    }
});
