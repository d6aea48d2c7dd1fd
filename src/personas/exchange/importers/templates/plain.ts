/**
 * Texts in which `{{name}}` is filled in and nothing else means anything: OpenAI's prompt objects, Open WebUI's and LibreChat's prompts.
 * Source: https://developers.openai.com/api/docs/guides/prompting
 */
import { joinTexts, type Piece } from "../pieces.ts";

const variable = /\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}/g;

/** @param isVariable which names are filled in. Default: all */
export function plainPieces(text: string, isVariable: (name: string) => boolean = () => true): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const { 0: mark, 1: name, index } of text.matchAll(variable)) {
    if (!isVariable(name!)) continue;
    pieces.push(text.slice(from, index), { variable: name! });
    from = index + mark.length;
  }
  return joinTexts([...pieces, text.slice(from)]);
}

/** What looks like a variable to people, and is text by these rules, in order. */
export const unnamedMarks = (pieces: readonly Piece[]): string[] =>
  pieces.flatMap((piece) =>
    typeof piece === "string" ? [...piece.matchAll(/\{\{[^{}\n]{1,80}\}\}/g)].map(String) : [],
  );
