import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { configJsonSchema } from "../../../src/config/schema.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

test("config print shows what applies and where it came from, without secrets", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), "log:\n  level: warn\n");
  const shell = new Console(folder.path, { OPENAI_API_KEY: "sk-secret", TROUPE_LOGLEVEL: "debug" });
  const { code, out, err } = await shell.run("config print --port 9");
  expect(out).toContain("  # --port\n  - address: 127.0.0.1:9\n");
  expect(out).toContain("  level: warn # troupe.yaml:2:10\n");
  expect(out).toContain('    api_key: "***" # OPENAI_API_KEY\n');
  expect(out).toContain("    base_url: https://api.openai.com/v1\n");
  expect(out).not.toContain("sk-secret");
  expect(err).toBe("warning: environment: TROUPE_LOGLEVEL: is not a known variable; did you mean TROUPE_LOG_LEVEL?\n");
  expect(code).toBe(0);
});

test("config print --json holds the same, and where each value came from", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), "log:\n  level: warn\ntrusted_proxies: [10.0.0.0/8]\n");
  const shell = new Console(folder.path, { OPENAI_API_KEY: "sk-secret", TROUPE_TIERS_FREE: "3" });
  const { out } = await shell.run("config print --json --port 9");
  const { origins, ...values } = JSON.parse(out);
  expect(values).toMatchObject({
    listen: [{ address: "127.0.0.1:9", surfaces: ["orchestrator", "gateway", "admin"] }],
    data: folder.file("data"),
    providers: { openai: { api_key: "***" } },
  });
  expect(origins).toEqual({
    listen: { where: "command line", name: "--port" },
    "tiers.free": { where: "environment", name: "TROUPE_TIERS_FREE" },
    trusted_proxies: { where: "file", name: "troupe.yaml:3:18" },
    "log.level": { where: "file", name: "troupe.yaml:2:10" },
    "providers.openai.api_key": { where: "environment", name: "OPENAI_API_KEY" },
  });
  expect(out).not.toContain("sk-secret");
});

test("config schema prints the JSON Schema", async () => {
  using folder = new TempFolder();
  const { out } = await new Console(folder.path).run("config schema");
  expect(JSON.parse(out)).toEqual(configJsonSchema());
});

test("config init writes a file that is valid, whose first line leads editors to its schema, and replaces none", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  expect((await shell.run("config init")).code).toBe(0);
  const text = readFileSync(folder.file("troupe.yaml"), "utf8");
  const [, schema] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)!;
  expect(JSON.parse(readFileSync(folder.file(schema!), "utf8"))).toEqual(configJsonSchema());
  expect(await shell.run("check")).toMatchObject({ code: 0, err: "" });
  // What stands in comments is right, too.
  writeFileSync(folder.file("troupe.yaml"), text.replaceAll(/^# (?=providers|aliases|budgets| {2})/gm, ""));
  const whole = await new Console(folder.path, { MYCORP_API_KEY: "k", OPENAI_API_KEY: "k" }).run("check");
  expect([whole.code, whole.err]).toEqual([0, ""]);
  const again = await shell.run("config init");
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("troupe.yaml exists; nothing was written")]);
  expect((await shell.run("config init --force")).code).toBe(0);
  expect(readFileSync(folder.file("troupe.yaml"), "utf8")).toBe(text);
});
