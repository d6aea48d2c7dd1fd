import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

test("personas new writes a persona that passes the checker, from flags alone", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  const line = [
    "personas",
    "new",
    "acme/helper",
    "--description",
    "Helps.",
    "--system",
    "You help.",
    "--model",
    "openai/gpt-5.4,builtin/eliza",
  ];
  expect(await shell.run(line)).toEqual({
    code: 0,
    out: "acme/helper: personas/acme/helper.yaml\n",
    err: "Try it: troupe chat acme/helper\n",
  });
  expect(
    readFileSync(folder.file("personas/acme/helper.yaml"), "utf8"),
  ).toBe(`# yaml-language-server: $schema=../persona.schema.json
description: Helps.

model: [openai/gpt-5.4, builtin/eliza]

system: You help.
`);
  expect((await shell.run("personas check")).code).toBe(0);
  expect(await shell.run(line)).toMatchObject({ code: 1, err: expect.stringContaining("exists; nothing was written") });
});

test("personas new asks for the rest at a terminal, again where an answer is wrong", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path, {}, true);
  shell.typed = ["Acme", "acme/helper", "", "Helps.", "gpt", "openai/gpt-5.4", "", "You help.", "Be {{kind}}.", ""];
  const { code, err } = await shell.run("personas new");
  expect(err).toContain("personas/acme/helper.yaml");
  expect(err).toContain("uses {{kind}}, which variables does not declare");
  expect(code).toBe(1);
  shell.typed = ["Helps.", "", "You help.", "Be kind.", ""];
  expect((await shell.run("personas new acme/helper")).code).toBe(0);
  const text = readFileSync(folder.file("personas/acme/helper.yaml"), "utf8");
  expect(text).toContain("system: |-\n  You help.\n  Be kind.\n");
  expect(text).toContain("openai/gpt-5.4-mini");
  expect(shell.out).toContain("Its system text, ended by an empty line:");
});

test("personas new writes nothing where the answers end early, or nobody can be asked", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path, {}, true);
  shell.typed = ["acme/helper"];
  expect(await shell.run("personas new")).toMatchObject({ code: 1, err: "error: Nothing was written.\n" });
  expect(existsSync(folder.file("personas"))).toBe(false);
  expect(await new Console(folder.path).run("personas new")).toMatchObject({
    code: 2,
    err: expect.stringContaining("--description"),
  });
  expect((await shell.run("personas new Acme/x")).code).toBe(2);
});

test("tests that are imported pass the checker with their persona", async () => {
  using folder = new TempFolder();
  writeFileSync(
    folder.file("promptfooconfig.yaml"),
    `prompts:
  - |-
    [{"role": "system", "content": "Answer in {{language}}."}, {"role": "user", "content": "{{question}}"}]
providers: [openai:chat:gpt-5.4-mini]
tests:
  - vars: {language: French, question: [Who are you?, Where?]}
    assert: [{type: icontains, value: je}, {type: similar, value: x}]
`,
  );
  const shell = new Console(folder.path);
  const { out, err } = await shell.run("personas import promptfooconfig.yaml --namespace acme --name french");
  expect(out).toBe("acme/french: personas/acme/french.test.yaml, personas/acme/french.yaml\n");
  expect(err).toContain("tests[0].assert[1]: similar is no assertion that is known here");
  expect(await shell.run("personas check")).toMatchObject({
    code: 0,
    out: expect.stringContaining("1 persona and 2 tests"),
  });
});
