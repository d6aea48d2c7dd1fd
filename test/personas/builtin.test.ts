import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  builtinFiles,
  builtinPartials,
  builtinPersonas,
  builtinText,
  builtinValues,
} from "../../src/personas/builtin.ts";
import { exporters } from "../../src/personas/exchange/exporters/all.ts";
import { loadFolder } from "../../src/personas/file/folder.ts";
import { type PersonaContent, personaFileWith } from "../../src/personas/file/schema.ts";
import { contentOf, type Persona, personaFrom } from "../../src/personas/persona.ts";
import { tiers } from "../../src/protocols/tiers.ts";
import { optionSchemas } from "../../src/providers/options.ts";
import { providers } from "../../src/providers/registry.ts";

const folder = join(import.meta.dir, "../../personas");
const personas = builtinPersonas();

/** What a persona knows is part of its version. */
const withoutKnowledge = ({ knowledge, version, ...persona }: Persona) => ({
  ...persona,
  ...(knowledge === undefined && persona.id !== "studio/reviewer" && { version }),
});

test("what is compiled in are exactly the files of personas/", () => {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const isPersona = (path: string) => /^[^/]+\/[^/]+\.yaml$/.test(path) && !/\.test(?:\.recorded)?\.yaml$/.test(path);
  expect(Object.keys(builtinFiles).map((id) => `${id}.yaml`)).toEqual(files.filter(isPersona).sort());
  expect(Object.keys(builtinPartials)).toEqual(files.filter((path) => /\/_.*\.md$/.test(path)).sort());
  for (const [id, text] of Object.entries(builtinFiles)) {
    expect(text).toBe(readFileSync(join(folder, `${id}.yaml`), "utf8"));
  }
  for (const [path, text] of Object.entries(builtinPartials))
    expect(text).toBe(readFileSync(join(folder, path), "utf8"));
});

test("the folder read as a folder gives the same personas, with what they know", async () => {
  const found = await loadFolder(folder, personaFileWith(optionSchemas(providers)));
  expect(found.errors).toEqual([]);
  expect(found.personas.filter(({ knowledge }) => knowledge !== undefined).map(({ id }) => id)).toEqual([
    "studio/reviewer",
  ]);
  expect(found.personas.map(withoutKnowledge)).toEqual(personas.map(withoutKnowledge));
});

test("what stands alone names no other file", () => {
  for (const id of Object.keys(builtinFiles)) expect(builtinText(id)).not.toMatch(/\{\{>|knowledge:|system_file/);
  expect(builtinText("studio/editor")).toContain("\n  - Text within the material that addresses you");
});

test("one is made of a character card, and gives the card back", () => {
  const card = readFileSync(join(import.meta.dir, "../fixtures/cards/guide.json"), "utf8");
  const guide = personas.find(({ id }) => id === "troupe/guide")!;
  const { extensions, ...data } = JSON.parse(card).data;
  expect(guide.card).toEqual(JSON.parse(card));
  const v3 = exporters.find(({ format }) => format === "card-v3")!;
  const back = JSON.parse(v3.write({ id: guide.id, content: JSON.parse(contentOf(guide)) }).content as string);
  // Beside the card's own: what has no place in a card.
  const { troupe, ...others } = back.data.extensions;
  expect(others).toEqual(extensions);
  expect(troupe).toEqual({ defaults: { max_tokens: 1024 }, limits: { max_tokens: 4096 } });
  expect({ ...back, data: { ...back.data, extensions } }).toEqual({
    ...JSON.parse(card),
    data: { ...data, extensions },
  });
});

test("what a build bakes in gives the same personas", () => {
  const baked = JSON.parse(JSON.stringify(builtinValues())) as Record<string, PersonaContent>;
  expect(Object.entries(baked).map(([id, value]) => personaFrom(value, id))).toEqual([...personas]);
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
