/** Finds the skills that a persona names, among the texts of its folder. Pure: a folder gives the lists and texts. */
import { posix } from "node:path";
import type { Diagnostic } from "../../lib/yaml/yaml.ts";
import type { Partials } from "../file/includes.ts";
import { charactersOf, maxCharacters, maxFileCharacters, type Skill, tooManyCharacters } from "./schema.ts";
import { parseSkill } from "./skill-file.ts";

type Field = readonly (string | Skill)[];

type FoundSkills = {
  readonly skills: readonly Skill[];
  /** Paths that were asked for and not read yet: the skills are not whole without them. */
  readonly missing: readonly string[];
  readonly uses: readonly string[];
  /** What is wrong with an entry of the field, by its place there. */
  readonly errors: readonly { readonly at: number; readonly message: string }[];
  /** What is wrong with their files. */
  readonly faults: readonly Diagnostic[];
};

const heads = ["SKILL.md", "skill.md"];

/** @param from the path of the persona's file within the folder */
export function findSkills(field: Field, from: string, partials: Partials): FoundSkills {
  const finder = new Finder(partials);
  for (const [at, entry] of field.entries()) {
    if (typeof entry !== "string") finder.add(entry, at);
    else finder.find(entry, at, from);
  }
  return finder;
}

class Finder implements FoundSkills {
  readonly skills: Skill[] = [];
  readonly missing: string[] = [];
  readonly uses: string[] = [];
  readonly errors: { at: number; message: string }[] = [];
  readonly faults: Diagnostic[] = [];
  readonly #partials: Partials;
  #characters = 0;

  constructor(partials: Partials) {
    this.#partials = partials;
  }

  add(skill: Skill, at: number) {
    if (this.skills.some(({ name }) => name === skill.name)) {
      this.#report(at, `has a skill '${skill.name}', as another entry has`);
      return;
    }
    this.#characters += charactersOf(skill);
    if (this.#characters > maxCharacters) return this.#report(at, tooManyCharacters);
    this.skills.push(skill);
  }

  /** @param glob of folders, relative to the persona's file */
  find(glob: string, at: number, from: string) {
    const path = posix.join(posix.dirname(from), glob.replace(/\/+$/, ""));
    if (glob.startsWith("/") || glob.includes("\\") || glob.includes("\0") || path.startsWith(".."))
      return this.#report(at, `'${glob}' must be a path within the folder of personas, relative to this file`);
    const listed = this.#text(`${path}/`);
    if (listed === undefined) return;
    if ("problem" in listed) return this.#report(at, `'${glob}' ${listed.problem}`);
    const lines = listed.text.split("\n").filter((line) => line !== "");
    const folders = lines.filter((line) => line.endsWith("/"));
    if (folders.length === 0) return this.#report(at, `'${glob}' is no folder with a SKILL.md`);
    for (const folder of folders)
      this.#take(
        folder,
        lines.filter((line) => line !== folder && line.startsWith(folder)),
        at,
      );
  }

  #take(folder: string, paths: readonly string[], at: number) {
    const head = heads.map((name) => `${folder}${name}`).find((path) => paths.includes(path));
    if (head === undefined) return this.#report(at, `'${folder}' has no SKILL.md`);
    const main = this.#text(head);
    const others = paths.filter((path) => path !== head).map((path) => ({ path, read: this.#text(path) }));
    if (main === undefined || others.some(({ read }) => read === undefined)) return;
    const known = this.faults.length;
    const texts: [string, string][] = [];
    const notText: string[] = [];
    for (const { path, read } of others) {
      const name = path.slice(folder.length);
      if ("text" in read!) texts.push([name, this.#bounded(path, read.text)]);
      else if (read!.isBinary === true) notText.push(name);
      else this.#fault(path, read!.problem);
    }
    if ("problem" in main) return this.#fault(head, main.problem);
    const parsed = parseSkill(this.#bounded(head, main.text), this.#partials.nameOf(head), posix.basename(folder));
    if ("errors" in parsed) {
      this.faults.push(...parsed.errors);
      return;
    }
    if (this.faults.length > known) return;
    this.add(
      {
        ...parsed.skill,
        ...(texts.length > 0 && { files: Object.fromEntries(texts) }),
        ...(notText.length > 0 && { not_text: notText }),
      },
      at,
    );
  }

  #bounded(path: string, text: string): string {
    if (text.length > maxFileCharacters) this.#fault(path, `is longer than ${maxFileCharacters} characters`);
    return text;
  }

  #text(path: string) {
    this.uses.push(path);
    const found = this.#partials.find(path);
    if (found === undefined) this.missing.push(path);
    return found;
  }

  #report(at: number, message: string): void {
    this.errors.push({ at, message });
  }

  #fault(path: string, message: string): void {
    this.faults.push({ file: this.#partials.nameOf(path), line: 1, column: 1, path: "", message });
  }
}
