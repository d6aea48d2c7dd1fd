import { expect, test } from "bun:test";
import { fileFrom } from "../../src/config/as-file.ts";
import { printConfig } from "../../src/config/print.ts";
import { configOf, loaded } from "./loading.ts";

const yaml = `listen:
  - {address: "[::1]:80", surfaces: [gateway], tls: {cert: c, key: k}}
  - unix:/run/s
log: {level: warn}
trusted_proxies: [10.0.0.0/8]
providers:
  my-corp:
    dialect: openai
    base_url: https://llm.example/v1
    api_key: sk-secret
    headers: {x-team: red-team}
    model_rules: [{match: "o*", reasoning: true}]
    timeouts: {idle_seconds: 0.5}
    unsupported_tools: drop
    upstream_store: true
`;
const files = { "/srv/c": "", "/srv/k": "" };
const env = { GEMINI_API_KEY: "sk-secret", TROUPE_TIERS_FREE: "3" };

test("what is printed gives the same configuration again, but for the secrets", () => {
  const given = loaded({ yaml, files, env });
  const again = configOf({ yaml: printConfig(given), files });
  expect(again.providers.map(({ apiKey }) => apiKey)).toEqual(["***", "***"]);
  expect(again).toEqual({
    ...given.config,
    providers: given.config.providers.map((provider) => ({
      ...provider,
      apiKey: "***",
      headers: Object.fromEntries(Object.keys(provider.headers).map((name) => [name, "***"])),
    })),
  });
});

test("secrets and headers are hidden, in YAML and in JSON", () => {
  const given = loaded({ yaml, files, env });
  for (const text of [printConfig(given), JSON.stringify(fileFrom(given.config))]) {
    expect(text).not.toContain("sk-secret");
    expect(text).not.toContain("red-team");
    expect(text.match(/"\*\*\*"/g)).toHaveLength(3);
  }
});

test("each value says where it came from, unless it is the default", () => {
  const lines = printConfig(loaded({ yaml, files, env })).split("\n");
  expect(lines.slice(0, 3)).toEqual(["listen:", "  # troupe.yaml:2:3", '  - address: "[::1]:80"']);
  expect(lines).toContain("  level: warn # troupe.yaml:4:14");
  expect(lines).toContain("  free: 3 # TROUPE_TIERS_FREE");
  expect(lines).toContain("  pro: 100");
  expect(lines).toContain('    api_key: "***" # GEMINI_API_KEY');
});

test("of the coordination's address neither user nor password is shown", () => {
  const given = loaded({
    yaml: "{store: 'postgres://db/troupe', coordination: 'rediss://red-user:red-word@cache:6380/2'}",
  });
  for (const text of [printConfig(given), JSON.stringify(fileFrom(given.config))]) {
    expect(text).not.toContain("red-");
    expect(text).toContain("rediss://***@cache:6380/2");
  }
});

test("of a database's address neither user nor password is shown, nor what follows its name", () => {
  const url = "postgres://scarlet-user:scarlet-word@db:5433/troupe?sslmode=require&sslpassword=scarlet";
  for (const given of [loaded({ yaml: `store: {url: "${url}", pool: 3}` }), loaded({ env: { TROUPE_STORE: url } })]) {
    for (const text of [printConfig(given), JSON.stringify(fileFrom(given.config))]) {
      expect(text).not.toContain("scarlet");
      expect(text).toContain("postgres://***@db:5433/troupe");
    }
    const again = configOf({ yaml: printConfig(given) });
    expect({ ...again.store!, url }).toEqual(given.config.store!);
  }
});
