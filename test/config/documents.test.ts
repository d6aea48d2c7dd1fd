import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type LoadedConfig, loadConfig } from "../../src/config/load.ts";
import { settings } from "../../src/config/settings.ts";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { providers } from "../../src/providers/registry.ts";
import { page, tables, withTables } from "./tables.ts";

const root = join(import.meta.dir, "../..");
const textOf = (path: string) => Bun.file(join(root, path)).text();

/** Loads a text with the providers that there really are. */
function load(yaml: string, env: Record<string, string> = {}): LoadedConfig {
  const readFile = (path: string) => (path === "troupe.yaml" ? yaml : undefined);
  const loaded = loadConfig({ flags: {}, env, cwd: "/srv", readFile, isFolder: () => false }, providers);
  if ("errors" in loaded) throw new Error(loaded.errors.map(formatDiagnostic).join("\n"));
  return loaded;
}

describe("deploy/troupe.example.yaml", () => {
  test("loads as it is, and changes nothing but the provider it adds", async () => {
    const { config } = load(await textOf("deploy/troupe.example.yaml"));
    const { providers: added, ...rest } = config;
    const { providers: none, ...defaults } = load("").config;
    expect(rest).toEqual(defaults);
    expect(none).toEqual([]);
    expect(added).toEqual([
      {
        name: "mycorp",
        dialect: "openai",
        baseUrl: "https://llm.mycorp.example/v1",
        headers: { "x-team": "troupe" },
        models: ["our-model"],
        options: {},
        modelRules: [{ match: "our-*", max_tokens_field: "max_tokens" }],
        timeouts: { connectSeconds: 10, firstByteSeconds: 600, idleSeconds: 120 },
      },
    ]);
  });

  test("takes its variables", async () => {
    const env = { OPENAI_ENABLED: "true", OPENAI_API_KEY: "k1", MYCORP_API_KEY: "k2", MYCORP_BASE_URL: "http://x/v1" };
    const { config } = load(await textOf("deploy/troupe.example.yaml"), env);
    expect(config.providers.map(({ name, apiKey, baseUrl }) => [name, apiKey, baseUrl])).toEqual([
      ["openai", "k1", "https://api.openai.com/v1"],
      ["mycorp", "k2", "http://x/v1"],
    ]);
  });

  test("names every key", async () => {
    const example = await textOf("deploy/troupe.example.yaml");
    for (const { path } of settings) expect(example).toMatch(new RegExp(`^\\s*(# )?${path.at(-1)}:`, "m"));
  });
});

describe("docs/configuration.md", () => {
  test("has its tables from the schema (bun test/config/tables.ts writes them)", async () => {
    const text = await Bun.file(page).text();
    expect(withTables(text)).toBe(text);
    for (const lines of Object.values(tables())) expect(text).toContain(lines);
  });

  test("says what each flag's variable is", async () => {
    const text = await Bun.file(page).text();
    for (const variable of ["TROUPE_CONFIG", "TROUPE_HOST", "TROUPE_PORT", "TROUPE_DATA", "TROUPE_PERSONAS"]) {
      expect(text).toMatch(new RegExp(`^\\| \`--.*\\| \`${variable}\` \\|`, "m"));
    }
  });
});

const env = { OPENAI_API_KEY: "k", AZURE_OPENAI_API_KEY: "k" };
const examples = await Promise.all(
  ["docs/configuration.md", "docs/providers.md", "docs/budgets.md", "docs/admin.md"].map(async (path) => {
    const text = await textOf(path);
    return [...text.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, yaml], at) => ({
      path,
      number: at + 1,
      yaml: yaml!,
    }));
  }),
);

test.each(examples.flat())("example $number in $path loads", ({ yaml }) => {
  expect(load(yaml, env).config).toBeDefined();
});

test("there are examples", () => {
  expect(examples.flat().length).toBeGreaterThan(2);
});
