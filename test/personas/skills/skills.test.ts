/** Skills of personas: read from folders, refused as the form's reference refuses them, and kept with the persona's version. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { formatDiagnostic } from "../../../src/lib/yaml/yaml.ts";
import { compose } from "../../../src/personas/compose/compose.ts";
import { loadFolder } from "../../../src/personas/file/folder.ts";
import { writePersonaYaml } from "../../../src/personas/file/persona-yaml.ts";
import { validationErrors } from "../../../src/personas/file/rules.ts";
import type { PersonaContent } from "../../../src/personas/file/schema.ts";
import { contentOf, parsePersona } from "../../../src/personas/persona.ts";
import { readSkill } from "../../../src/personas/skills/schema.ts";
import { parseSkill } from "../../../src/personas/skills/skill-file.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const place = new TempFolder();
afterAll(() => place[Symbol.dispose]());
const root = place.file("personas");
beforeEach(() => rmSync(root, { recursive: true, force: true }));

const skill = (name: string, more = "", body = "Ask for the order.") =>
  `---\nname: ${name}\ndescription: Handles ${name}. Use it where somebody asks for ${name}.\n${more}---\n\n${body}\n`;
const persona = (skills: string, more = "") =>
  `description: Helps.\nmodel: builtin/echo\nsystem: Help.\nskills: ${skills}\n${more}`;

function write(files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(root, name, ".."), { recursive: true });
    writeFileSync(join(root, name), text);
  }
}

async function load() {
  const { personas, errors } = await loadFolder(root);
  return { persona: personas.find(({ id }) => id === "acme/help"), errors: errors.map(formatDiagnostic) };
}

const usual = {
  "acme/help.yaml": persona("[skills/*]"),
  "acme/skills/refunds/SKILL.md": skill("refunds", 'license: MIT\nmetadata: {author: acme, version: "1.0"}\n'),
  "acme/skills/refunds/references/times.md": "14 days.\n",
  "acme/skills/refunds/scripts/sum.py": "print(1)\n",
  "acme/skills/refunds/assets/logo.bin": Uint8Array.of(0xff, 0xfe, 0),
  "acme/skills/returns/SKILL.md": skill("returns"),
  "acme/skills/.hidden/SKILL.md": "no",
};

describe("a persona's skills", () => {
  test("are told by name and description, and read by a tool", async () => {
    write(usual);
    const { persona: found, errors } = await load();
    expect(errors).toEqual([]);
    const request = { model: "acme/help", messages: [{ role: "user", content: "Hi" }] };
    const [system] = compose(found!, request as never).messages;
    expect(system!.content).toBe(
      "Help.\n\nSkills are instructions for particular tasks. Where a task is one of these, call read_skill with the skill's name before anything else, and do as it says:\n\n" +
        "- refunds: Handles refunds. Use it where somebody asks for refunds.\n- returns: Handles returns. Use it where somebody asks for returns.",
    );
    const skills = found!.skills!;
    expect(skills.tool.function.parameters).toMatchObject({ properties: { skill: { enum: ["refunds", "returns"] } } });
    expect(readSkill(skills, { skill: "refunds" })).toEqual({
      text: "Ask for the order.\n\nFiles of this skill, for read_skill:\n- references/times.md\n- scripts/sum.py (a program: it can be read, and is not run here)\n- assets/logo.bin (no text: it can't be read here)",
      isError: false,
    });
    expect(readSkill(skills, { skill: "returns" }).text).toBe("Ask for the order.");
    expect(readSkill(skills, { skill: "refunds", file: "./references/times.md" }).text).toBe("14 days.\n");
    expect(readSkill(skills, { skill: "refunds", file: "scripts/sum.py" }).text).toBe("print(1)\n");
    for (const [args, words] of [
      [{ skill: "other" }, "There is no such skill. There are: refunds, returns."],
      [{}, "There is no such skill."],
      [{ skill: "refunds", file: "../returns/SKILL.md" }, "The skill has no such file. It has: references/times.md"],
      [{ skill: "refunds", file: "/etc/passwd" }, "The skill has no such file."],
      [{ skill: "refunds", file: "__proto__" }, "The skill has no such file."],
      [{ skill: "refunds", file: { a: 1 } }, "The skill has no such file."],
      [{ skill: "refunds", file: "assets/logo.bin" }, "That file is no text"],
    ] as const) {
      const read = readSkill(skills, args);
      expect([read.isError, read.text]).toEqual([true, expect.stringContaining(words)]);
    }
  });

  test("are part of the version, which holds their texts", async () => {
    write(usual);
    const { persona: first } = await load();
    write({ "acme/skills/refunds/references/times.md": "15 days.\n" });
    const { persona: second } = await load();
    expect(second!.version).not.toBe(first!.version);
    expect(second!.skills!.versions["returns"]).toBe(first!.skills!.versions["returns"]!);
    expect(second!.skills!.versions["refunds"]).not.toBe(first!.skills!.versions["refunds"]!);
    // What is kept of a version makes the same persona without the folder.
    const kept = writePersonaYaml(JSON.parse(contentOf(second!)) as PersonaContent);
    const again = parsePersona(kept, "kept.yaml", "acme/help");
    expect("persona" in again && [again.persona.version, again.persona.skills]).toEqual([
      second!.version,
      second!.skills!,
    ]);
  });

  test("of a folder that others share, each named once", async () => {
    write({
      "acme/help.yaml": persona("[../_shared/skills/re*, skills/own/]"),
      "acme/other.yaml": persona("['../_shared/*/refunds']"),
      "_shared/skills/refunds/SKILL.md": skill("refunds"),
      "_shared/skills/refer/skill.md": skill("refer"),
      "_shared/skills/other/SKILL.md": skill("other"),
      "acme/skills/own/SKILL.md": skill("own"),
    });
    const { persona: found, errors } = await load();
    expect(errors).toEqual([]);
    expect(found!.skills!.all.map(({ name }) => name)).toEqual(["refer", "refunds", "own"]);
    write({ "acme/help.yaml": persona("[../_shared/skills/refunds, ../_shared/skills/*]") });
    expect((await load()).errors).toEqual([
      `${root}/acme/help.yaml:4:37: skills[1]: has a skill 'refunds', as another entry has`,
    ]);
  });

  test("never lie outside of the folder of personas, whatever links lead there", async () => {
    mkdirSync(place.file("outside/secret"), { recursive: true });
    writeFileSync(place.file("outside/secret/SKILL.md"), skill("secret"));
    write({ "acme/help.yaml": persona("[skills/*]"), "acme/skills/refunds/SKILL.md": skill("refunds") });
    symlinkSync(place.file("outside/secret"), join(root, "acme/skills/secret"));
    const at = `${root}/acme/help.yaml:4:10: skills[0]:`;
    const leads = "a link that leads out of the folder of personas";
    expect((await load()).errors).toEqual([`${at} 'skills/*' has 'acme/skills/secret', ${leads}`]);
    rmSync(join(root, "acme/skills/secret"));
    symlinkSync(place.file("outside/secret/SKILL.md"), join(root, "acme/skills/refunds/more.md"));
    expect((await load()).errors).toEqual([`${at} 'skills/*' has 'acme/skills/refunds/more.md', ${leads}`]);
    for (const path of ["../../outside/*", "/etc/*", "a\\\\b"]) {
      write({ "acme/help.yaml": persona(`["${path}"]`) });
      expect((await load()).errors[0]).toContain("must be a path within the folder of personas");
    }
    // A link within it is followed, and one to itself ends.
    rmSync(join(root, "acme/skills/refunds/more.md"));
    symlinkSync(join(root, "acme/skills/refunds"), join(root, "acme/skills/refunds/again"));
    write({ "acme/help.yaml": persona("[skills/*]") });
    expect((await load()).errors[0]).toContain("which is more than 4 folders deep");
  });

  test("are bounded in number and size, each with its place", async () => {
    const faults = async (files: Readonly<Record<string, string>>) => {
      rmSync(root, { recursive: true, force: true });
      write({ "acme/help.yaml": persona("[skills/*]"), ...files });
      return (await load()).errors.map((error) => error.replaceAll(`${root}/`, ""));
    };
    const at = "acme/help.yaml:4:10: skills[0]: 'skills/*'";
    const of = (count: number, file: (at: number) => [string, string]) =>
      Object.fromEntries(Array.from({ length: count }, (_, number) => file(number)));
    expect(await faults({})).toEqual([`${at} is no folder with a SKILL.md`]);
    expect(await faults({ "acme/skills/a/other.md": "x" })).toEqual([
      "acme/help.yaml:4:10: skills[0]: 'acme/skills/a/' has no SKILL.md",
    ]);
    expect(await faults(of(65, (n) => [`acme/skills/s${n}/SKILL.md`, skill(`s${n}`)]))).toEqual([
      `${at} names 65 folders; a persona has at most 64 skills`,
    ]);
    expect(
      await faults({ "acme/skills/a/SKILL.md": skill("a"), ...of(65, (n) => [`acme/skills/a/f${n}.md`, "x"]) }),
    ).toEqual([`${at} has 'acme/skills/a' with more than 64 files`]);
    expect(await faults({ "acme/skills/a/SKILL.md": skill("a"), "acme/skills/a/b.md": "x".repeat(60_001) })).toEqual([
      "acme/skills/a/b.md:1:1: is longer than 60000 characters (in a skill of acme/help)",
    ]);
    const large = of(10, (n) => [`acme/skills/a/f${n}.md`, "x".repeat(60_000)]);
    expect(await faults({ "acme/skills/a/SKILL.md": skill("a"), ...large })).toEqual([
      "acme/help.yaml:4:10: skills[0]: has texts of more than 524288 characters together",
    ]);
    const tools = "tools: [{type: function, function: {name: read_skill}}]\n";
    expect(
      await faults({ "acme/help.yaml": persona("[skills/*]", tools), "acme/skills/a/SKILL.md": skill("a") }),
    ).toEqual(["acme/help.yaml:5:9: tools[0]: 'read_skill' is the tool by which skills are read"]);
  });
});

test("skills that stand in a content themselves, as in an upload, have the same bounds", () => {
  const content = (...skills: object[]) =>
    ({ description: "x", model: "builtin/echo", system: "x", skills }) as unknown as PersonaContent;
  const one = { name: "a", description: "x", body: "x" };
  const errors = (of: PersonaContent) => [...validationErrors(of, "acme")].map(({ path, message }) => [path, message]);
  expect(errors(content(one, { ...one, name: "b" }))).toEqual([]);
  expect(errors(content(one, one))).toEqual([[["skills", 1, "name"], "repeats a"]]);
  expect(errors(content({ ...one, files: { "b.md": "x".repeat(524_288) } }))).toEqual([
    [["skills"], "has texts of more than 524288 characters together"],
  ]);
});

describe("a SKILL.md", () => {
  const errorsOf = (text: string) => {
    const parsed = parseSkill(text, "a/SKILL.md", "a");
    return "errors" in parsed ? parsed.errors.map(formatDiagnostic) : [];
  };

  test.each([
    ["# a\n", "1:1: must begin with front matter"],
    ["---\nname: a\n", "1:1: has front matter that does not end"],
    ["---\nname: a\n---\n", "2:1: description: is required"],
    ["---\ndescription: x\n---\n", "2:1: name: is required"],
    ["---\nname: A\ndescription: x\n---\n", "2:7: name: must be of lower-case letters, digits and hyphens"],
    ["---\nname: b\ndescription: x\n---\n", "2:7: name: must be the name of its folder, 'a'"],
    ["---\nname: a--b\ndescription: x\n---\n", "2:7: name: must not begin or end with a hyphen"],
    [`---\nname: ${"a".repeat(65)}\ndescription: x\n---\n`, "2:7: name: must have at most 64 characters"],
    ["---\nname: a\ndescription: ' '\n---\n", "3:14: description: must say what the skill is for"],
    [
      `---\nname: a\ndescription: ${"x".repeat(1025)}\n---\n`,
      "3:14: description: must have at most 1024 characters, and has 1025",
    ],
    ["---\nname: a\ndescription: x\nversion: 1\n---\n", "4:1: version: is not a known key"],
    ["---\nname: a\ndescription: x\nname: a\n---\n", "4:1: "],
    ["---\nname: a\ndescription: [x]\n---\n", "3:14: description: must be a string"],
    [`---\nname: a\ndescription: x\ncompatibility: ${"x".repeat(501)}\n---\n`, "4:16: compatibility: "],
    ["---\nname: a\ndescription: x: y\n---\n", "3:"],
  ])("%j is refused with its place", (text, error) => {
    expect(errorsOf(text)[0]).toStartWith(`a/SKILL.md:${error}`);
  });

  test("has what the form has, whatever its line ends", () => {
    const text =
      "---\r\nname: a\r\ndescription: 'x --- y'\r\nallowed-tools: Bash(git:*) Read\r\nmetadata:\r\n  version: 1.5\r\n---\r\n\r\nDo --- it.\r\n---\r\nMore.\r\n";
    expect(parseSkill(text, "a/SKILL.md", "a")).toEqual({
      skill: {
        ...{ name: "a", description: "x --- y", allowed_tools: "Bash(git:*) Read", metadata: { version: "1.5" } },
        body: "Do --- it.\r\n---\r\nMore.",
      },
    });
  });
});
