/** A configuration out of nothing but what a test gives. */
import { Type } from "@sinclair/typebox";
import type { ProviderCatalog } from "../../src/config/catalog.ts";
import type { Config } from "../../src/config/config.ts";
import { type Flags, type LoadedConfig, type LoadResult, loadConfig } from "../../src/config/load.ts";
import type { Machine } from "../../src/lib/process/io.ts";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";

export const catalog: ProviderCatalog = [
  { kind: "local", name: "builtin" },
  {
    kind: "remote",
    name: "openai",
    baseUrl: "https://api.openai.com/v1",
    environment: { keys: ["OPENAI_API_KEY"], baseUrl: ["OPENAI_BASE_URL"] },
    keyOptional: false,
    modelRules: Type.Object({ reasoning: Type.Optional(Type.Boolean()) }),
  },
  {
    kind: "remote",
    name: "google",
    baseUrl: "https://generativelanguage.googleapis.com",
    environment: { keys: ["GEMINI_API_KEY", "GOOGLE_API_KEY"], baseUrl: [] },
    keyOptional: false,
  },
  {
    kind: "remote",
    name: "ollama",
    baseUrl: "http://localhost:11434/v1",
    environment: { keys: [], baseUrl: ["OLLAMA_HOST"], presence: ["OLLAMA_MODELS"] },
    keyOptional: true,
  },
  {
    kind: "remote",
    name: "azure",
    baseUrl: "",
    environment: {
      keys: ["AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"],
      tokens: ["AZURE_OPENAI_AD_TOKEN"],
      baseUrl: ["AZURE_OPENAI_ENDPOINT"],
      options: { OPENAI_API_VERSION: "api_version" },
    },
    keyOptional: false,
    options: Type.Object({
      api_version: Type.Optional(Type.String({ default: "v1" })),
      bearer: Type.Optional(Type.Boolean()),
    }),
  },
];

export type Given = {
  /** Of /srv/troupe.yaml. */
  readonly yaml?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: Flags;
  /** By path; a value of `Error` can't be read. */
  readonly files?: Readonly<Record<string, string | Error>>;
  readonly machine?: Machine;
};

export function load({ yaml, env = {}, flags = {}, files = {}, machine }: Given): LoadResult {
  const all: Record<string, string | Error> = { ...files, ...(yaml !== undefined && { "troupe.yaml": yaml }) };
  const readFile = (path: string) => {
    const content = all[path];
    if (content instanceof Error) throw content;
    return content;
  };
  return loadConfig({ flags, env, cwd: "/srv", readFile, ...(machine && { machine }) }, catalog);
}

export function loaded(given: Given): LoadedConfig {
  const result = load(given);
  if ("errors" in result) throw new Error(result.errors.map(formatDiagnostic).join("\n"));
  return result;
}

export const configOf = (given: Given): Config => loaded(given).config;

export function errorsOf(given: Given): string[] {
  const result = load(given);
  return "errors" in result ? result.errors.map(formatDiagnostic) : [];
}
