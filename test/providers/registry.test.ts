import { describe, expect, test } from "bun:test";
import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { loadConfig } from "../../src/config/load.ts";
import { Quirks } from "../../src/facts/vocabulary/chat.ts";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { openai } from "../../src/providers/openai-compatible/openai.ts";
import { providers } from "../../src/providers/registry.ts";

const linesOf = (name: string) => readFileSync(resolve(import.meta.dir, `../../docs/${name}.md`), "utf8").split("\n");
const page = linesOf("providers");

test("names are unique", () => {
  expect(new Set(providers.map(({ name }) => name)).size).toBe(providers.length);
});

test("docs/providers.md names each provider with its variables and its address", () => {
  const code = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(", ");
  const rows = providers.flatMap((one) =>
    one.kind === "remote"
      ? `| ${one.name} | ${code(one.environment.keys)} | ${code(one.environment.baseUrl)} | ${one.baseUrl || "your resource's own"} |`
      : [],
  );
  const table = page.slice(0, page.indexOf("## Configuration"));
  expect(table.filter((line) => line.startsWith("| ")).slice(2)).toEqual(rows);
});

test("docs/translation.md explains each key of a model rule", () => {
  // Those of all providers of the chat format, and of those that speak Responses too.
  const explained = { ...Quirks.properties, ...openai.modelRules!.properties };
  const keys = Object.entries(explained).map(([key, { description }]) => `- \`${key}\`: ${description}`);
  expect(linesOf("translation").filter((line) => line.startsWith("- `"))).toEqual(keys);
});

test("nothing compares a provider's name: what differs is data, or follows from its format", () => {
  const names = providers.map(({ name }) => name).join("|");
  const compared = new RegExp(
    `\\b(?:name|family|provider|dialect|folder|account)\\)? [!=]== "(?:${names})"|case "(?:${names})":`,
  );
  const lines = globSync(["src/**/*.ts", "test/**/*.ts"]).flatMap((file) =>
    // The proxies that the benchmark compares with speak one format.
    file.startsWith("test/bench/")
      ? []
      : readFileSync(file, "utf8")
          .split("\n")
          .flatMap((line, at) => (compared.test(line) ? `${file}:${at + 1}: ${line.trim()}` : [])),
  );
  expect(lines).toEqual([]);
});

test("models are named once, and without their provider", () => {
  // Its own models are named so: https://openrouter.ai/docs/guides/routing/routers/auto-router
  const inOwnNamespace = new Set(["openrouter"]);
  for (const { name, models } of providers) {
    expect(new Set(models).size).toBe(models.length);
    const isOwn = (model: string) => model.startsWith(`${name}/`);
    expect(models.filter((model) => model === "" || isOwn(model) !== inOwnNamespace.has(name))).toEqual([]);
  }
});

test("public addresses are https and end without a slash; a server of one's own is set up by its address alone", () => {
  for (const provider of providers) {
    if (provider.kind === "local" || provider.baseUrl === "") continue;
    const { baseUrl, keyOptional, environment } = provider;
    expect(baseUrl).toMatch(
      keyOptional ? /^http:\/\/(localhost|127\.0\.0\.1):\d+\/(engines\/)?v1$/ : /^https:\/\/.*[^/]$/,
    );
    expect(environment.baseUrl).not.toEqual([]);
  }
});

test("the example of docs/providers.md is a configuration", () => {
  const yaml = /```yaml\n(.*?)```/s.exec(page.join("\n"))?.[1] ?? "";
  const input = {
    flags: { config: "troupe.yaml" },
    env: { OPENAI_API_KEY: "k", AZURE_OPENAI_API_KEY: "k" },
    cwd: "/srv",
    readFile: (path: string) => (path === "troupe.yaml" ? yaml : undefined),
  };
  expect(loadConfig(input, providers)).toMatchObject({
    warnings: [],
    config: {
      providers: [
        { name: "openai", headers: { "openai-organization": "org-123" } },
        { name: "azure", options: { api_version: "2024-12-01-preview" } },
        { name: "gpu-box", dialect: "vllm", modelRules: [{ match: "qwen3*", options: ["thinking_budget"] }] },
      ],
    },
  });
});

describe("variables that other tools read too", () => {
  const shared = {
    HF_TOKEN: "hf",
    CLOUDFLARE_API_TOKEN: "cf",
    CLOUDFLARE_ACCOUNT_ID: "a1",
    DATABRICKS_TOKEN: "db",
    DATABRICKS_HOST: "acme.cloud.databricks.com",
    SNOWFLAKE_PAT: "sf",
  };
  const load = (yaml: string, env: Record<string, string>) => {
    const readFile = (path: string) => (path === "troupe.yaml" ? yaml : undefined);
    const loaded = loadConfig({ flags: { config: "troupe.yaml" }, env, cwd: "/srv", readFile }, providers);
    if ("errors" in loaded) throw new Error(loaded.errors.map(formatDiagnostic).join("\n"));
    return { warnings: loaded.warnings, configured: loaded.config.providers };
  };

  test("set up no provider", () => {
    expect(load("", shared)).toEqual({ warnings: [], configured: [] });
  });

  test("serve those that the configuration names", () => {
    const { warnings, configured } = load(
      "providers: { huggingface: {}, cloudflare: {}, databricks: {}, ollama-cloud: {} }",
      { ...shared, OLLAMA_API_KEY: "ol", OLLAMA_HOST: "" },
    );
    expect(warnings).toEqual([]);
    expect(configured).toMatchObject([
      { name: "huggingface", apiKey: "hf", baseUrl: "https://router.huggingface.co/v1" },
      { name: "cloudflare", apiKey: "cf", options: { account_id: "a1" } },
      { name: "databricks", apiKey: "db", baseUrl: "https://acme.cloud.databricks.com" },
      { name: "ollama-cloud", apiKey: "ol", baseUrl: "https://ollama.com/v1" },
      { name: "ollama" },
    ]);
  });

  test("serve one that its own variables set up", () => {
    expect(load("", { DATABRICKS_API_KEY: "own", DATABRICKS_HOST: "acme.test" }).configured).toMatchObject([
      { name: "databricks", apiKey: "own", baseUrl: "https://acme.test" },
    ]);
  });

  test("an account that is named nowhere is an error by its place", () => {
    expect(() => load("providers: { cloudflare: { api_key: k } }", {})).toThrow("account_id");
  });
});

describe("the project of a service account's file", () => {
  const file = JSON.stringify({ type: "service_account", project_id: "of-the-file", private_key: "x" });
  const files = { "/sa.json": file, "/user.json": '{"type":"authorized_user"}', "/broken.json": "{" };
  const projectOf = (yaml: string, env: Record<string, string> = {}) => {
    const all: Readonly<Record<string, string>> = { ...files, "troupe.yaml": yaml };
    const loaded = loadConfig(
      { flags: { config: "troupe.yaml" }, env, cwd: "/srv", readFile: (path) => all[path] },
      providers,
    );
    if ("errors" in loaded) throw new Error(loaded.errors.map(({ message }) => message).join("\n"));
    return loaded.config.providers[0]?.options["project"];
  };

  test("is that of its calls, unless another is named", () => {
    const named = "providers: {vertex: {options: {credentials_file: /sa.json}}}";
    expect(projectOf(named)).toBe("of-the-file");
    const found = { GOOGLE_APPLICATION_CREDENTIALS: "/sa.json" };
    expect(projectOf("providers: {vertex: {}}", found)).toBe("of-the-file");
    expect(projectOf("providers: {vertex: {options: {project: own}}}", found)).toBe("own");
    expect(projectOf("providers: {vertex: {}}", { ...found, GOOGLE_CLOUD_PROJECT: "of-the-variable" })).toBe(
      "of-the-variable",
    );
    expect(projectOf("", { ...found, GOOGLE_VERTEX_BASE_URL: "https://x.test/v1" })).toBe("of-the-file");
  });

  test("is not looked for where a key or a token is used, and a file that can't be read says nothing", () => {
    const found = { GOOGLE_APPLICATION_CREDENTIALS: "/sa.json" };
    expect(projectOf("providers: {vertex: {api_key: express}}", found)).toBeUndefined();
    expect(projectOf("providers: {vertex: {api_keys: [one, two]}}", found)).toBeUndefined();
    expect(projectOf("providers: {vertex: {}}", { ...found, GOOGLE_VERTEX_API_KEY: "express" })).toBeUndefined();
    for (const path of ["/user.json", "/broken.json", "/none.json"])
      expect(projectOf(`providers: {vertex: {options: {credentials_file: ${path}}}}`)).toBeUndefined();
  });
});
