import { expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import { createdByDefault } from "../../../src/personas/file/created.ts";
import { type Persona, parsePersona } from "../../../src/personas/persona.ts";
import { Personas, toModel } from "../../../src/personas/versions/registry.ts";
import { Model } from "../../../src/protocols/models.ts";
import type { Tier } from "../../../src/protocols/tiers.ts";

const persona = (id: string, tier: Tier): Persona => ({
  id,
  version: "0123456789ab",
  description: `About ${id}.`,
  ownedBy: id.split("/")[0]!,
  tier,
  created: 1_700_000_000,
  targets: ["builtin/echo"],
  system: [],
  variables: new Map(),
  examples: [],
  defaults: {},
  limits: {},
  options: {},
  stop: [],
  tools: [],
});

const all = [persona("b/pro", "pro"), persona("a/top", "enterprise"), persona("b/free", "free")];
const ids = (list: readonly Persona[]) => list.map(({ id }) => id);

test("finds by exact id and lists in order of ids", () => {
  const personas = new Personas(all);
  expect(personas.find("b/pro")).toBe(all[0]!);
  expect(personas.find("B/pro")).toBeUndefined();
  expect(personas.find("constructor")).toBeUndefined();
  expect(ids(personas.list())).toEqual(["a/top", "b/free", "b/pro"]);
});

test("a persona above the key's tier does not exist", () => {
  const personas = new Personas(all);
  expect(ids(personas.visibleTo("free").list())).toEqual(["b/free"]);
  expect(ids(personas.visibleTo("pro").list())).toEqual(["b/free", "b/pro"]);
  expect(ids(personas.visibleTo("enterprise").list())).toEqual(["a/top", "b/free", "b/pro"]);
  expect(personas.visibleTo("pro").find("a/top")).toBeUndefined();
  expect(personas.visibleTo("pro").find("b/pro")).toBe(all[0]!);
});

test("a replacement is whole, and a view taken before it stays as it was", () => {
  const personas = new Personas(all);
  const before = personas.visibleTo("pro");
  personas.replace([persona("c/new", "free")]);
  expect(ids(personas.list())).toEqual(["c/new"]);
  expect(personas.find("b/pro")).toBeUndefined();
  expect(personas.visibleTo("free").find("c/new")?.id).toBe("c/new");
  expect(ids(before.list())).toEqual(["b/free", "b/pro"]);
});

test("the version is that of what is in service, however its fields are ordered", () => {
  const written = (options: string, id = "b/pro") => {
    const text = `description: A guide.\nmodel: builtin/echo\nsystem: You guide.\noptions: ${options}\n`;
    const parsed = parsePersona(text, "", id);
    if ("errors" in parsed) throw new Error("it is valid");
    return parsed.persona;
  };
  const versionOf = (...list: readonly Persona[]) => new Personas(list).version;
  const version = versionOf(written('{"a": {"b": 1, "c": [2]}, "d": 3}'));
  expect(version).toMatch(/^[0-9a-f]{12}$/);
  expect(versionOf(written('{"d": 3, "a": {"c": [2], "b": 1}}'))).toBe(version);
  const others = ['{"a": {"b": 1, "c": [2]}, "d": 4}', '{"a": {"b": 1, "c": [2]}, "d": 3, "__proto__": {}}', "{}"];
  for (const other of others) expect(versionOf(written(other))).not.toBe(version);
  expect(versionOf(written("{}"), persona("a/top", "pro"))).not.toBe(versionOf(written("{}")));
  expect(versionOf(written("{}", "b/other"))).not.toBe(versionOf(written("{}")));

  const personas = new Personas([written("{}")]);
  const before = personas.version;
  personas.replace([written('{"d": 3}')]);
  expect(personas.version).not.toBe(before);
});

test("none at all is a registry too", () => {
  expect(new Personas().list()).toEqual([]);
});

test("a persona as a model of the public format", () => {
  const model = toModel(persona("b/pro", "pro"));
  expect(model).toEqual({
    id: "b/pro",
    object: "model",
    created: 1_700_000_000,
    owned_by: "b",
    name: "pro",
    description: "About b/pro.",
    tier: "pro",
  });
  expect(Value.Check(Model, model)).toBe(true);
});

test("the list of models has a persona's greeting and tags, and neither its avatar nor its card", () => {
  const text = `description: Greets.
model: builtin/eliza
system: Hi.
greeting: Good morning!
tags: [friendly]
avatar: greeter.png
card: { spec: chara_card_v3 }
`;
  const parsed = parsePersona(text, "greeter.yaml", "acme/greeter");
  if ("errors" in parsed) throw new Error("the persona is invalid");
  expect(toModel(parsed.persona)).toEqual({
    id: "acme/greeter",
    object: "model",
    created: createdByDefault,
    owned_by: "acme",
    name: "greeter",
    description: "Greets.",
    tier: "free",
    greeting: "Good morning!",
    tags: ["friendly"],
  });
});
