import { describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { YamlSource } from "../../../src/lib/yaml/yaml.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { cardImage, image, v2, v3 } from "../../personas/exchange/importers/card-examples.ts";
import { Console } from "../console.ts";

function withFile(name: string, content: string | Uint8Array): { folder: TempFolder; shell: Console } & Disposable {
  const folder = new TempFolder();
  writeFileSync(folder.file(name), content);
  return { folder, shell: new Console(folder.path), [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

describe("personas import", () => {
  test("writes a persona that is served, its picture and the schema, and says what is not carried over", async () => {
    using at = withFile("marla.png", cardImage(v2));
    const { code, out, err } = await at.shell.run("personas import marla.png");
    expect(out).toBe("imported/marla: personas/imported/marla.png, personas/imported/marla.yaml\n");
    expect(err).toStartWith("Not carried over, or not as it was:\n");
    expect(err).toContain("  data.alternate_greetings: is kept under card only\n");
    expect(code).toBe(0);
    expect(readdirSync(at.folder.file("personas/imported")).sort()).toEqual(["marla.png", "marla.yaml"]);
    expect(new Uint8Array(readFileSync(at.folder.file("personas/imported/marla.png")))).toEqual(
      new Uint8Array(image()),
    );
    const text = readFileSync(at.folder.file("personas/imported/marla.yaml"), "utf8");
    expect(text).toStartWith("# yaml-language-server: $schema=../persona.schema.json\ndescription: ");
    expect(text).toContain("avatar: marla.png\n");
    const schema = JSON.parse(readFileSync(at.folder.file("personas/persona.schema.json"), "utf8"));
    expect(schema).toEqual(JSON.parse(readFileSync("docs/persona.schema.json", "utf8")));
    const ofTests = readFileSync(at.folder.file("personas/persona-test.schema.json"), "utf8");
    expect(JSON.parse(ofTests)).toEqual(JSON.parse(readFileSync("docs/persona-test.schema.json", "utf8")));
    expect(await at.shell.run("personas check")).toMatchObject({ code: 0, out: expect.stringContaining("no errors") });
    expect((await at.shell.run("personas list")).out).toContain("imported/marla");
  });

  test("takes names, models and a folder from the command line", async () => {
    using at = withFile("marla.json", JSON.stringify(v2));
    const line = "personas import marla.json --namespace acme --name keeper --model openai/gpt-5.4 --out elsewhere";
    expect((await at.shell.run(line)).out).toBe("acme/keeper: elsewhere/acme/keeper.yaml\n");
    expect(readFileSync(at.folder.file("elsewhere/acme/keeper.yaml"), "utf8")).toContain("\nmodel: openai/gpt-5.4\n");
  });

  test("replaces nothing without --force, and leaves nothing half written", async () => {
    using at = withFile("marla.png", cardImage(v2));
    mkdirSync(at.folder.file("personas/imported"), { recursive: true });
    writeFileSync(at.folder.file("personas/imported/marla.yaml"), "mine");
    const { code, err } = await at.shell.run("personas import marla.png");
    expect(err).toBe(
      `error: ${at.folder.file("personas/imported/marla.yaml")} exists; nothing was written. --force replaces.\n`,
    );
    expect(code).toBe(1);
    expect(readdirSync(at.folder.file("personas/imported"))).toEqual(["marla.yaml"]);
    expect((await at.shell.run("personas import marla.png --force")).code).toBe(0);
    expect(readFileSync(at.folder.file("personas/imported/marla.yaml"), "utf8")).toContain("Marla");
  });

  test("--dry-run shows the files, and writes none", async () => {
    using at = withFile("marla.png", cardImage(v2));
    const { out } = await at.shell.run("personas import marla.png --dry-run");
    expect(out).toContain("description: A lighthouse keeper for quiet evenings.\n");
    expect(out).toContain(`marla.png: ${image().length} bytes\n`);
    expect(existsSync(at.folder.file("personas"))).toBe(false);
  });

  test("answers in JSON", async () => {
    using at = withFile("marla.json", JSON.stringify(v3));
    const { out, err } = await at.shell.run("personas import marla.json --json");
    const { format, written, personas } = JSON.parse(out);
    expect({ format, written }).toEqual({ format: "card", written: true });
    expect(personas[0].id).toBe("imported/marla");
    expect(personas[0].not_carried_over).toContainEqual({ place: "data.source", message: "is kept under card only" });
    expect(err).toBe("");
  });

  test("refuses what it can't read, with the place, and shows no control characters", async () => {
    using at = withFile("bad.json", '{"spec":"chara_card_v2","data":{"name":"a","description":1}}');
    expect(await at.shell.run("personas import bad.json")).toMatchObject({
      code: 1,
      err: "error: bad.json: data.description: must be text\n",
    });
    writeFileSync(at.folder.file("escape.json"), JSON.stringify({ ...v2, data: { ...v2.data, "\u001b[2Jx": 1 } }));
    const { err } = await at.shell.run("personas import escape.json");
    expect(err).not.toContain("\u001b");
    writeFileSync(at.folder.file("note.txt"), "Hello.");
    expect((await at.shell.run("personas import note.txt")).err).toContain(
      "note.txt: is of no format that is known here",
    );
    expect((await at.shell.run("personas import none.json")).err).toContain("none.json can't be read");
    expect((await at.shell.run("personas import bad.json --name ../x")).code).toBe(2);
    expect((await at.shell.run("personas import bad.json --namespace A")).code).toBe(2);
  });

  test("refuses a file of 100 MB without reading it, and a card beyond a persona's size", async () => {
    using at = withFile("large.json", "{");
    truncateSync(at.folder.file("large.json"), 100_000_000);
    expect((await at.shell.run("personas import large.json")).err).toBe("error: large.json is larger than 64 MiB.\n");
    writeFileSync(
      at.folder.file("long.json"),
      JSON.stringify({ ...v2, data: { ...v2.data, description: "long ".repeat(60_000) } }),
    );
    expect((await at.shell.run("personas import long.json")).err).toContain("imported/marla would have ");
  });
});

describe("personas import takes what it can", () => {
  test("a card that has no room beside the persona's texts stands in a file of its own, and comes back", async () => {
    const large = { ...v2, data: { ...v2.data, description: "long ".repeat(30_000) } };
    using at = withFile("marla.json", JSON.stringify(large));
    const { code, out } = await at.shell.run("personas import marla.json");
    expect([code, out]).toEqual([
      0,
      "imported/marla: personas/imported/marla.card.json, personas/imported/marla.yaml\n",
    ]);
    expect(readFileSync(at.folder.file("personas/imported/marla.yaml"), "utf8")).toContain("\ncard: marla.card.json\n");
    expect((await at.shell.run("personas check")).code).toBe(0);
    const exported = await at.shell.run("personas export imported/marla --format card-v2");
    expect(JSON.parse(exported.out)).toEqual(large);
    writeFileSync(at.folder.file("personas/imported/marla.card.json"), "{");
    expect((await at.shell.run("personas export imported/marla --format card-v2")).err).toContain(
      "marla.card.json can't be read",
    );
  });

  test("a Modelfile of weights is a persona of the model and name that are given", async () => {
    using at = withFile("Modelfile", "FROM ./model.gguf\nSYSTEM You are brief.\n");
    const { code } = await at.shell.run("personas import Modelfile --name brief --model ollama/brief");
    expect(code).toBe(0);
    const text = readFileSync(at.folder.file("personas/imported/brief.yaml"), "utf8");
    expect(text).toContain("description: brief\n");
    expect(text).toContain("\nmodel: ollama/brief\n");
  });

  test("variables have no less room than they had", async () => {
    using at = withFile("a.prompty", "---\nname: a\n---\nsystem:\nSum up {{text}} for {{reader}}.");
    await at.shell.run("personas import a.prompty");
    const { value } = new YamlSource(readFileSync(at.folder.file("personas/imported/a.yaml"), "utf8"), "");
    expect((value as { variables: object }).variables).toEqual({
      text: { max_length: 100_000 },
      reader: { max_length: 100_000 },
    });
  });

  test("what the checker would refuse is left out by its words, and the rest stays", async () => {
    const file = `---
model: {id: gpt-5.4, provider: openai, parameters: {response_format: {type: json_object}}}
tools:
  - {name: find, kind: function, parameters: {type: object}}
  - {name: find, kind: function, parameters: {type: object}}
---
system:
Be brief.`;
    using at = withFile("a.prompty", file);
    const { code, err } = await at.shell.run("personas import a.prompty");
    expect(err).toContain(
      "  response_format: needs the word JSON in system: upstreams refuse json_object without it: it is left out\n",
    );
    expect(err).toContain("  tools[1].function.name: repeats find: it is left out\n");
    expect(code).toBe(0);
    expect(readFileSync(at.folder.file("personas/imported/a.yaml"), "utf8").match(/name: find/g)).toHaveLength(1);
  });

  test("partials and values come from beside the file, and from nowhere else", async () => {
    using at = withFile("a.prompt", "{{role 'system'}}Be {{> tone}} {{> ../secret}} {{> link}}.");
    writeFileSync(at.folder.file("_tone.prompt"), "calm");
    using elsewhere = new TempFolder();
    writeFileSync(elsewhere.file("x"), "secret");
    symlinkSync(elsewhere.file("x"), at.folder.file("_link.prompt"));
    const { err } = await at.shell.run("personas import a.prompt");
    expect(readFileSync(at.folder.file("personas/imported/a.yaml"), "utf8")).toContain("system: Be calm  .\n");
    expect(err).toContain("{{>../secret}} is left out: there is no ../_secret.prompt beside this file");
    expect(err).toContain("{{>link}} is left out");
  });
});

describe("personas export", () => {
  test("gives an imported card back, as JSON and as the image it was", async () => {
    using at = withFile("marla.png", cardImage(v3, "ccv3"));
    await at.shell.run("personas import marla.png");
    const { code, out, err } = await at.shell.run("personas export imported/marla --format card-v3");
    expect(JSON.parse(out)).toEqual(v3);
    expect(err).toBe("Not carried over, or not as it was:\n  model: has no place in a card\n");
    expect(code).toBe(0);
    expect((await at.shell.run("personas export imported/marla --format card-v3-png --out back.png")).out).toBe(
      "imported/marla: back.png\n",
    );
    expect(statSync(at.folder.file("back.png")).size).toBeGreaterThan(cardImage(v3).length);
    await at.shell.run("personas import back.png --name again");
    expect(readFileSync(at.folder.file("personas/imported/again.yaml"), "utf8")).toBe(
      readFileSync(at.folder.file("personas/imported/marla.yaml"), "utf8").replace(
        "avatar: marla.png",
        "avatar: again.png",
      ),
    );
  });

  test("writes one of the executable, and refuses what can't be", async () => {
    using at = withFile("x", "");
    const card = JSON.parse((await at.shell.run("personas export studio/strategist --format card-v2")).out);
    expect(card).toMatchObject({ spec: "chara_card_v2", data: { name: "Strategist", creator: "studio" } });
    expect((await at.shell.run("personas export troupe/guid --format card-v2")).err).toContain(
      "Did you mean 'troupe/guide'?",
    );
    expect((await at.shell.run("personas export troupe/guide --format card-v2-png")).code).toBe(2);
    expect((await at.shell.run("personas export troupe/guide --format card-v2 --out x")).err).toContain(
      "exists; nothing was written",
    );
    expect((await at.shell.run("personas export troupe/guide --format yaml")).code).toBe(2);
  });
});

test("the Guide, who was made of a card, gives that card back, with the settings that were added since", async () => {
  using at = withFile("x", "");
  const { out } = await at.shell.run("personas export troupe/guide --format card-v3");
  const { value } = new YamlSource(readFileSync("personas/troupe/guide.yaml", "utf8"), "guide.yaml");
  const card = JSON.parse(out);
  const { troupe, ...extensions } = card.data.extensions;
  expect({ ...card, data: { ...card.data, extensions } }).toEqual((value as { card: object }).card);
  expect(troupe).toEqual({ defaults: { max_tokens: 1024 }, limits: { max_tokens: 4096 } });
});

test("a card that its author broke, and an avatar that is none, are refused by name", async () => {
  using at = withFile("marla.png", cardImage(v2));
  await at.shell.run("personas import marla.png");
  writeFileSync(at.folder.file("personas/imported/marla.png"), image().subarray(0, 50));
  const line = "personas export imported/marla --format card-v2-png --out x.png";
  expect((await at.shell.run(line)).err).toContain(
    "The avatar can't be read: byte 33 (IDAT): it declares 16 bytes, beyond the end",
  );
  const text = readFileSync(at.folder.file("personas/imported/marla.yaml"), "utf8");
  writeFileSync(at.folder.file("personas/imported/marla.yaml"), text.replace("    name: Marla\n", "    name: 7\n"));
  expect((await at.shell.run(line)).err).toContain("card.data.name: is missing");
});

test("an imported prompt object answers its id: the persona passes the checker with its prompt_ids", async () => {
  const prompt = {
    id: "pmpt_abc",
    version: "2",
    model: "gpt-5.4",
    instructions: "Help {{customer}}.",
    name: "Support",
  };
  using at = withFile("prompt.json", JSON.stringify(prompt));
  expect((await at.shell.run("personas import prompt.json --namespace acme")).out).toBe(
    "acme/support: personas/acme/support.yaml\n",
  );
  const text = readFileSync(at.folder.file("personas/acme/support.yaml"), "utf8");
  expect(text).toContain('prompt_ids:\n  pmpt_abc:\n    "2": current\n    default: current\n');
  expect((await at.shell.run("personas check")).out).toContain("1 persona");
});

describe("personas import of many", () => {
  const subagent = (name: string, more = "") => `---\nname: ${name}\ndescription: ${name}.\n${more}---\nBe ${name}.\n`;

  function workplace(files: Record<string, string>) {
    const folder = new TempFolder();
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(folder.file(`${name}/..`), { recursive: true });
      writeFileSync(folder.file(name), text);
    }
    return { folder, shell: new Console(folder.path), [Symbol.dispose]: () => folder[Symbol.dispose]() };
  }
  const files = {
    "agents/a.md": subagent("a", "tools: Read\n"),
    "agents/deep/a.md": subagent("a"),
    "agents/README.md": "# About",
    "agents/empty.md": "",
    "agents/other.json": '{"x": 1}',
    "agents/.git/b.md": subagent("hidden"),
    "agents/patterns/sum_up/system.md": "# IDENTITY\n\nYou sum up.\n",
    "agents/patterns/sum_up/user.md": "CONTENT:",
    "agents/photo.jpg": "x",
  };

  test("takes a folder, and says in one table what came in and what did not", async () => {
    using at = workplace(files);
    const { code, out, err } = await at.shell.run("personas import agents --namespace team");
    expect(out.replaceAll(/ +$/gm, "")).toBe(
      `FILE                              FORMAT           PERSONA      NOTE
agents/a.md                       claude-subagent  team/a       not carried over: tools
agents/deep/a.md                  claude-subagent  team/a-2     -
agents/empty.md                   -                -            is empty
agents/other.json                 -                -            is of no format that is known here
agents/patterns/sum_up/system.md  markdown         team/sum_up  not carried over: user.md
`,
    );
    expect(err).toBe("3 personas of 3 files; 2 did not come in.\n");
    expect(code).toBe(1);
    expect(readdirSync(at.folder.file("personas/team")).sort()).toEqual(["a-2.yaml", "a.yaml", "sum_up.yaml"]);
    expect(await at.shell.run("personas check")).toMatchObject({ code: 0 });
  });

  test("takes globs and several files; one that is in the way keeps no other out", async () => {
    using at = workplace(files);
    symlinkSync("a.md", at.folder.file("agents/link.md"));
    expect(await at.shell.run("personas import agents/li*.md --dry-run --json")).toMatchObject({ code: 0 });
    expect(await at.shell.run("personas import agents/*/a.md agents/a.md ./agents/a.md --dry-run")).toMatchObject({
      code: 0,
      err: "2 personas of 2 files.\n",
    });
    expect(existsSync(at.folder.file("personas"))).toBe(false);
    await at.shell.run("personas import agents/a.md");
    const { code, out } = await at.shell.run("personas import agents/a.md agents/patterns/**/system.md --json");
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({
      written: true,
      files: [
        {
          file: "agents/a.md",
          error: expect.stringContaining("a.yaml exists; nothing was written. --force replaces."),
        },
        {
          file: "agents/patterns/sum_up/system.md",
          format: "markdown",
          personas: [expect.objectContaining({ id: "imported/sum_up" })],
        },
      ],
    });
  });

  test.each([
    ["agents --name one", "--name names one persona: import one file."],
    ["none/*.md", "none/*.md names no file."],
    ["empty", "empty holds no file of a format that is known here."],
    ["none.md", "none.md can't be read"],
  ])("%s is an error", async (line, message) => {
    using at = workplace({ ...files, "empty/a.txt": "x" });
    const { code, err } = await at.shell.run(`personas import ${line}`);
    expect(code).toBeGreaterThan(0);
    expect(err).toContain(message);
  });
});
