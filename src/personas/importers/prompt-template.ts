/**
 * Templates of prompts (Handlebars, Mustache, Jinja, Nunjucks) as far as a persona can say them: text and plain variables. Loops,
 * conditions, filters and partials are refused with their line.
 */
import { ImportError } from "./source.ts";

export type Piece = string | { readonly variable: string };

/** A piece that a format knows beside variables, such as Dotprompt's `{{role "user"}}`. */
type Special<T> = (expression: string, line: number) => T | undefined;

type Syntax<T> = {
  /** The line of the file at which the text begins. */
  readonly firstLine: number;
  /** Names the part of the file, where it is no text file of lines. */
  readonly place?: string;
  readonly special?: Special<T>;
};

const expression = /\\\{\{|\{\{!--[\s\S]*?--\}\}|\{#[\s\S]*?#\}|\{%[\s\S]*?%\}|\{\{\{?([\s\S]*?)\}?\}\}/g;
const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

/** @throws ImportError naming the line of what can't be said */
export function templatePieces<T = never>(
  text: string,
  { firstLine, place, special }: Syntax<T>,
): (Piece | { readonly special: T })[] {
  const pieces: (Piece | { special: T })[] = [];
  let from = 0;
  for (const match of text.matchAll(expression)) {
    pieces.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const line = firstLine + text.slice(0, match.index).split("\n").length - 1;
    const inside = (match[1] ?? "").replace(/^~|~$/g, "").replace(/^&/, "").trim();
    if (match[0] === "\\{{") pieces.push("{{");
    else if (match[0].startsWith("{#") || match[0].startsWith("{{!")) continue;
    else if (match[0].startsWith("{%")) refuse(match[0], line, place);
    else if (variableName.test(inside) && special?.(inside, line) === undefined) pieces.push({ variable: inside });
    else {
      const found = special?.(inside, line);
      if (found === undefined) refuse(match[0], line, place);
      else pieces.push({ special: found });
    }
  }
  pieces.push(text.slice(from));
  return pieces.filter((piece) => piece !== "");
}

function refuse(marks: string, line: number, place: string | undefined): never {
  const shown = marks.length > 60 ? `${marks.slice(0, 59)}…` : marks;
  const where = place === undefined ? `line ${line}` : line === 1 ? place : `${place}, line ${line}`;
  throw new ImportError(
    where,
    `${shown.replaceAll("\n", " ")} can't be said by a persona's template, which has text and variables alone`,
  );
}

/** The names of variables, each once. */
export const variablesOf = (pieces: readonly Piece[]): string[] => [
  ...new Set(pieces.flatMap((piece) => (typeof piece === "string" ? [] : piece.variable))),
];

/** Without white space at its ends. */
export function trimPieces(pieces: readonly Piece[]): Piece[] {
  const trimmed = [...pieces];
  while (typeof trimmed[0] === "string" && trimmed[0].trim() === "") trimmed.shift();
  while (typeof trimmed.at(-1) === "string" && (trimmed.at(-1) as string).trim() === "") trimmed.pop();
  const [first] = trimmed;
  if (typeof first === "string") trimmed[0] = first.trimStart();
  const last = trimmed.at(-1);
  if (typeof last === "string") trimmed[trimmed.length - 1] = last.trimEnd();
  return trimmed;
}
