/**
 * A card's macros, as far as a persona can carry them. `{{user}}` becomes the variable `user`; what draws lots takes its first choice.
 * Source: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#curly-braced-syntaxes
 */
import type { PathPart } from "../../../lib/schema-errors.ts";
import { joinTemplate, type Omissions } from "../draft.ts";

/** The variable that stands for `{{user}}`, and what clients call someone who gave no name. */
export const userVariable = "user";
export const defaultUser = "User";

export type Piece = string | { readonly variable: string };

const macro = /\{\{\s*([^{}]*?)\s*\}\}|<(user|char|bot)>/gi;

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
    return joinTemplate(this.#pieces(text, path, original));
  }

  /** @returns text that no variables are filled into */
  plain(text: string, path: readonly PathPart[]): string {
    return this.#pieces(text, path, [])
      .map((piece) => (typeof piece === "string" ? piece : piece.variable === userVariable ? defaultUser : ""))
      .join("");
  }

  #pieces(text: string, path: readonly PathPart[], original: readonly Piece[]): Piece[] {
    const pieces: Piece[] = [];
    let from = 0;
    for (const match of text.matchAll(macro)) {
      const inside = (match[1] ?? match[2])!;
      const piece = inside.toLowerCase() === "original" ? original : this.#piece(inside, path);
      if (piece === undefined) continue;
      pieces.push(text.slice(from, match.index), ...[piece].flat());
      from = match.index + match[0].length;
    }
    pieces.push(text.slice(from));
    return pieces;
  }

  /** @returns undefined for what is no macro that is known: it stays as it is written */
  #piece(inside: string, path: readonly PathPart[]): Piece | undefined {
    if (this.#declared.has(inside)) return { variable: inside };
    const [, name = "", value = ""] = /^([a-z_]+|\/\/)\s*(?::{1,2}\s*)?([\s\S]*)$/i.exec(inside) ?? [];
    switch (name.toLowerCase()) {
      case "char":
      case "bot":
        return this.#character;
      case "user":
        return { variable: userVariable };
      case "//":
      case "comment":
      case "hidden_key":
        return "";
      case "reverse":
        return [...value].reverse().join("");
      case "random":
      case "pick": {
        const [first = ""] = value.split(/(?<!\\),/);
        this.#omissions.add(path, `{{${name}}} takes its first choice, '${first.slice(0, 40)}'`);
        return first.replaceAll("\\,", ",");
      }
      default:
        this.#omissions.add(path, `{{${inside.slice(0, 40)}}} is not replaced: it stands there as text`);
        return undefined;
    }
  }
}
