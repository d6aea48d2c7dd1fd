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
  const files: Readonly<Record<string, string>> = {
    "troupe.yaml": yaml,
    "/etc/troupe/tls/fullchain.pem": "a certificate",
    "/etc/troupe/tls/privkey.pem": "a key",
  };
  const readFile = (path: string) => files[path];
  const loaded = loadConfig({ flags: {}, env, cwd: "/srv", readFile }, providers);
  if ("errors" in loaded) throw new Error(loaded.errors.map(formatDiagnostic).join("\n"));
  return loaded;
}

describe("deploy/troupe.example.yaml", () => {
  test("changes nothing as it is", async () => {
    expect(load(await textOf("deploy/troupe.example.yaml")).config).toEqual(load("").config);
    const env = { OPENAI_API_KEY: "k1" };
    const { config, hints } = load(await textOf("deploy/troupe.example.yaml"), env);
    expect(config.providers.map(({ name, apiKey }) => [name, apiKey])).toEqual([["openai", "k1"]]);
    expect(hints).toEqual([]);
  });

  test("loads with the sign of comments taken from any of its settings, and from all", async () => {
    const text = await textOf("deploy/troupe.example.yaml");
    const isSetting = /^ *# ((?: {2})*(?:[a-z_]+|[a-z]+(?:-[\w.]+)+):(?: |$)|(?: {2})*- )/;
    const lines = text.split("\n");
    const settings = lines.flatMap((line, at) => (isSetting.test(line) && !/\$schema|tls:/.test(line) ? [at] : []));
    expect(settings.length).toBeGreaterThan(40);
    const without = (chosen: readonly number[]) =>
      lines.map((line, at) => (chosen.includes(at) ? line.replace("# ", "") : line)).join("\n");
    const env = {
      DATABASE_URL: "postgres://db/t",
      REDIS_URL: "redis://r:1",
      MYCORP_API_KEY: "k2",
      OPENAI_API_KEY: "k1",
      ALERTS_URL: "https://hooks.example.com/t",
      ALERTS_SECRET: "sixteen letters or more",
    };
    const { config } = load(without(settings), env);
    expect(config.providers.map(({ name, apiKey, baseUrl }) => [name, apiKey, baseUrl])).toEqual([
      ["openai", "k1", "https://api.openai.com/v1"],
      ["mycorp", "k2", "https://llm.mycorp.example/v1"],
    ]);
    // One by one, for the settings that stand for themselves.
    for (const at of settings) {
      const depth = lines[at]!.indexOf("#");
      const isPart = /^ *# {2,}/.test(lines[at]!);
      const hasParts = new RegExp(`^ {${depth}}# {2,}`).test(lines[at + 1] ?? "");
      if (!isPart && !hasParts && !/coordination|mycorp|web_search/.test(lines[at]!)) load(without([at]), env);
    }
  });

  test("names every key", async () => {
    const example = await textOf("deploy/troupe.example.yaml");
    for (const { path } of settings) expect(example).toMatch(new RegExp(`^\\s*(# +)?${path.at(-1)}:`, "m"));
  });
});

describe("docs/settings.md", () => {
  test("has its tables from the schema (bun test/config/tables.ts writes them)", async () => {
    const text = await Bun.file(page).text();
    expect(withTables(text)).toBe(text);
    for (const lines of Object.values(tables())) expect(text).toContain(lines);
  });

  test("says what each flag's variable is", async () => {
    const text = await textOf("docs/configuration.md");
    for (const variable of ["TROUPE_CONFIG", "TROUPE_HOST", "TROUPE_PORT", "TROUPE_DATA", "TROUPE_PERSONAS"]) {
      expect(text).toMatch(new RegExp(`^\\| \`--.*\\| \`${variable}\` \\|`, "m"));
    }
  });
});

const env = {
  OPENAI_API_KEY: "k",
  AZURE_OPENAI_API_KEY: "k",
  CLOUDFLARE_API_TOKEN: "k",
  DATABASE_PASSWORD: "p",
  ALERTS_URL: "https://ops.example.com/hook",
  ALERTS_SECRET: "a secret of the alerts",
};
const pages = [
  ...["admin", "alerts", "budgets", "cluster", "configuration", "costs", "observability", "providers"],
  ...["reverse-proxy", "security", "tuning", "workers"],
];
const examples = await Promise.all(
  pages.map(async (name) => {
    const path = `docs/${name}.md`;
    const text = await textOf(path);
    // Values of the Helm chart are held by its own tests.
    return [...text.matchAll(/^```yaml\n(?!# values)([\s\S]*?)^```/gm)].map(([, yaml], at) => ({
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
  expect(examples.flat().length).toBeGreaterThan(20);
});
