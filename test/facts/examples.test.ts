/** No model's number stands in code but in the facts: what is named elsewhere is taken from there, is known, and does not end soon. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { endState } from "../../src/facts/endings.ts";
import { claudeFamilies, exampleNames, modelsBeside } from "../../src/facts/examples.ts";
import { factsAsOf, factsOf } from "../../src/facts/facts.ts";
import { parseModelId } from "../../src/protocols/model-id.ts";

const src = resolve(import.meta.dir, "../../src");
/** Families of models, with their number behind them, or behind one more word of theirs. */
const families = [
  ...[
    "gpt",
    "chatgpt",
    "claude",
    "gemini",
    "gemma",
    "grok",
    "kimi-k",
    "glm",
    "qwen",
    "llama",
    "deepseek-v",
    "minimax-m",
  ],
  ...[
    "mistral",
    "magistral",
    "codestral",
    "nova",
    "opus",
    "sonnet",
    "haiku",
    "fable",
    "gpt-image",
    "text-embedding",
    "dall-e",
  ],
];
const numbered = new RegExp(`\\b(?:${families.join("|")})(?:-[a-z]{2,})?[- ]?\\d+(?:[.-]\\d+)?(?![\\da-z]*[:/])`, "i");
const oSeries = /\bo[134](?:-mini|-pro)?\b(?=["'`*,])/;

const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
  (path) => /\.(?:ts|tsx|md|html|css)$/.test(path) && !path.startsWith("facts/") && !path.includes("builtin"),
);

test("no file of the code but the facts has a model's number", () => {
  const found = files.flatMap((path) =>
    readFileSync(join(src, path), "utf8")
      .split("\n")
      // Public pages have addresses of their own.
      .map((line) => line.replaceAll(/https?:\/\/\S+/g, ""))
      .flatMap((line, at) => (numbered.test(line) || oSeries.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});

test("what finds them does find them", () => {
  const names = [
    "gpt-5.4-mini",
    "claude-sonnet-5",
    "claude-opus-4-5",
    "gemini-3.5-flash",
    "Claude Haiku 4.5",
    "gpt-image-2",
  ];
  expect(names.filter((name) => !numbered.test(`x ${name}`))).toEqual([]);
  expect(['"o3-mini"', '"o1"'].filter((name) => !oSeries.test(name))).toEqual([]);
  const others = ["gpt-tokenizer", "google-gemini-v1", "anthropic-claude-v1", "amazon.nova-pro-v1:0", "llama.cpp"];
  expect(others.filter((name) => numbered.test(name))).toEqual([]);
});

const named = [
  ...Object.values(exampleNames),
  ...Object.values(claudeFamilies),
  `openai/${modelsBeside["image_generation"]}`,
];

test.each(named)("%s is known, and does not end soon", (id) => {
  const { namespace, name } = parseModelId(id)!;
  const { assumed, ends } = factsOf(namespace, name);
  expect(assumed).toBeUndefined();
  expect(ends === undefined || endState(ends, Date.parse(factsAsOf)) === "later").toBe(true);
});
