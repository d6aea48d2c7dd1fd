/** `troupe import litellm`: what becomes of each setting, and that what is written is valid. */
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const env = {
  ...{ AZURE_EU_KEY: "a", AZURE_US_KEY: "b", IMPORTED_KEY_1: "c", IMPORTED_KEY_2: "d", GROQ_API_KEY: "e" },
  ...{ OPENAI_API_KEY: "f", BASE: "https://llm.example.com/v1" },
};

type Made = { readonly config: Record<string, unknown>; readonly err: string; readonly out: string };

/** Imports a file, and checks what was written as a start would. */
async function imported(text: string): Promise<Made> {
  using folder = new TempFolder();
  writeFileSync(folder.file("config.yaml"), text);
  const shell = new Console(folder.path, env);
  const { code, out, err } = await shell.run("import litellm config.yaml");
  expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
  writeFileSync(folder.file("troupe.yaml"), out);
  const checked = await shell.run("check");
  expect(checked.out + checked.err).toContain("no errors");
  expect(checked.code).toBe(0);
  return { config: parse(out) as Record<string, unknown>, err, out };
}

const models = (...entries: string[]) => `model_list:\n${entries.map((entry) => `  - ${entry}\n`).join("")}`;
const one = "{ model_name: a, litellm_params: { model: openai/gpt-5.4 } }";
const other = "{ model_name: b, litellm_params: { model: groq/llama, api_key: os.environ/GROQ_API_KEY } }";
const places = ["eu", "us"].map(
  (at) =>
    `{ model_name: z, litellm_params: { model: azure/gpt, api_base: "https://${at}.openai.azure.com", api_key: os.environ/AZURE_${at.toUpperCase()}_KEY, api_version: "2025-01-01-preview" } }`,
);

describe("import litellm", () => {
  test("a name leads to a provider's model; variables keep their names", async () => {
    const { config, err } = await imported(models(one, other));
    expect(config).toEqual({
      listen: [{ address: "127.0.0.1:4000", surfaces: ["gateway"] }],
      providers: { openai: {}, groq: { api_key: "${GROQ_API_KEY}" } },
      aliases: { a: "openai/gpt-5.4", b: "groq/llama" },
    });
    expect(err).toBe("");
  });

  test("a provider that is named beside the model, with its own address", async () => {
    const params =
      "model: my-model, custom_llm_provider: openai, base_url: http://10.0.0.1/v1, api_key: os.environ/BASE";
    const { config, err } = await imported(models(`{ model_name: a, litellm_params: { ${params} } }`));
    expect(config["providers"]).toEqual({ openai: { base_url: "http://10.0.0.1/v1", api_key: "${BASE}" } });
    expect(config["aliases"]).toEqual({ a: "openai/my-model" });
    expect(err).toBe("");
  });

  test("one price alone, as embeddings have it", async () => {
    const entry = "{ model_name: a, litellm_params: { model: openai/e, input_cost_per_token: 0.00000002 } }";
    const { config } = await imported(models(entry));
    expect(config["prices"]).toEqual([{ match: "openai/e", input: 0.02 }]);
  });

  test("a credential's key and address; a model whose credential is not there goes nowhere", async () => {
    const credentials = `credential_list:
  - { credential_name: own, credential_values: { api_base: "http://10.0.0.1/v1", api_key: os.environ/BASE } }
`;
    const entry = (name: string, credential: string) =>
      `{ model_name: ${name}, litellm_params: { model: openai/m, litellm_credential_name: ${credential} } }`;
    const { config, err } = await imported(models(entry("a", "own"), entry("b", "other")) + credentials);
    expect(config["providers"]).toEqual({ openai: { base_url: "http://10.0.0.1/v1", api_key: "${BASE}" } });
    expect(config["aliases"]).toEqual({ a: "openai/m" });
    expect(err).toBe(
      "config.yaml:3:57: model_list[1].litellm_params.litellm_credential_name: 'other' is not in credential_list: the model is left out\n",
    );
  });

  test("a name with a blank is refused for its blank", async () => {
    const { err } = await imported(models('{ model_name: "my model", litellm_params: { model: openai/gpt-5.4 } }'));
    expect(err).toContain("can't be a name here: it has white space. Call openai/gpt-5.4");
  });

  test("says why where nothing can be carried over", async () => {
    using folder = new TempFolder();
    const params = "{ model: m, custom_llm_provider: nobody }";
    writeFileSync(folder.file("config.yaml"), models(`{ model_name: a, litellm_params: ${params} }`));
    const { code, err } = await new Console(folder.path, env).run("import litellm config.yaml");
    expect(code).toBe(1);
    expect(err).toContain("no model in model_list that can be carried over.\nconfig.yaml:2:");
    expect(err).toContain("litellm_params.custom_llm_provider: 'nobody' is of a provider that is not known here");
  });

  test("what is no variable in LiteLLM's file is none here", async () => {
    const headers = 'extra_headers: { x-a: "${OPENAI_API_KEY}" }';
    const entry = `{ model_name: a, litellm_params: { model: openai/gpt-5.4, ${headers} } }`;
    const { config } = await imported(models(entry));
    expect(config["providers"]).toMatchObject({ openai: { headers: { "x-a": "$${OPENAI_API_KEY}" } } });
  });

  test("a key that stands in the file is not copied, and one key has one variable", async () => {
    const secret = "sk-ant-very-secret";
    const entry = (name: string) =>
      `{ model_name: ${name}, litellm_params: { model: anthropic/claude-sonnet-5, api_key: ${secret} } }`;
    const { config, err, out } = await imported(models(entry("a"), entry("b")));
    expect(config["providers"]).toEqual({ anthropic: { api_key: "${IMPORTED_KEY_1}" } });
    expect(err).toContain("config.yaml:2:");
    expect(err).toContain(
      "model_list[0].litellm_params.api_key: is not copied: put it into the variable IMPORTED_KEY_1\n",
    );
    expect(out + err).not.toContain(secret);
  });

  test("deployments of one model are endpoints of one account, also for two names", async () => {
    const again = places.map((entry) => entry.replace("model_name: z", "model_name: y"));
    const { config } = await imported(
      `${models(...places, ...again)}router_settings: { routing_strategy: least-busy }\n`,
    );
    expect(config["providers"]).toEqual({
      azure: {
        endpoints: [
          { base_url: "https://eu.openai.azure.com", api_keys: ["${AZURE_EU_KEY}"] },
          { base_url: "https://us.openai.azure.com", api_keys: ["${AZURE_US_KEY}"] },
        ],
        strategy: "least_busy",
        options: { api_version: "2025-01-01-preview" },
      },
    });
    expect(config["aliases"]).toEqual({ z: "azure/gpt", y: "azure/gpt" });
  });

  test("deployments of several providers are models of one alias, with weights or in order", async () => {
    const weighted = [one.replace("gpt-5.4", "gpt-5.4, weight: 3"), other.replace("model_name: b", "model_name: a")];
    const shuffled = await imported(`${models(...weighted)}router_settings: { routing_strategy: simple-shuffle }\n`);
    const both = ["openai/gpt-5.4", "groq/llama"];
    expect(shuffled.config["aliases"]).toEqual({ a: { models: both, strategy: "weighted", weights: [3, 1] } });
    const ordered = [one.replace("gpt-5.4", "gpt-5.4, order: 2"), weighted[1]!.replace("llama", "llama, order: 1")];
    const { config } = await imported(models(...ordered));
    expect(config["aliases"]).toEqual({ a: { models: both.toReversed(), strategy: "first" } });
  });

  test("fallbacks follow the group's own models; aliases of groups are aliases", async () => {
    const router = "router_settings: { fallbacks: [{ z: [a, none] }], model_group_alias: { q: z, r: none } }\n";
    const { config, err } = await imported(models(one, ...places) + router);
    const group = { models: ["azure/gpt", "openai/gpt-5.4"], strategy: "first" };
    expect(config["aliases"]).toEqual({ a: "openai/gpt-5.4", z: group, q: group });
    expect(err).toContain("router_settings.fallbacks[0].z[1]: 'none' is no model of this file that is carried over\n");
    expect(err).toContain("router_settings.model_group_alias.r: names no model of this file that is carried over\n");
  });

  test.each([
    ["30d", { all: { month: 20 } }],
    ["1d", { all: { day: 20 } }],
    [undefined, { all: { prepaid: 20 } }],
  ])("a budget for %p", async (duration, budgets) => {
    const more = duration === undefined ? "" : `, budget_duration: ${duration}`;
    const { config, err } = await imported(`${models(one)}litellm_settings: { max_budget: 20${more} }\n`);
    expect(config["budgets"]).toEqual(budgets);
    expect(err).toBe("");
  });

  test("budgets of providers, and of models for each key", async () => {
    const { config, err } = await imported(`${models(one)}router_settings:
  provider_budget_config:
    openai: { budget_limit: 20, time_period: 1d }
    cohere: { budget_limit: 5, time_period: 1d }
litellm_settings:
  default_key_generate_params:
    max_budget: 3
    model_max_budget:
      a: { budget_limit: 2, time_period: 30d }
      gone: { budget_limit: 2, time_period: 1d }
`);
    expect(config["budgets"]).toEqual({
      models: { "openai/*": { all: { day: 20 } }, "openai/gpt-5.4": { keys: { month: 2 } } },
    });
    for (const words of [
      "provider_budget_config.cohere: is no provider of a model that is carried over",
      "default_key_generate_params.max_budget: keys are made by",
      "model_max_budget.gone: is no model of this file",
    ])
      expect(err).toContain(words);
  });

  test("a model's budget in the older form, which is for all time, and one whose period is neither", async () => {
    const budgets = (value: string) =>
      imported(
        `${models(one)}litellm_settings: { default_key_generate_params: { model_max_budget: { a: ${value} } } }\n`,
      );
    expect((await budgets("4")).config["budgets"]).toEqual({ models: { "openai/gpt-5.4": { keys: { prepaid: 4 } } } });
    const { config, err } = await budgets("{ budget_limit: 4, time_period: 7d }");
    expect(config["budgets"]).toBeUndefined();
    expect(err).toContain("a.time_period: '7d' is neither a day nor a month: the budget is left out");
  });

  test("prices are per million tokens; addresses, headers and time-outs are carried over", async () => {
    const entry =
      "{ model_name: a, litellm_params: { model: openai/own, api_base: os.environ/BASE, api_key: os.environ/OPENAI_API_KEY, organization: org-1, extra_headers: { x-team: red }, timeout: 30 }, model_info: { input_cost_per_token: 0.00000125, output_cost_per_token: 0.00001 } }";
    const { config, err } = await imported(`${models(entry)}litellm_settings: { request_timeout: 120 }\n`);
    expect(config).toMatchObject({
      providers: {
        openai: {
          ...{ base_url: "${BASE}", api_key: "${OPENAI_API_KEY}" },
          headers: { "x-team": "red", "OpenAI-Organization": "org-1" },
          timeouts: { first_byte_seconds: 30 },
        },
      },
      timeouts: { first_byte_seconds: 120 },
      prices: [{ match: "openai/own", input: 1.25, output: 10 }],
    });
    expect(err).toBe("");
  });

  test("globs are globs, and names with a slash are those of the provider", async () => {
    const star = '{ model_name: "gpt-*", litellm_params: { model: "openai/gpt-*" } }';
    const same = "{ model_name: openai/gpt-5.4, litellm_params: { model: openai/gpt-5.4 } }";
    const foreign = "{ model_name: team/own, litellm_params: { model: openai/gpt-5.4 } }";
    const { config, err } = await imported(models(star, same, foreign));
    expect(config["aliases"]).toEqual({ "gpt-*": "openai/gpt-*" });
    expect(err.trim().split("\n")).toEqual([
      "config.yaml:4:7: model_list[2].model_name: can't be a name here: those with '/' are <provider>/<model>. Call openai/gpt-5.4",
    ]);
  });

  test("whatever has no counterpart is listed with its place, and as a comment", async () => {
    const { err, out } = await imported(
      `${models(one.replace("gpt-5.4", "gpt-5.4, rpm: 5, something: 1"))}litellm_settings:\n  cache: true\n  unheard_of: 1\ngeneral_settings:\n  master_key: sk-1\n  database_url: postgres://u:secret@h/d\nfrom_the_future: {}\n`,
    );
    const lines = err.trim().split("\n");
    expect(lines.map((line) => line.split(": ").slice(0, 2).join(": "))).toEqual([
      "config.yaml:2:63: model_list[0].litellm_params.rpm",
      "config.yaml:2:71: model_list[0].litellm_params.something",
      "config.yaml:4:3: litellm_settings.cache",
      "config.yaml:5:3: litellm_settings.unheard_of",
      "config.yaml:7:3: general_settings.master_key",
      "config.yaml:8:3: general_settings.database_url",
      "config.yaml:9:1: from_the_future",
    ]);
    for (const line of lines) expect(out).toContain(`# ${line}\n`);
    expect(out + err).not.toMatch(/sk-1|secret@/);
  });

  test("writes a file that is not there, and replaces one with --force alone", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("config.yaml"), models(one));
    writeFileSync(folder.file("troupe.yaml"), "mine");
    const shell = new Console(folder.path, env);
    const refused = await shell.run("import litellm config.yaml --output troupe.yaml");
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("--force replaces") });
    expect(readFileSync(folder.file("troupe.yaml"), "utf8")).toBe("mine");
    const forced = await shell.run("import litellm config.yaml --output troupe.yaml --force");
    expect(forced).toMatchObject({ code: 0, out: "troupe.yaml: 1 models\n" });
    expect(readFileSync(folder.file("troupe.yaml"), "utf8")).toContain("a: openai/gpt-5.4");
  });

  test.each([
    ["none.yaml", undefined, "can't be read"],
    ["a.yaml", "- 1\n", "is no configuration"],
    ["a.yaml", "a: [", "a.yaml:1:"],
    ["a.yaml", "model_list: [{ model_name: a, litellm_params: { model: replicate/x } }]\n", "no model"],
  ])("%s with %p is refused", async (name, text, message) => {
    using folder = new TempFolder();
    if (text !== undefined) writeFileSync(folder.file(name), text);
    const { code, err } = await new Console(folder.path).run(`import litellm ${name}`);
    expect(code).toBe(1);
    expect(err).toContain(message);
  });
});
