/**
 * A card's macros, as far as a persona can carry them. `{{user}}` becomes the variable `user`; what draws lots takes its first choice.
 * Source: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#curly-braced-syntaxes
 */
import type { PathPart } from "../../../../lib/json/schema-errors.ts";
import { joinTemplate, type Omissions } from "../draft.ts";
import { joinTexts, type Piece } from "../pieces.ts";

/** The variable that stands for `{{user}}`, and what clients call someone who gave no name. */
export const userVariable = "user";
export const defaultUser = "User";

export type { Piece };

/** `{{`, but for a brace before one. */
const opening = /\{\{(?!\{)|<(user|char|bot)>/gi;
/** Macros within macros are read so deep. */
const maxNesting = 8;

export class Macros {
  readonly #character: string;
  /** Variables that the card itself declares, in this program's extension of it. */
  readonly #declared: ReadonlySet<string>;
  readonly #omissions: Omissions;

  /** @param character the name that `{{char}}` stands for */
  constructor(character: string, declared: Iterable<string>, omissions: Omissions) {
    this.#character = character;
    this.#declared = new Set(declared);
    this.#omissions = omissions;
  }

  /** @param original what would stand there without the card @returns a template */
  template(text: string, path: readonly PathPart[], original: readonly Piece[] = []): string {
    return joinTemplate(this.#pieces(withoutTrims(text), path, original));
  }

  /** @returns text that no variables are filled into */
  plain(text: string, path: readonly PathPart[]): string {
    return this.#pieces(withoutTrims(text), path, [])
      .map((piece) => (typeof piece === "string" ? piece : piece.variable === userVariable ? defaultUser : ""))
      .join("");
  }

  #pieces(text: string, path: readonly PathPart[], original: readonly Piece[], nesting = 0): Piece[] {
    const pieces: Piece[] = [];
    let from = 0;
    for (const match of text.matchAll(opening)) {
      if (match.index < from) continue;
      const tag = match[1];
      const end = tag === undefined ? endOfMacro(text, match.index) : match.index + match[0].length;
      if (end === undefined) continue;
      const inside = tag ?? text.slice(match.index + 2, end - 2).trim();
      const piece = inside.toLowerCase() === "original" ? original : this.#piece(inside, path, nesting);
      if (piece === undefined) continue;
      pieces.push(text.slice(from, match.index), ...[piece].flat());
      from = end;
    }
    pieces.push(text.slice(from));
    return joinTexts(pieces);
  }

  /** @returns undefined for what is no macro that is known: it stays as it is written */
  #piece(inside: string, path: readonly PathPart[], nesting: number): Piece | readonly Piece[] | undefined {
    if (this.#declared.has(inside)) return { variable: inside };
    const [, name = "", value = ""] = /^([a-z_]+|\/\/)\s*(?::{1,2}\s*)?([\s\S]*)$/i.exec(inside) ?? [];
    const inner = (text: string) => (nesting < maxNesting ? this.#pieces(text, path, [], nesting + 1) : [text]);
    switch (name.toLowerCase()) {
      case "char":
      case "bot":
        return this.#character;
      case "user":
        return { variable: userVariable };
      case "//":
      case "comment":
      case "hidden_key":
      case "noop":
        return "";
      case "space":
        return " ".repeat(countIn(value));
      case "newline":
        return "\n".repeat(countIn(value));
      case "reverse":
        return inner(value)
          .map((piece) => (typeof piece === "string" ? [...piece].reverse().join("") : piece))
          .reverse();
      case "random":
      case "pick": {
        const [first = ""] = choicesIn(value);
        this.#omissions.add(path, `{{${name}}} takes its first choice, '${first.slice(0, 40)}'`);
        return inner(first);
      }
      default:
        this.#omissions.add(path, `{{${inside.slice(0, 40)}}} is not replaced: it stands there as text`);
        return undefined;
    }
  }
}

/** @returns the place behind the braces that close those at `from`, past macros within; undefined where nothing does */
function endOfMacro(text: string, from: number): number | undefined {
  let depth = 0;
  const braces = /\{\{|\}\}/g;
  braces.lastIndex = from;
  for (let found = braces.exec(text); found !== null; found = braces.exec(text)) {
    depth += found[0] === "{{" ? 1 : -1;
    if (depth === 0) return braces.lastIndex;
    if (depth > maxNesting) return undefined;
  }
  return undefined;
}

/** `{{trim}}` takes the line breaks around it away, with itself. */
const withoutTrims = (text: string): string => text.replace(/(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*/gi, "");

const countIn = (value: string): number => (/^\d{1,3}$/.test(value) ? Number(value) : 1);

/** Choices are parted by two colons, or else by commas, of which `\,` is none; those within a macro part nothing. */
function choicesIn(value: string): string[] {
  const marks = [...outsideMacros(value)];
  const isColons = marks.some(({ mark }) => mark === "::");
  const choices: string[] = [];
  let from = 0;
  for (const { mark, index } of marks) {
    if ((mark === "::") !== isColons) continue;
    choices.push(value.slice(from, index));
    from = index + mark.length;
  }
  return [...choices, value.slice(from)].map((one) => (isColons ? one : one.replaceAll("\\,", ",")).trim());
}

function* outsideMacros(value: string): Generator<{ readonly mark: string; readonly index: number }> {
  let depth = 0;
  for (const { 0: mark, index } of value.matchAll(/\{\{|\}\}|::|\\,|,/g)) {
    if (mark === "{{") depth += 1;
    else if (mark === "}}") depth -= 1;
    else if (depth === 0 && mark !== "\\,") yield { mark, index };
  }
}
