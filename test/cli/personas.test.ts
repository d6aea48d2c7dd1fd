import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { builtinFiles, builtinText } from "../../src/personas/builtin.ts";
import { personaJsonSchema } from "../../src/personas/file/schema.ts";
import { optionSchemas } from "../../src/providers/options.ts";
import { providers } from "../../src/providers/registry.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

const good =
  "description: Says hello.\ntier: pro\nmodel: [openai/gpt-5.4, builtin/echo]\nsystem: Hello, {{name}}.\nvariables: {name: {default: you}}\n";
const remote = "description: Elsewhere.\nmodel: openai/gpt-5.4\nsystem: Hi.\n";
const bad = "description: Bad.\nmodle: openai/x\nmodel: nowhere\nsystem: Hi.\n";

function withFiles(files: Record<string, string>): TempFolder {
  const folder = new TempFolder();
  for (const [id, text] of Object.entries(files)) {
    mkdirSync(join(folder.path, "personas", id, ".."), { recursive: true });
    writeFileSync(folder.file(`personas/${id}.yaml`), text);
  }
  return folder;
}

describe("personas list", () => {
  test("names those in the executable, with the model each would use", async () => {
    using folder = new TempFolder();
    const { code, out } = await new Console(folder.path).run("personas list");
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^ID +TIER +MODEL +DESCRIPTION$/);
    expect(lines.slice(1).map((line) => line.split(" ")[0]!)).toEqual(Object.keys(builtinFiles).toSorted());
    expect(lines.slice(1).every((line) => line.includes("builtin/eliza"))).toBe(true);
    expect(code).toBe(0);
  });

  test("says which of the executable's give way to those of a folder, which are shown to be copied all the same", async () => {
    using folder = withFiles({ "my/hello": good, "troupe/guide": good });
    const shell = new Console(folder.path);
    const { code, err } = await shell.run("personas list");
    const hidden = Object.keys(builtinFiles).filter((id) => id !== "troupe/guide");
    expect(err).toStartWith(
      `These are of ${folder.file("personas")}, in place of those in the executable (${hidden.join(", ")})`,
    );
    expect(code).toBe(0);
    expect(await shell.run("personas show studio/editor")).toMatchObject({
      code: 0,
      out: builtinText("studio/editor"),
      err: expect.stringContaining("not served"),
    });
  });

  test("leaves those in the executable in place of a folder that holds none", async () => {
    using folder = withFiles({ "my/bad": bad });
    const { code, out, err } = await new Console(folder.path).run("personas list");
    expect(out).toContain("troupe/guide");
    expect(err).toContain("modle");
    expect(code).toBe(1);
  });

  test("names those of the folder, and what is wrong with the others", async () => {
    using folder = withFiles({ "my/hello": good, "my/bad": bad, "my/far": remote });
    const shell = new Console(folder.path);
    const { code, out, err } = await shell.run("personas list --json");
    expect(JSON.parse(out)).toEqual([
      { id: "my/far", tier: "free", model: null, description: "Elsewhere." },
      { id: "my/hello", tier: "pro", model: "builtin/echo", description: "Says hello." },
    ]);
    expect(err).toContain(
      `${folder.file("personas/my/bad.yaml")}:2:1: modle: is not a known key; did you mean 'model'?\n`,
    );
    expect(code).toBe(1);
    shell.env["OPENAI_API_KEY"] = "k";
    expect((await shell.run("personas list --json")).out).toContain('"model": "openai/gpt-5.4"');
  });
});

test("a key at the wrong place is told where it belongs", async () => {
  const text = "description: d\nmodel: builtin/echo\n";
  const keys = [
    "temperature: 1",
    "prompt: Hi",
    "messages: []",
    "thinking_budget: 5",
    "name: x",
    "stream: true",
    "colour: red",
  ];
  using folder = withFiles({ "my/a": `${text}${keys.join("\n")}\n` });
  const { err } = await new Console(folder.path).run("personas check");
  expect(err.replaceAll(folder.file("personas/my/"), "").trimEnd().split("\n")).toEqual([
    "a.yaml:1:1: system: is required",
    "a.yaml:3:1: temperature: belongs in defaults, or in limits for the most a caller may ask",
    "a.yaml:4:1: prompt: is called system here",
    "a.yaml:5:1: messages: is the caller's to say; turns that show how to answer are examples",
    "a.yaml:6:1: thinking_budget: belongs in options",
    "a.yaml:7:1: name: is said by the file's path: <namespace>/<name>.yaml",
    "a.yaml:8:1: stream: is the caller's to say",
    "a.yaml:9:1: colour: is not a known key",
  ]);
});

describe("personas show", () => {
  test("prints the file as it is", async () => {
    using folder = withFiles({ "my/hello": good });
    const shell = new Console(folder.path);
    expect(await shell.run("personas show my/hello")).toEqual({ code: 0, out: good, err: "" });
    expect((await shell.run("personas show my/hello --personas no")).code).toBe(1);
  });

  test("prints one of those in the executable", async () => {
    using folder = new TempFolder();
    const { out } = await new Console(folder.path).run("personas show troupe/guide");
    expect(out).toBe(readFileSync(join(import.meta.dir, "../../personas/troupe/guide.yaml"), "utf8"));
  });

  test("prints what it comes to", async () => {
    using folder = withFiles({ "my/hello": good });
    const { out } = await new Console(folder.path).run("personas show my/hello --json");
    expect(JSON.parse(out)).toMatchObject({
      id: "my/hello",
      owned_by: "my",
      model: "builtin/echo",
      models: ["openai/gpt-5.4", "builtin/echo"],
      variables: { name: { default: "you" } },
    });
  });

  test("guesses who was meant", async () => {
    using folder = withFiles({ "my/hello": good });
    expect(await new Console(folder.path).run("personas show my/helo")).toEqual({
      code: 1,
      out: "",
      err: `error: There is no persona 'my/helo' in ${folder.file("personas")}. Did you mean 'my/hello'?\n`,
    });
  });
});

describe("personas check", () => {
  test("finds models of providers that there are not", async () => {
    const text = (model: string) => `description: d\nmodel: ${model}\nsystem: Hi.\n`;
    using folder = withFiles({
      "my/one": text("opnai/gpt-5.4"),
      "my/two": text("[mycorp/a, elsewhere/b, off/c, builtin/echo]"),
    });
    writeFileSync(
      folder.file("troupe.yaml"),
      "providers: {off: {dialect: openai, enabled: false}, mycorp: {dialect: openai, base_url: 'http://x/v1'}}\n",
    );
    const shell = new Console(folder.path);
    const { code, err } = await shell.run("personas check");
    expect(err.replaceAll(folder.file("personas/my/"), "").trimEnd().split("\n")).toEqual([
      "one.yaml:2:8: model: 'opnai' is no provider; did you mean 'openai'?",
      "two.yaml:2:19: model[1]: 'elsewhere' is no provider, neither built in nor in the configuration",
      "warning: my/one: none of its models has a provider that is set up",
    ]);
    expect(code).toBe(1);
    expect(await shell.run("check")).toMatchObject({ code: 1, err: expect.stringContaining("did you mean 'openai'?") });
  });

  test("takes files whatever the case of their ending", async () => {
    using folder = withFiles({});
    mkdirSync(folder.file("personas/my"), { recursive: true });
    for (const name of ["a.YAML", "b.Yml"]) writeFileSync(folder.file(`personas/my/${name}`), good);
    const shell = new Console(folder.path);
    expect((await shell.run("personas check")).out).toBe(`2 personas in ${folder.file("personas")}: no errors\n`);
    expect((await shell.run("personas show my/a")).out).toBe(good);
  });

  test("tells every error of the folder, and who can't answer", async () => {
    using folder = withFiles({ "my/hello": good, "my/bad": bad, "my/far": remote });
    const shell = new Console(folder.path);
    const { code, out, err } = await shell.run("personas check");
    const file = folder.file("personas/my/bad.yaml");
    expect(err.trimEnd().split("\n")).toEqual([
      `${file}:2:1: modle: is not a known key; did you mean 'model'?`,
      `${file}:3:8: model: must be <provider>/<model>, e.g. openai/gpt-5.4-mini`,
      "warning: my/far: none of its models has a provider that is set up",
    ]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    const json = JSON.parse((await shell.run("personas check --json")).out);
    expect(json).toMatchObject({ personas: 2, unreachable: ["my/far"] });
    expect(json.errors).toHaveLength(2);
  });

  test("takes another folder, and is content with a good one", async () => {
    using folder = withFiles({ "my/hello": good });
    const shell = new Console(folder.file("personas/my"));
    expect(await shell.run("personas check ..")).toEqual({
      code: 0,
      out: `1 persona in ${folder.file("personas")}: no errors\n`,
      err: "",
    });
    expect((await shell.run("personas check nowhere")).code).toBe(1);
  });
});

test("personas schema prints the JSON Schema", async () => {
  using folder = new TempFolder();
  const { out } = await new Console(folder.path).run("personas schema");
  expect(JSON.parse(out)).toEqual(personaJsonSchema(optionSchemas(providers)));
});
