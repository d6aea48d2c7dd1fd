import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pollMs } from "../../../src/lib/files/file-watch.ts";
import { formatDiagnostic } from "../../../src/lib/yaml/yaml.ts";
import { loadFolder, PersonaFolder, type ReloadResult } from "../../../src/personas/file/folder.ts";
import { parsePersona } from "../../../src/personas/persona.ts";
import { Personas } from "../../../src/personas/versions/registry.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

const maxFileBytes = 256 * 1024;
const maxFiles = 2000;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** @returns an empty folder of its own, in a parent of its own */
function makeRoot(): string {
  const parent = mkdtempSync(join(tmpdir(), "troupe-personas-"));
  cleanups.push(() => rmSync(parent, { recursive: true, force: true }));
  const root = join(parent, "personas");
  mkdirSync(root);
  return root;
}

const yaml = (description: string) => `description: ${description}\nmodel: builtin/echo\nsystem: You guide.\n`;

function write(root: string, path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

async function load(root: string): Promise<{ ids: string[]; errors: string[] }> {
  const { personas, errors } = await loadFolder(root);
  return {
    ids: personas.map(({ id }) => id),
    errors: errors.map((diagnostic) => formatDiagnostic(diagnostic).replace(`${root}/`, "")),
  };
}

describe("a folder that nobody has to make", () => {
  test("takes the place of what was served instead once it holds a persona, and gives it back", async () => {
    const root = makeRoot();
    rmSync(root, { recursive: true });
    const clock = new ManualClock();
    const personas = new Personas();
    const other = parsePersona(yaml("other"), "", "x/other");
    const otherwise = "persona" in other ? [other.persona] : [];
    const reloads: ReloadResult[] = [];
    const folder = new PersonaFolder({ path: root, personas, clock, otherwise, onReload: (one) => reloads.push(one) });
    cleanups.push(() => folder.close());
    const served = async () => {
      await folder.rescan();
      return personas.list().map(({ id }) => id);
    };
    expect(personas.list()).toEqual(otherwise);
    await folder.start();
    mkdirSync(root);
    expect(await served()).toEqual(["x/other"]);
    expect(reloads).toEqual([]);
    write(root, "a/one.yaml", "not a persona");
    write(root, "x/other.yaml", "neither");
    expect(await served()).toEqual(["x/other"]);
    write(root, "a/one.yaml", yaml("one"));
    expect(await served()).toEqual(["a/one"]);
    expect(reloads.at(-1)).toMatchObject({ added: ["a/one"], removed: ["x/other"], areOwn: true, labels: new Map() });
    unlinkSync(join(root, "a/one.yaml"));
    expect(await served()).toEqual(["x/other"]);
    expect(reloads.at(-1)).toMatchObject({ added: ["x/other"], removed: ["a/one"], areOwn: false });
  });
});

describe("reading a folder", () => {
  test("the path is the id; .yaml and .yml, in order", async () => {
    const root = makeRoot();
    for (const path of ["b/two.yml", "a/one.yaml", "b/one.dot-ted.yaml"]) write(root, path, yaml(path));
    expect(await load(root)).toEqual({ ids: ["a/one", "b/one.dot-ted", "b/two"], errors: [] });
  });

  test("dot files, editors' backups and other files are left alone", async () => {
    const root = makeRoot();
    write(root, "a/one.yaml", yaml("one"));
    for (const name of [
      ".one.yaml",
      ".#one.yaml",
      "one.yaml~",
      "#one.yaml#",
      "~one.yaml",
      "one.yaml.swp",
      "README.md",
    ]) {
      write(root, `a/${name}`, "not: [yaml");
    }
    write(root, "README.md", "# Personas");
    write(root, ".git/config.yaml", "x");
    expect(await load(root)).toEqual({ ids: ["a/one"], errors: [] });
  });

  test("errors have file, line and column; the others are taken", async () => {
    const root = makeRoot();
    write(root, "a/good.yaml", yaml("good"));
    write(root, "a/typo.yaml", `${yaml("typo")}temperatur: 1\n`);
    write(root, "a/late.yaml", `${yaml("late")}defaults:\n  temperature: 3\n`);
    expect(await load(root)).toEqual({
      ids: ["a/good"],
      errors: [
        "a/late.yaml:5:16: defaults.temperature: must be a number from 0 to 2",
        "a/typo.yaml:4:1: temperatur: is not a known key",
      ],
    });
  });

  test("what is misplaced, misnamed or doubled is named", async () => {
    const root = makeRoot();
    write(root, "stray.yaml", yaml("stray"));
    write(root, "Upper/one.yaml", yaml("one"));
    write(root, "a/Two.yaml", yaml("two"));
    write(root, "a/both.yaml", yaml("both"));
    write(root, "a/both.yml", yaml("both"));
    write(root, "a/deep/three.yaml", yaml("three"));
    symlinkSync("nowhere.yaml", join(root, "a/broken.yaml"));
    symlinkSync("nowhere", join(root, "gone"));
    symlinkSync("loop.yaml", join(root, "a/loop.yaml"));
    Bun.spawnSync(["mkfifo", join(root, "a/pipe.yaml")]);
    const rule = "must be of lower-case letters, digits, '.', '_' and '-', and begin with a letter or digit";
    expect(await load(root)).toEqual({
      ids: [],
      errors: [
        `Upper: This can't name a namespace, which ${rule}`,
        "a/broken.yaml: This is a link to nothing",
        "a/deep: This is not read: a namespace holds files only",
        "a/loop.yaml: This is a link to nothing",
        "a/pipe.yaml: This is no regular file",
        "gone: This is a link to nothing",
        "stray.yaml: A persona stands in a folder named for its namespace",
        `a/Two.yaml: 'a/Two' can't name a persona: each part ${rule}`,
        "a/both.yml: This stands beside both.yaml: one of them has to go",
      ],
    });
  });

  test("a file may have so many bytes and not one more, and is UTF-8", async () => {
    const root = makeRoot();
    const fill = (bytes: number) => yaml("big").padEnd(bytes, "#");
    write(root, "a/full.yaml", fill(maxFileBytes));
    write(root, "a/over.yaml", fill(maxFileBytes + 1));
    mkdirSync(join(root, "b"));
    writeFileSync(join(root, "b/latin.yaml"), Buffer.from("description: caf\xe9\n", "latin1"));
    writeFileSync(join(root, "b/marked.yaml"), `\ufeff${yaml("marked")}`);
    expect(await load(root)).toEqual({
      ids: ["a/full", "b/marked"],
      errors: ["a/over.yaml: This is larger than 256 KiB", "b/latin.yaml: This can't be read: it is not UTF-8"],
    });
  });

  test("many files are each taken for their own, and their errors told in order", async () => {
    const root = makeRoot();
    const names = Array.from({ length: 100 }, (_, at) => `p${String(at).padStart(2, "0")}`);
    for (const [at, name] of names.entries()) write(root, `a/${name}.yaml`, at % 20 === 19 ? "" : yaml(name));
    write(root, "a/p42.yml", yaml("p42"));
    const { personas, errors } = await loadFolder(root);
    const whole = names.filter((name, at) => at % 20 !== 19 && name !== "p42");
    expect(personas.map(({ id, description }) => [id, description])).toEqual(whole.map((name) => [`a/${name}`, name]));
    const invalid = ["p19.yaml", "p39.yaml", "p42.yml", "p59.yaml", "p79.yaml", "p99.yaml"];
    expect([...new Set(errors.map(({ file }) => file))]).toEqual(invalid.map((name) => join(root, "a", name)));
  });

  test("of too many files the first are served, and what is left out is named", async () => {
    const root = makeRoot();
    mkdirSync(join(root, "a"));
    const name = (at: number) => `p${String(at).padStart(4, "0")}`;
    for (let at = 0; at <= maxFiles; at += 1) writeFileSync(join(root, `a/${name(at)}.yaml`), yaml(name(at)));
    const { personas, errors } = await loadFolder(root);
    expect(personas).toHaveLength(maxFiles);
    expect(errors).toEqual([
      {
        file: root,
        line: 0,
        column: 0,
        path: "",
        message: `This holds ${maxFiles + 1} personas; at most ${maxFiles} are taken, and not a/${name(maxFiles)}`,
      },
    ]);
  });

  test("one file too many takes none away from those in service, whatever its name", async () => {
    const root = makeRoot();
    mkdirSync(join(root, "b"));
    for (let at = 0; at < maxFiles; at += 1) writeFileSync(join(root, `b/p${at}.yaml`), yaml(`p${at}`));
    const folder = new PersonaFolder({ path: root, personas: new Personas() });
    expect((await folder.rescan()).personas).toHaveLength(maxFiles);
    write(root, "a/first.yaml", yaml("first"));
    const { added, removed, errors } = await folder.rescan();
    expect([added, removed]).toEqual([[], []]);
    expect(errors[0]!.message).toEndWith("and not a/first");
    rmSync(join(root, "b/p7.yaml"));
    expect(await folder.rescan()).toMatchObject({ added: ["a/first"], removed: ["b/p7"], errors: [] });
    await folder.close();
  });

  test("a folder that is not there, or is none", async () => {
    const root = makeRoot();
    const [none, file] = [join(root, "none"), join(root, "file")];
    expect(await load(none)).toEqual({ ids: [], errors: [`${none}: This can't be read: it does not exist`] });
    writeFileSync(file, "");
    expect(await load(file)).toEqual({ ids: [], errors: [`${file}: This can't be read: it is no folder`] });
  });

  test("links are followed, files and namespaces alike", async () => {
    const root = makeRoot();
    write(root, ".elsewhere/one.yaml", yaml("one"));
    symlinkSync(".elsewhere", join(root, "a"));
    mkdirSync(join(root, "b"));
    symlinkSync("../.elsewhere/one.yaml", join(root, "b/two.yaml"));
    expect(await load(root)).toEqual({ ids: ["a/one", "b/two"], errors: [] });
  });
});

type Watched = {
  root: string;
  personas: Personas;
  folder: PersonaFolder;
  /** The next reload that changed something; those nobody waited for are kept. */
  next(): Promise<Summary>;
};
type Summary = { added: readonly string[]; changed: readonly string[]; removed: readonly string[]; errors: string[] };

const nothing: Summary = { added: [], changed: [], removed: [], errors: [] };

async function watched(root: string, clock?: ManualClock): Promise<Watched> {
  const reloads: Summary[] = [];
  let wake = () => {};
  const personas = new Personas();
  const onReload = ({ added, changed, removed, errors }: ReloadResult) => {
    reloads.push({
      added,
      changed,
      removed,
      errors: errors.map((one) => formatDiagnostic(one).replace(`${root}/`, "")),
    });
    wake();
  };
  const folder = new PersonaFolder({ path: root, personas, onReload, ...(clock && { clock }) });
  cleanups.push(() => folder.close());
  await folder.start();
  const next = async () => {
    while (reloads.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return reloads.shift()!;
  };
  return { root, personas, folder, next };
}

/** A running folder with `a/one` and `a/two` in service. */
async function running(): Promise<Watched> {
  const root = makeRoot();
  write(root, "a/one.yaml", yaml("first"));
  write(root, "a/two.yaml", yaml("second"));
  const all = await watched(root);
  expect(await all.next()).toEqual({ ...nothing, added: ["a/one", "a/two"] });
  return all;
}

const describedIn = ({ personas }: Watched) => personas.list().map(({ id, description }) => `${id} ${description}`);

describe("while running", () => {
  test("a file written in place", async () => {
    const all = await running();
    const [, two] = all.personas.list();
    write(all.root, "a/one.yaml", yaml("changed"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
    expect(describedIn(all)).toEqual(["a/one changed", "a/two second"]);
    expect(all.personas.find("a/two")).toBe(two!);
  });

  test("a file replaced by a rename, twice", async () => {
    const all = await running();
    for (const text of ["once", "twice"]) {
      write(all.root, "a/.one.tmp", yaml(text));
      renameSync(join(all.root, "a/.one.tmp"), join(all.root, "a/one.yaml"));
      expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
      expect(all.personas.find("a/one")?.description).toBe(text);
    }
  });

  test("a file moved to a backup and written anew, as vim does", async () => {
    const all = await running();
    renameSync(join(all.root, "a/one.yaml"), join(all.root, "a/one.yaml~"));
    write(all.root, "a/one.yaml", yaml("vim"));
    unlinkSync(join(all.root, "a/one.yaml~"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
    expect(describedIn(all)).toEqual(["a/one vim", "a/two second"]);
  });

  test("files that come and go, in a new namespace too", async () => {
    const all = await running();
    write(all.root, "b/three.yml", yaml("third"));
    expect(await all.next()).toEqual({ ...nothing, added: ["b/three"] });
    write(all.root, "b/three.yml", yaml("3rd"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["b/three"] });
    unlinkSync(join(all.root, "a/two.yaml"));
    expect(await all.next()).toEqual({ ...nothing, removed: ["a/two"] });
    rmSync(join(all.root, "b"), { recursive: true });
    expect(await all.next()).toEqual({ ...nothing, removed: ["b/three"] });
    expect(describedIn(all)).toEqual(["a/one first"]);
  });

  test("a broken file keeps the last good persona, says where it is broken, and lets the others through", async () => {
    const all = await running();
    write(all.root, "a/one.yaml", `${yaml("broken")}tier: gold\n`);
    write(all.root, "a/two.yaml", yaml("changed"));
    const diagnostic = 'a/one.yaml:4:7: tier: must be one of "free", "pro", "enterprise"';
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/two"], errors: [diagnostic] });
    expect(describedIn(all)).toEqual(["a/one first", "a/two changed"]);
    expect(all.folder.lastErrors).toHaveLength(1);

    write(all.root, "a/one.yaml", `${yaml("broken")}store: 1\n`);
    expect(await all.next()).toEqual({ ...nothing, errors: ["a/one.yaml:4:8: store: must be true or false"] });
    expect(describedIn(all)).toEqual(["a/one first", "a/two changed"]);

    write(all.root, "a/one.yaml", yaml("fixed"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
    expect(all.folder.lastErrors).toEqual([]);
    expect(describedIn(all)).toEqual(["a/one fixed", "a/two changed"]);
  });

  test("a broken new file brings nothing, and deleting a broken one takes its persona away", async () => {
    const all = await running();
    write(all.root, "a/new.yaml", "x: [");
    const { errors, added } = await all.next();
    expect([added, errors.length]).toEqual([[], 1]);
    expect(errors[0]).toStartWith("a/new.yaml:1:");
    write(all.root, "a/one.yaml", "x: [");
    expect((await all.next()).errors).toHaveLength(2);
    unlinkSync(join(all.root, "a/one.yaml"));
    expect(await all.next()).toMatchObject({ removed: ["a/one"], changed: [] });
    expect(describedIn(all)).toEqual(["a/two second"]);
  });

  test("two files for one persona: the last good one stays until one of them is gone", async () => {
    const all = await running();
    write(all.root, "a/one.yml", yaml("other"));
    const diagnostic = "a/one.yml: This stands beside one.yaml: one of them has to go";
    expect(await all.next()).toEqual({ ...nothing, errors: [diagnostic] });
    expect(all.personas.find("a/one")?.description).toBe("first");
    unlinkSync(join(all.root, "a/one.yaml"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
    expect(all.personas.find("a/one")?.description).toBe("other");
  });

  test("the folder replaced by another, and edits in the new one", async () => {
    const all = await running();
    const other = `${all.root}.new`;
    write(other, "a/one.yaml", yaml("replaced"));
    write(other, "c/four.yaml", yaml("fourth"));
    renameSync(all.root, `${all.root}.old`);
    renameSync(other, all.root);
    expect(await all.next()).toEqual({ added: ["c/four"], changed: ["a/one"], removed: ["a/two"], errors: [] });
    write(all.root, "c/four.yaml", yaml("edited"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["c/four"] });
  });

  test("the folder gone: everything stays and it is reported; back again, it is followed again", async () => {
    const all = await running();
    const kept = all.personas.list();
    renameSync(all.root, `${all.root}.away`);
    const gone = `${all.root}: This can't be read: it does not exist`;
    expect(await all.next()).toEqual({ ...nothing, errors: [gone] });
    expect(all.personas.list()).toEqual(kept);
    write(all.root, "a/one.yaml", yaml("back"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"], removed: ["a/two"] });
    write(all.root, "a/one.yaml", yaml("again"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
  });

  test("a mounted config map whose ..data link is swapped", async () => {
    const root = makeRoot();
    write(root, "..v1/a/one.yaml", yaml("v1"));
    write(root, "..v1/a/two.yaml", yaml("v1"));
    symlinkSync("..v1", join(root, "..data"));
    symlinkSync("..data/a", join(root, "a"));
    const all = await watched(root);
    expect(await all.next()).toEqual({ ...nothing, added: ["a/one", "a/two"] });
    write(root, "..v2/a/one.yaml", yaml("v2"));
    symlinkSync("..v2", join(root, "..data_tmp"));
    renameSync(join(root, "..data_tmp"), join(root, "..data"));
    rmSync(join(root, "..v1"), { recursive: true });
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"], removed: ["a/two"] });
    expect(describedIn(all)).toEqual(["a/one v2"]);
  });

  test("the folder itself being a link that is pointed elsewhere", async () => {
    const root = makeRoot();
    rmSync(root, { recursive: true });
    write(`${root}.1`, "a/one.yaml", yaml("release 1"));
    write(`${root}.2`, "a/one.yaml", yaml("release 2"));
    symlinkSync(`${root}.1`, root);
    const all = await watched(root);
    expect(await all.next()).toEqual({ ...nothing, added: ["a/one"] });
    symlinkSync(`${root}.2`, `${root}.tmp`);
    renameSync(`${root}.tmp`, root);
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
    write(`${root}.2`, "a/one.yaml", yaml("release 2.1"));
    expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
    expect(describedIn(all)).toEqual(["a/one release 2.1"]);
  });

  test("what no event tells is found by the poll", async () => {
    const root = makeRoot();
    const outside = makeRoot();
    write(outside, "one.yaml", yaml("far"));
    symlinkSync(outside, join(root, "a"));
    const clock = new ManualClock();
    const all = await watched(root, clock);
    expect(await all.next()).toEqual({ ...nothing, added: ["a/one"] });
    for (const text of ["farther", "farthest"]) {
      write(outside, "one.yaml", yaml(text));
      clock.advance(pollMs);
      expect(await all.next()).toEqual({ ...nothing, changed: ["a/one"] });
      expect(describedIn(all)).toEqual([`a/one ${text}`]);
    }
  });

  test("a rescan is there for the asking; what did not change is no news", async () => {
    const root = makeRoot();
    write(root, "a/one.yaml", yaml("first"));
    const reloads: ReloadResult[] = [];
    const personas = new Personas();
    const folder = new PersonaFolder({
      path: root,
      personas,
      clock: new ManualClock(),
      onReload: (result) => reloads.push(result),
    });
    cleanups.push(() => folder.close());
    await folder.start();
    const first = personas.find("a/one")!;
    expect(await folder.rescan()).toEqual({
      personas: [first],
      added: [],
      changed: [],
      removed: [],
      errors: [],
      areOwn: true,
      labels: new Map(),
    });
    write(root, "a/bad.yaml", "[]");
    expect((await folder.rescan()).errors).toHaveLength(1);
    expect((await folder.rescan()).errors).toHaveLength(1);
    expect(reloads.map(({ added, errors }) => [added.length, errors.length])).toEqual([
      [1, 0],
      [0, 1],
    ]);
    expect(personas.find("a/one")).toBe(first);
  });

  test("readings never overlap: calls during one share the next", async () => {
    const all = await running();
    const one = all.folder.rescan();
    const same = all.folder.rescan();
    expect(same).toBe(one);
    await one;
    expect(all.folder.rescan()).not.toBe(one);
  });

  test("after close nothing is taken over any more", async () => {
    const all = await running();
    const pending = all.folder.rescan();
    write(all.root, "a/one.yaml", yaml("late"));
    await all.folder.close();
    await pending;
    await all.folder.rescan();
    expect(describedIn(all)).toEqual(["a/one first", "a/two second"]);
  });
});
