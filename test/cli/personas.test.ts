import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { builtinFiles } from "../../src/personas/builtin.ts";
import { personaJsonSchema } from "../../src/personas/schema.ts";
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

describe("personas show", () => {
  test("prints the file as it is", async () => {
    using folder = withFiles({ "my/hello": good });
    const shell = new Console(folder.path);
    expect(await shell.run("personas show my/hello")).toEqual({ code: 0, out: good, err: "" });
    expect((await shell.run("personas show troupe/guide --personas no")).code).toBe(1);
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
      out: `1 personas in ${folder.file("personas")}: no errors\n`,
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
