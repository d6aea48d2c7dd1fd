import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { builtinFiles, builtinPersonas, builtinValues } from "../../src/personas/builtin.ts";
import { loadFolder } from "../../src/personas/folder.ts";
import { personaFrom } from "../../src/personas/persona.ts";
import { type PersonaContent, personaFileWith } from "../../src/personas/schema.ts";
import { tiers } from "../../src/protocols/tiers.ts";
import { optionSchemas } from "../../src/providers/options.ts";
import { providers } from "../../src/providers/registry.ts";

const folder = join(import.meta.dir, "../../personas");
const personas = builtinPersonas();

test("what is compiled in are exactly the files of personas/", () => {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.includes("/"));
  expect(Object.keys(builtinFiles).map((id) => `${id}.yaml`)).toEqual(files.sort());
  for (const [id, text] of Object.entries(builtinFiles)) {
    expect(text).toBe(readFileSync(join(folder, `${id}.yaml`), "utf8"));
  }
});

test("the folder read as a folder gives the same personas", async () => {
  expect(await loadFolder(folder, personaFileWith(optionSchemas(providers)))).toEqual({
    personas,
    errors: [],
    paths: expect.any(Map),
  });
});

test("what a build bakes in gives the same personas", () => {
  const baked = JSON.parse(JSON.stringify(builtinValues())) as Record<string, PersonaContent>;
  expect(Object.entries(baked).map(([id, value]) => personaFrom(value, id))).toEqual(personas);
});

test("two namespaces, every tier, every feature", () => {
  expect(personas).toHaveLength(8);
  expect(new Set(personas.map(({ ownedBy }) => ownedBy))).toEqual(new Set(["studio", "troupe"]));
  expect(new Set(personas.map(({ tier }) => tier))).toEqual(new Set(tiers));
  const used = new Set(
    personas.flatMap((persona) =>
      Object.entries({ ...persona, ...persona.options })
        .filter(([, value]) => (Array.isArray(value) ? value.length > 0 : value instanceof Map ? value.size > 0 : true))
        .map(([key]) => key),
    ),
  );
  const features = ["variables", "examples", "tools", "responseFormat", "store", "metadata"];
  for (const feature of [...features, "thinking_budget", "include_thoughts", "system_cache_control"]) {
    expect(used).toContain(feature);
  }
});

test.each(personas)("$id prefers models of several providers and answers without any", ({ targets, limits }) => {
  const providers = targets.map((target) => target.split("/")[0]);
  expect(new Set(providers).size).toBe(5);
  expect(targets.at(-1)).toBe("builtin/eliza");
  expect(limits.max_tokens ?? limits.max_completion_tokens).toBeGreaterThan(0);
});
