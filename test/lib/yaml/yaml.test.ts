import { describe, expect, test } from "bun:test";
import { Type } from "@sinclair/typebox";
import { formatDiagnostic, YamlSource } from "../../../src/lib/yaml/yaml.ts";

const closed = { additionalProperties: false } as const;
const Schema = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1 })),
    port: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
    level: Type.Optional(Type.Union([Type.Literal("debug"), Type.Literal("info")])),
    providers: Type.Optional(
      Type.Record(
        Type.String(),
        Type.Object({ base_url: Type.String(), api_key: Type.Optional(Type.String()) }, closed),
      ),
    ),
    turns: Type.Optional(
      Type.Array(
        Type.Union([
          Type.Object({ role: Type.Literal("user"), content: Type.String() }, closed),
          Type.Object({ role: Type.Literal("tool"), content: Type.String(), id: Type.String() }, closed),
        ]),
      ),
    ),
  },
  closed,
);

function errorsOf(text: string): string[] {
  const source = new YamlSource(text, "a.yaml");
  const errors = source.errors.length > 0 ? source.errors : source.check(Schema, source.value ?? {});
  return errors.map(formatDiagnostic);
}

describe("a text that can't be read", () => {
  test.each([
    ["name: a\nname: b\n", "a.yaml:2:1: This key stands here for the second time"],
    ["name: a\n---\nname: b\n", "a.yaml:2:1: A second document begins here; there may be only one"],
    ["? [a]\n: 1\n", "a.yaml:1:3: A key must be text"],
    [
      "name: !!binary aGk=\n",
      "a.yaml:1:7: A tag of YAML that is not known here; put the value in quotes if ! belongs to it",
    ],
    [
      "name: !secret x\n",
      "a.yaml:1:7: !secret is a tag of YAML, and none is known here; put the value in quotes if ! belongs to it",
    ],
    ["turns: &t [*t]\n", "a.yaml:1:12: *t holds itself"],
    ["name: x\nproviders: &p\n  a: &q\n    b: *p\n", "a.yaml:4:8: *p holds itself"],
    ["name: *nobody\n", "a.yaml:1:7: Nothing before this is named &nobody"],
    ["name: x\nproviders:\n  <<: 3\n", "a.yaml:3:3: << takes a mapping, or an alias of one"],
    ["port: .inf\n", "a.yaml:1:7: .inf is no number that can be used"],
    [
      "port: 12345678901234567890\n",
      "a.yaml:1:7: 12345678901234567890 has too many digits for a number; put it in quotes if it is text",
    ],
    ["name:\n\t- b\n", "a.yaml:2:1: This line begins with a tab; YAML is indented by spaces alone"],
    ["name: @x\n", "a.yaml:1:7: A value can't begin with @; put it in quotes"],
    [`a: &x 1\nb: [${"*x,".repeat(30)}]`, "a.yaml:1:1: Aliases repeat parts of the file more than 20 times"],
    [
      "a: &a [x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
      "a.yaml:1:1: Aliases repeat parts of the file more than 20 times",
    ],
  ])("%p", (text, diagnostic) => {
    expect(errorsOf(text)).toEqual([diagnostic]);
  });

  test("all its errors are told, in order, and the schema's are not", () => {
    expect(errorsOf("colour: red\nname: a\nname: b\nport: !x 1\n")).toEqual([
      "a.yaml:3:1: This key stands here for the second time",
      "a.yaml:4:7: !x is a tag of YAML, and none is known here; put the value in quotes if ! belongs to it",
    ]);
  });

  test("brackets without end neither crash nor fill the answer", () => {
    const errors = errorsOf("[".repeat(20_000));
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatch(/^a\.yaml:1:\d+: This is nested too deeply$/);
  });

  test("what is too large is not even parsed", () => {
    const { errors } = new YamlSource(`name: ${"x".repeat(100)}`, "a.yaml", { maxLength: 50 });
    expect(errors.map(formatDiagnostic)).toEqual(["a.yaml:1:1: is larger than 50 characters"]);
  });
});

describe("a value that does not fit", () => {
  test("every error is told at once, each at its place", () => {
    const text = `
name: ""
prot: 1
port: 70000
level: loud
providers:
  mycorp:
    base_ulr: https://a.example
  other: {base_url: 3}
turns:
  - {role: user, content: 1}
  - {role: system, content: x}
  - {role: tool, content: x}
`;
    expect(errorsOf(text).toSorted()).toEqual(
      [
        "a.yaml:2:7: name: must not be empty",
        "a.yaml:3:1: prot: is not a known key; did you mean 'port'?",
        "a.yaml:4:7: port: must be an integer from 0 to 65535",
        'a.yaml:5:8: level: must be one of "debug", "info"',
        "a.yaml:7:3: providers.mycorp.base_url: is required",
        "a.yaml:8:5: providers.mycorp.base_ulr: is not a known key; did you mean 'base_url'?",
        "a.yaml:9:21: providers.other.base_url: must be a string",
        "a.yaml:11:27: turns[0].content: must be a string",
        'a.yaml:12:12: turns[1].role: must be one of "user", "tool"',
        "a.yaml:13:5: turns[2].id: is required",
      ].toSorted(),
    );
  });

  test("a key that resembles none is answered with those that exist", () => {
    expect(errorsOf("zzz: 1\n")).toEqual([
      "a.yaml:1:1: zzz: is not a known key; known here: name, port, level, providers, turns",
    ]);
  });

  test("keys that objects are born with are keys like others", () => {
    expect(errorsOf("__proto__: {name: x}\n")).toEqual([
      "a.yaml:1:1: __proto__: is not a known key; known here: name, port, level, providers, turns",
    ]);
    expect(errorsOf("constructor: 1\n")[0]).toStartWith("a.yaml:1:1: constructor: is not a known key");
  });
});

describe("a value that fits", () => {
  test("is given with merges resolved", () => {
    const text = "providers:\n  a: &a {base_url: u, api_key: k}\n  b:\n    <<: *a\n    api_key: l\n";
    expect(errorsOf(text)).toEqual([]);
    const value = new YamlSource(text, "a.yaml").value as { providers: unknown };
    expect(value.providers).toEqual({ a: { base_url: "u", api_key: "k" }, b: { base_url: "u", api_key: "l" } });
  });

  test.each(["", "# nothing yet\n", "---\n"])("an empty text (%p) has no value", (text) => {
    const { value, errors } = new YamlSource(text, "a.yaml");
    expect([value ?? null, errors]).toEqual([null, []]);
  });
});

test("a place is found through aliases and merges; an absent one is where it would belong", () => {
  const text = "a: &a\n  x: 1\n  y:\nb:\n  <<: *a\n  z: [10, {k: 20}]\nc: *a\n";
  const source = new YamlSource(text, "a.yaml");
  expect(source.errors).toEqual([]);
  expect(source.locate([])).toEqual({ line: 1, column: 1 });
  expect(source.locate(["b", "z", 1, "k"])).toEqual({ line: 6, column: 15 });
  expect(source.locateKey(["b", "z", 1, "k"])).toEqual({ line: 6, column: 12 });
  expect(source.locate(["b", "x"])).toEqual({ line: 2, column: 6 });
  expect(source.locate(["c", "x"])).toEqual({ line: 2, column: 6 });
  expect(source.locate(["b", "missing", "deeper"])).toEqual({ line: 4, column: 1 });
  expect(source.locate(["b", "z", 7])).toEqual({ line: 6, column: 3 });
  expect(source.locate(["nothing"])).toEqual({ line: 1, column: 1 });
  expect(source.diagnosticAt(["b", "z", 0], "is odd")).toEqual({
    file: "a.yaml",
    line: 6,
    column: 7,
    path: "b.z[0]",
    message: "is odd",
  });
});

test("a place outside any file is told without line and column", () => {
  const diagnostic = { file: "environment", line: 0, column: 0, path: "TROUPE_PORT", message: "must be an integer" };
  expect(formatDiagnostic(diagnostic)).toBe("environment: TROUPE_PORT: must be an integer");
});
