/** What a template of another program comes to: pieces of text, and of plain variables, which is what a persona's template can say. */
import { ImportError } from "./source.ts";

export type Piece = string | { readonly variable: string };

/** A template in its file. */
export type TemplateText = {
  readonly text: string;
  /** The line of the file at which the text begins. Default 1. */
  readonly firstLine?: number;
  /** Names the part of the file, where it is no text file of lines. */
  readonly place?: string;
};

/** The name of a variable of a persona. */
export const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

/** @param index in the text @returns the place of the file, for people */
export function placeAt({ text, firstLine = 1, place }: TemplateText, index: number): string {
  const line = firstLine + text.slice(0, index).split("\n").length - 1;
  return place === undefined ? `line ${line}` : line === 1 ? place : `${place}, line ${line}`;
}

/** @param index of the mark @param mark as it is written @throws ImportError always */
export function refuseMark(source: TemplateText, index: number, mark: string): never {
  const shown = mark.length > 60 ? `${mark.slice(0, 59)}…` : mark;
  throw new ImportError(
    placeAt(source, index),
    `${shown.replaceAll("\n", " ")} can't be said by a persona's template, which has text and variables alone`,
  );
}

/** @param end what closes a mark @returns the mark that begins there; what is left of the line, where nothing closes it */
export function markAt(text: string, index: number, end = "}}"): string {
  const at = text.indexOf(end, index + 2);
  return at < 0 ? text.slice(index).split("\n", 1)[0]! : text.slice(index, at + end.length);
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

/** Joins texts that stand beside each other, and leaves out empty ones. */
export function joinTexts<T extends object>(pieces: readonly (string | T)[]): (string | T)[] {
  const joined: (string | T)[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    if (typeof piece === "string" && typeof last === "string") joined[joined.length - 1] = last + piece;
    else if (piece !== "") joined.push(piece);
  }
  return joined;
}
