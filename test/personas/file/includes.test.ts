import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { formatDiagnostic } from "../../../src/lib/yaml/yaml.ts";
import { loadFolder, PersonaFolder, type ReloadResult } from "../../../src/personas/file/folder.ts";
import { contentOf, type Persona, parsePersona } from "../../../src/personas/persona.ts";
import { Personas } from "../../../src/personas/versions/registry.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

type Files = Readonly<Record<string, string>>;

function folderWith(files: Files): string {
  const parent = mkdtempSync(join(tmpdir(), "troupe-includes-"));
  cleanups.push(() => rmSync(parent, { recursive: true, force: true }));
  const root = join(parent, "personas");
  mkdirSync(root);
  write(root, files);
  return root;
}

function write(root: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

/** A persona whose third line is the beginning of its prompt. */
const persona = (prompt: string, rest = "") => `description: A guide.\nmodel: builtin/echo\n${prompt}\n${rest}`;

async function load(root: string) {
  const { personas, errors } = await loadFolder(root);
  return {
    system: personas.map((one) => (JSON.parse(contentOf(one)) as { system: string }).system),
    errors: errors.map((one) => formatDiagnostic(one).replace(`${root}/`, "")),
    versions: personas.map(({ version }) => version),
  };
}

const systemOf = async (files: Files) => {
  const { system, errors } = await load(folderWith(files));
  return { system, errors };
};
const errorsOf = async (files: Files) => (await systemOf(files)).errors;

describe("text of other files", () => {
  test("partials stand in the place of their marks, nested, relative to the file that names them", async () => {
    const files = {
      "acme/support.yaml": persona(
        "system: |\n  You help {{who}}.\n  {{> tone}}\n  {{>../_shared/law.txt }}\n  End.",
        "variables: { who: {} }",
      ),
      "acme/tone.md": "Be brief.\n{{> more/manner.md}}\n\n",
      "acme/_x/unused.md": "{{> nothing}}",
      "_shared/law.txt": "Law for {{who}} \\{{> kept}}.\n",
      "acme/more.md": "not this one",
    };
    const root = folderWith(files);
    mkdirSync(join(root, "acme/_more"));
    write(root, { "acme/_more/manner.md": "Be kind.", "acme/tone.md": "Be brief.\n{{> _more/manner}}\n\n" });
    expect(await load(root)).toMatchObject({
      system: ["You help {{who}}.\nBe brief.\nBe kind.\nLaw for {{who}} \\{{> kept}}.\nEnd."],
      errors: [],
    });
  });

  test("system_file holds the whole text, and a partial may be included twice", async () => {
    const files = {
      "acme/support.yaml": persona("system_file: _prompts/support"),
      "acme/_prompts/support.md": "# You\n{{> ../line}} {{> ../line}}\n",
      "acme/line.md": "\ufeffA line.",
    };
    expect(await systemOf(files)).toEqual({ system: ["# You\nA line. A line."], errors: [] });
  });

  test.each([
    [
      "both",
      persona("system: Hi\nsystem_file: tone"),
      ["4:1: system_file: stands beside system, which says the same: give one"],
    ],
    ["neither", "description: A guide.\nmodel: builtin/echo\n", ["1:1: system: is required"]],
    [
      "a file that is not there",
      persona("system: x {{> gone}}"),
      ["3:11: system: 'gone' can't be read: it does not exist"],
    ],
    [
      "a file that is not there",
      persona("system_file: gone.txt"),
      ["3:14: system_file: 'gone.txt' can't be read: it does not exist"],
    ],
    [
      "an absolute path",
      persona("system: x {{> /etc/hosts}}"),
      ["3:11: system: '/etc/hosts' must be relative to the file that names it"],
    ],
    [
      "a path out of the folder",
      persona("system: x {{> ../../secret}}"),
      ["3:11: system: '../../secret' leads out of the folder of personas"],
    ],
    [
      "a path out and in again",
      persona("system_file: ../../personas/acme/tone"),
      ["3:14: system_file: '../../personas/acme/tone' leads out of the folder of personas"],
    ],
    [
      "a link that leads out",
      persona("system: x {{> link}}"),
      ["3:11: system: 'link' is a link that leads out of the folder of personas"],
    ],
    [
      "a folder on a way out",
      persona("system: x {{> out/secret}}"),
      ["3:11: system: 'out/secret' is a link that leads out of the folder of personas"],
    ],
    [
      "a persona",
      persona("system: x {{> a.yaml}}"),
      ["3:11: system: 'a.yaml' is a YAML file; what is included is Markdown or text"],
    ],
    ["backslashes", persona("system: x {{> ..\\a}}"), ["3:11: system: '..\\a' must be written with '/'"]],
    [
      "no path",
      persona("system: x {{> }}"),
      ["3:11: system: has '{{' without a variable's name; literal braces are written '\\{{'"],
    ],
  ])("%s is refused at its place", async (_, text, expected) => {
    const root = folderWith({ "acme/a.yaml": text, "acme/tone.md": "T", "../secret.md": "secret" });
    symlinkSync("../../secret.md", join(root, "acme/link.md"));
    symlinkSync("../..", join(root, "acme/out"));
    const { errors } = await load(root);
    expect(errors.filter((one) => !one.startsWith("acme/out"))).toEqual(expected.map((one) => `acme/a.yaml:${one}`));
  });

  test("a link within the folder is followed", async () => {
    const root = folderWith({ "acme/a.yaml": persona("system: x {{> tone}}"), "_v1/tone.md": "T" });
    symlinkSync("../_v1/tone.md", join(root, "acme/tone.md"));
    expect(await load(root)).toMatchObject({ system: ["x T"], errors: [] });
  });

  test("an error in a partial is at its place there, and says whose text it is", async () => {
    const files = {
      "acme/a.yaml": persona("system: |\n  {{who}} {{> tone}} {{nobody}}\n", "variables: { who: {} }"),
      "acme/tone.md": "One {{who}}\nand {{other}}, {{ and\n{{> gone}}",
    };
    expect(await errorsOf(files)).toEqual([
      "acme/tone.md:3:1: 'gone' can't be read: it does not exist (in the system text of acme/a)",
    ]);
    expect(await errorsOf({ ...files, "acme/gone.md": "." })).toEqual([
      "acme/tone.md:2:5: uses {{other}}, which variables does not declare (in the system text of acme/a)",
      "acme/tone.md:2:16: has '{{' without a variable's name; literal braces are written '\\{{' (in the system text of acme/a)",
      "acme/a.yaml:4:22: system: uses {{nobody}}, which variables does not declare",
    ]);
  });

  test("cycles, depth, number and size have bounds", async () => {
    const cycle = { "a/p.yaml": persona("system: x {{> one}}"), "a/one.md": "{{> two}}", "a/two.md": "\n {{> one}}" };
    expect(await errorsOf(cycle)).toEqual([
      "a/two.md:2:2: 'one' includes itself: a/one.md → a/two.md → a/one.md (in the system text of a/p)",
    ]);
    const chain = (length: number) =>
      Object.fromEntries(
        Array.from({ length }, (_, at) => [`a/n${at}.md`, at === length - 1 ? "end" : `{{> n${at + 1}}}`]),
      );
    expect(await systemOf({ "a/p.yaml": persona("system: x {{> n0}}"), ...chain(8) })).toMatchObject({
      system: ["x end"],
    });
    expect(await errorsOf({ "a/p.yaml": persona("system: x {{> n0}}"), ...chain(9) })).toEqual([
      "a/n7.md:1:1: 'n8' is included more than 8 files deep (in the system text of a/p)",
    ]);
    const many = {
      "a/p.yaml": persona("system: x {{> wide}}"),
      "a/wide.md": "{{> wider}}".repeat(40),
      "a/wider.md": "{{> none}}".repeat(40),
      "a/none.md": "",
    };
    expect(await errorsOf(many)).toEqual([expect.stringContaining("has more than 1000 includes")]);
    const large = { "a/p.yaml": persona("system: x {{> big}} {{> big}}"), "a/big.md": "b".repeat(200_000) };
    expect(await errorsOf(large)).toEqual(["a/p.yaml:3:21: system: is longer than 262144 characters with 'big'"]);
    const huge = { "a/p.yaml": persona("system: x {{> big}}"), "a/big.md": "b".repeat(256 * 1024 + 1) };
    expect(await errorsOf(huge)).toEqual(["a/p.yaml:3:11: system: 'big' is larger than 256 KiB"]);
    const latin = folderWith({ "a/p.yaml": persona("system: x {{> latin}}") });
    writeFileSync(join(latin, "a/latin.md"), Buffer.from("caf\xe9", "latin1"));
    expect((await load(latin)).errors).toEqual(["a/p.yaml:3:11: system: 'latin' can't be read: it is not UTF-8"]);
  });

  test("a text that is in no folder includes nothing", () => {
    const parsed = parsePersona(persona("system: x {{> tone}}"), "a.yaml", "a/p");
    expect("errors" in parsed && parsed.errors.map(formatDiagnostic)).toEqual([
      "a.yaml:3:11: system: 'tone' can't be read: this persona is not in a folder",
    ]);
  });
});

describe("versions", () => {
  const only = (files: Files) => load(folderWith(files)).then(({ versions }) => versions[0]!);

  test("are of the content: neither order, comments nor the way to write it count, and includes do", async () => {
    const version = await only({ "a/p.yaml": persona("system: Be brief.", "defaults: { top_p: 1, seed: 2 }") });
    expect(version).toMatch(/^[0-9a-f]{12}$/);
    const same = [
      { "a/p.yaml": persona("system: |\n  Be brief.\n", "# Why.\ndefaults:\n  seed: 2 # Two.\n  top_p: 1\n") },
      { "a/p.yaml": 'system: "Be brief."\ndefaults: {seed: 2, top_p: 1}\nmodel: builtin/echo\ndescription: A guide.' },
      { "a/p.yaml": persona("system: Be {{> how}}.", "defaults: { top_p: 1, seed: 2 }"), "a/how.md": "brief\n" },
      { "a/p.yaml": persona("system_file: p", "defaults: { top_p: 1, seed: 2 }"), "a/p.md": "Be brief.\n" },
    ];
    for (const files of same) expect(await only(files)).toBe(version);
    const others = [
      { "a/p.yaml": persona("system: Be brief.", "defaults: { top_p: 1, seed: 3 }") },
      { "a/p.yaml": persona("system: Be {{> how}}.", "defaults: { top_p: 1, seed: 2 }"), "a/how.md": "long\n" },
    ];
    for (const files of others) expect(await only(files)).not.toBe(version);
  });
});

test("prompts of two personas, and labels that there are not, are named when a folder is checked", async () => {
  const root = folderWith({
    "labels.yaml": 'a/one: { stable: "0123456789ab" }\n',
    "a/one.yaml": persona("system: x", "prompt_ids:\n  pmpt_1: { '1': stable, '2': next }\n"),
    "a/two.yaml": persona("system: x", "prompt_ids:\n  pmpt_2: {}\n  pmpt_1: {}\n"),
  });
  expect((await load(root)).errors).toEqual([
    "a/one.yaml:5:31: prompt_ids.pmpt_1[\"2\"]: names 'next', which is no label of a/one in labels.yaml",
    "a/two.yaml:6:3: prompt_ids.pmpt_1: is a prompt of a/one already",
  ]);
});

describe("a running folder", () => {
  async function running(files: Files) {
    const root = folderWith(files);
    const reloads: ReloadResult[] = [];
    const personas = new Personas();
    const folder = new PersonaFolder({ path: root, personas, onReload: (one) => reloads.push(one) });
    cleanups.push(() => folder.close());
    await folder.rescan();
    const change = async (change: () => void) => {
      change();
      await folder.rescan();
      return reloads
        .splice(0)
        .map(({ added, changed, removed, errors }) => [
          ...added,
          ...changed,
          ...removed,
          ...errors.map(({ message }) => message),
        ]);
    };
    reloads.length = 0;
    return { root, personas, change };
  }

  test("a change of a partial reloads the personas that use it, and no others", async () => {
    const { root, personas, change } = await running({
      "a/one.yaml": persona("system: x {{> tone}}"),
      "a/two.yaml": persona("system: y {{> deep}}"),
      "a/three.yaml": persona("system: z"),
      "a/tone.md": "T1",
      "a/deep.md": "{{> tone}}",
    });
    const [one, three, two] = personas.list() as [Persona, Persona, Persona];
    expect(await change(() => write(root, { "a/tone.md": "T2" }))).toEqual([["a/one", "a/two"]]);
    expect(personas.find("a/three")).toBe(three);
    expect(personas.find("a/one")!.version).not.toBe(one.version);
    expect(personas.find("a/one")!.system).toEqual([{ text: "x T2" }]);
    const changed = personas.find("a/one");
    expect(await change(() => write(root, { "a/other.md": "no one's" }))).toEqual([]);
    expect(personas.find("a/one")).toBe(changed!);
    expect(await change(() => write(root, { "a/tone.md": "T1" }))).toEqual([["a/one", "a/two"]]);
    expect([personas.find("a/one")!.version, personas.find("a/two")!.version]).toEqual([one.version, two.version]);
  });

  test("while a partial is gone the last good persona stays, and the next one takes its place", async () => {
    const { root, personas, change } = await running({
      "a/one.yaml": persona("system: x {{> tone}}"),
      "a/tone.md": "T1",
    });
    const before = personas.find("a/one");
    expect(await change(() => unlinkSync(join(root, "a/tone.md")))).toEqual([
      ["'tone' can't be read: it does not exist"],
    ]);
    expect(personas.find("a/one")).toBe(before!);
    expect(await change(() => write(root, { "a/tone.md": "T2" }))).toEqual([["a/one"]]);
    expect(personas.find("a/one")!.system).toEqual([{ text: "x T2" }]);
  });
});
