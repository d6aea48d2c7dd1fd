/** `troupe check` and `doctor` name models whose price is not known, where they stand. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { Config } from "../../src/config/config.ts";
import { openStoreFor } from "../../src/store/open.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

const persona = (models: string) => `description: Answers\ntier: free\nmodel: ${models}\nsystem: You answer.\n`;

test("personas, aliases and the models of a provider without a price, with the model that is asked instead", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  writeFileSync(folder.file("personas/acme/clerk.yaml"), persona("[openai/gpt-97, openai/gpt-4o]"));
  writeFileSync(folder.file("personas/acme/lost.yaml"), persona("openai/gpt-97"));
  writeFileSync(
    folder.file("troupe.yaml"),
    "aliases:\n  ours: openai/gpt-98\n  'gpt-*': openai/gpt-*\n  mine: openai/gpt-99\nprices:\n  - {match: openai/gpt-99, input: 1, output: 2}\n",
  );
  const shell = new Console(folder.path, { OPENAI_API_KEY: "sk-none" });
  const { code, err, out } = await shell.run("check");
  expect({ code, out }).toMatchObject({ code: 0 });
  const words = (id: string, then: string) =>
    `'${id}' has no price: what it costs is unknown, and ${then}. Give it a row in 'prices'`;
  const refuses = "a budget refuses its calls";
  const lines = err.split("\n").filter((line) => line.includes("has no price"));
  expect(lines.toSorted()).toEqual(
    [
      `warning: ${folder.file("personas/acme/clerk.yaml")}:3:9: model[0]: ${words("openai/gpt-97", "where a budget applies, 'openai/gpt-4o' is asked in its place")}`,
      `warning: ${folder.file("personas/acme/lost.yaml")}:3:8: model: ${words("openai/gpt-97", refuses)}`,
      `warning: troupe.yaml:2:9: aliases.ours: ${words("openai/gpt-98", refuses)}`,
    ].toSorted(),
  );
  const { out: found } = await shell.run("doctor --json");
  const checks = (JSON.parse(found) as { checks: { what: string; found: string }[] }).checks;
  expect(checks.filter(({ what }) => what === "prices").map((one) => one.found)).toEqual([
    expect.stringMatching(/^of 20\d\d-\d\d-\d\d, \d+ days? old/),
    ...[1, 2, 3].map(() => expect.stringContaining("has no price")),
  ]);
});

test("nothing is said of providers that are not set up", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), "aliases: {ours: openai/gpt-98}\n");
  expect((await new Console(folder.path).run("check")).err).not.toContain("has no price");
});

test("models that were called of late are named too, and for which of the known ones those nobody knows are taken", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  writeFileSync(folder.file("personas/acme/clerk.yaml"), persona("openai/gpt-97"));
  const shell = new Console(folder.path, { OPENAI_API_KEY: "sk-none", ANTHROPIC_API_KEY: "sk-none" });
  await shell.run("keys create a");
  const at = Date.now();
  const called = ["openai/gpt-97", "openai/gpt-98", "anthropic/claude-opus-6", "anthropic/claude-opus-4-1", "gone/x"];
  const lines = called.map((id, number) => {
    const [provider = "", upstreamModel = ""] = id.split("/");
    return ledgerLine(`req_${number}`, { at: at - 60_000 - number, provider, upstreamModel, cost: null });
  });
  const old = ledgerLine("req_old", { at: at - 40 * 86_400_000, provider: "openai", upstreamModel: "gpt-99" });
  {
    const store = await openStoreFor({ data: folder.file("data") } as Config);
    await store.ledger.append([...lines, old]);
    await store.close();
  }
  const { err, out } = await shell.run("check");
  const unpriced = (id: string) =>
    `warning: called within 30 days: '${id}' has no price: what it costs is unknown, and a budget refuses its calls. Give it a row in 'prices'`;
  const found = err.split("\n").filter((line) => line.includes("called within"));
  expect(found.filter((line) => line.includes("no price")).toSorted()).toEqual([
    unpriced("anthropic/claude-opus-6"),
    unpriced("openai/gpt-98"),
  ]);
  expect(found.filter((line) => line.includes("ended on"))).toEqual([
    expect.stringContaining("'anthropic/claude-opus-4-1' ended on 2026-"),
  ]);
  expect(out).toMatch(
    /^facts +of .*; 3 of the models in use are assumed: openai\/gpt-97 as gpt-\S+, .*anthropic\/claude-opus-6 as claude-opus-5-5/m,
  );
  const { out: diagnosed } = await shell.run("doctor --json");
  const { checks } = JSON.parse(diagnosed) as { checks: { what: string; found: string }[] };
  const of = (what: string) => checks.filter((one) => one.what === what).map((one) => one.found);
  expect(of("prices").filter((one) => one.startsWith("called within"))).toHaveLength(2);
  expect(of("models").filter((one) => one.startsWith("called within"))).toHaveLength(1);
  expect(of("facts").join()).toContain("3 of the models in use are assumed");
});
