/**
 * `{{> partial}}` and `system_file`: text of other files of the folder, put in its place when a persona is read. A partial is a Markdown
 * or text file, named by its path relative to the file that names it; without an ending it is a `.md`. It may include others, and use
 * the persona's variables. Nothing outside the folder is read. Pure: a folder gives the texts.
 */
import { posix } from "node:path";
import type { Position } from "../../lib/yaml/yaml.ts";
import { findMarks } from "../compose/template.ts";

/** A text of the folder, or why there is none, as a sentence without its subject. */
export type PartialText =
  | { readonly text: string }
  | { readonly problem: string /** True for a file that is no text. */; readonly isBinary?: boolean };

/** The texts that personas may include. */
export interface Partials {
  /**
   * @param path within the folder; one that ends in "/" is a glob of folders, whose text lists them and their files
   * @returns undefined where it was not read yet
   */
  find(path: string): PartialText | undefined;
  /** The name of a file in errors. */
  nameOf(path: string): string;
}

/** For a text that stands alone. */
export const noPartials: Partials = {
  find: () => ({ problem: "can't be read: this persona is not in a folder" }),
  nameOf: (path) => path,
};

/** A part of an expanded text. */
type Piece = {
  /** Where it begins in the expanded text, and in its own. */
  readonly start: number;
  readonly index: number;
  /** The partial that it comes from; undefined: the persona's own text. */
  readonly path: string | undefined;
};

type IncludeError = Pick<Piece, "path" | "index"> & { readonly message: string };

export type Expanded = {
  readonly text: string;
  readonly pieces: readonly Piece[];
  readonly errors: readonly IncludeError[];
  /** Paths of partials that were asked for and not read yet: the text is not whole without them. */
  readonly missing: readonly string[];
  /** Paths of all partials that it needs. */
  readonly uses: readonly string[];
};

const maxDepth = 8;
const maxIncludes = 1000;
const maxLength = 256 * 1024;

/** An include, or an escape that is none. A mark with anything else behind `{{>` is no include, and refused like any stray one. */
const includeMarks = /\\\{\{|\{\{>[ \t]*([^\s{}]+)[ \t]*\}\}/g;
const ending = /\.(?:md|txt)$/i;

/**
 * @param text the persona's `system`; or undefined, and `systemFile` is the name of the file that holds it
 * @param from the path of the persona's file within the folder
 */
export function expandIncludes(
  from: string,
  own: { readonly text: string } | { readonly systemFile: string },
  partials: Partials,
): Expanded {
  const expansion = new Expansion(partials);
  if ("text" in own) expansion.add(own.text, undefined, [from]);
  else expansion.include(own.systemFile, undefined, 0, [from]);
  return expansion;
}

class Expansion implements Expanded {
  text = "";
  readonly pieces: Piece[] = [];
  readonly errors: IncludeError[] = [];
  readonly #missing = new Set<string>();
  readonly #uses = new Set<string>();
  readonly #partials: Partials;
  #includes = 0;
  /** Set with the first error of size, after which nothing more is added. */
  #isFull = false;

  constructor(partials: Partials) {
    this.#partials = partials;
  }

  get missing(): string[] {
    return [...this.#missing];
  }

  get uses(): string[] {
    return [...this.#uses];
  }

  /** @param within the files that include each other down to this one, whose path is the last */
  add(text: string, path: string | undefined, within: readonly string[]): void {
    let from = 0;
    for (const { 0: whole, 1: name, index } of text.matchAll(includeMarks)) {
      if (name === undefined) continue;
      this.#addPiece(text.slice(from, index), path, from);
      this.include(name, path, index, within);
      from = index + whole.length;
      if (this.#isFull) return;
    }
    this.#addPiece(text.slice(from), path, from);
  }

  /** @param path of the file that names it @param index of its mark there */
  include(name: string, path: string | undefined, index: number, within: readonly string[]): void {
    const problem = this.#problemWith(name, within);
    if (problem === undefined) return;
    this.errors.push({ path, index, message: problem });
  }

  /** Adds the text of a file. @returns what keeps it from being added */
  #problemWith(name: string, within: readonly string[]): string | undefined {
    const found = pathOf(within.at(-1)!, name);
    if ("problem" in found) return `'${name}' ${found.problem}`;
    const { path } = found;
    if (within.includes(path))
      return `'${name}' includes itself: ${[...within.slice(within.indexOf(path)), path].join(" → ")}`;
    if (within.length > maxDepth) return `'${name}' is included more than ${maxDepth} files deep`;
    this.#includes += 1;
    if (this.#includes > maxIncludes) {
      this.#isFull = true;
      return `has more than ${maxIncludes} includes`;
    }
    this.#uses.add(path);
    const partial = this.#partials.find(path);
    if (partial === undefined) {
      this.#missing.add(path);
      return undefined;
    }
    if ("problem" in partial) return `'${name}' ${partial.problem}`;
    if (this.text.length + partial.text.length > maxLength) {
      this.#isFull = true;
      return `is longer than ${maxLength} characters with '${name}'`;
    }
    this.add(partial.text.trimEnd(), path, [...within, path]);
    return undefined;
  }

  #addPiece(text: string, path: string | undefined, index: number): void {
    if (text === "") return;
    this.pieces.push({ start: this.text.length, index, path });
    this.text += text;
  }
}

/** @param from the path of the file that names it */
function pathOf(from: string, name: string): { readonly path: string } | { readonly problem: string } {
  if (name.startsWith("/") || /^[A-Za-z]:/.test(name)) return { problem: "must be relative to the file that names it" };
  if (name.includes("\\") || name.includes("\0")) return { problem: "must be written with '/'" };
  const path = posix.join(posix.dirname(from), name);
  if (path.startsWith("../") || path === "..") return { problem: "leads out of the folder of personas" };
  if (/\.ya?ml$/i.test(path)) return { problem: "is a YAML file; what is included is Markdown or text" };
  return { path: ending.test(path) ? path : `${path}.md` };
}

/** @returns the place in its own file of what stands at that place of the expanded text */
export function pieceAt({ pieces }: Pick<Expanded, "pieces">, at: number): Pick<Piece, "path" | "index"> {
  const piece = pieces.findLast(({ start }) => start <= at) ?? { start: 0, index: 0, path: undefined };
  return { path: piece.path, index: piece.index + at - piece.start };
}

export function positionIn(text: string, index: number): Position {
  const before = text.slice(0, index);
  return { line: before.split("\n").length, column: before.length - before.lastIndexOf("\n") };
}

/**
 * A place in a YAML file of a mark that stands in one of its texts. Marks have no escapes in YAML, so the same ones stand in the file, in
 * the same order, from where the text begins.
 * @param start of the text @param value the text @param index of the mark there
 */
export function positionInYaml(file: string, start: Position, value: string, index: number): Position | undefined {
  const number = findMarks(value.slice(0, index)).length;
  const offset = file.split("\n", start.line - 1).reduce((sum, line) => sum + line.length + 1, start.column - 1);
  const mark = findMarks(file.slice(offset))[number];
  return mark && positionIn(file, offset + mark.index);
}
