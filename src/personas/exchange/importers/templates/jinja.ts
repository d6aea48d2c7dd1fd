/**
 * Jinja's templates, and Nunjucks', which are alike as far as a persona can say them: variables, texts in quotes, comments, `{% raw %}`
 * and dashes that take white space away. Sources: https://jinja.palletsprojects.com/en/stable/templates/,
 * https://mozilla.github.io/nunjucks/templating.html
 */

import { joinTexts, markAt, type Piece, refuseMark, type TemplateText, variableName } from "../pieces.ts";
import { matchAt } from "./handlebars.ts";

const comment = /\{#-?[\s\S]*?(-?)#\}/y;
const raw = /\{%(-?)\s*(raw|verbatim)\s*(-?)%\}/y;
const output = /\{\{(-?)\s*(?:([A-Za-z_]\w*)|"((?:[^"\\]|\\["'\\nt])*)"|'((?:[^'\\]|\\["'\\nt])*)')\s*(-?)\}\}/y;
/** Names that are values or operators of the language. */
const words = new Set(
  "true false none null True False None not and or in is if else self super loop caller".split(" "),
);

/** @throws ImportError naming the line of what can't be said */
export function jinjaPieces(source: TemplateText): Piece[] {
  const { text } = source;
  const pieces: Piece[] = [];
  let from = 0;
  /** Set by the dash at the end of the mark before. */
  let isStripped = false;
  const add = (given: string, isCutAtEnd: boolean) => {
    const start = isStripped ? given.trimStart() : given;
    pieces.push(isCutAtEnd ? start.trimEnd() : start);
    isStripped = false;
  };
  for (let at = nextMark(text, 0); at >= 0; at = nextMark(text, from)) {
    const [mark, left, right, made] = readMark(source, at);
    add(text.slice(from, at), left);
    if (made !== undefined) pieces.push(made);
    isStripped = right;
    from = at + mark.length;
  }
  add(text.slice(from), false);
  return joinTexts(pieces);
}

function nextMark(text: string, from: number): number {
  const found = text.slice(from).search(/\{[{%#]/);
  return found < 0 ? -1 : from + found;
}

type Mark = readonly [mark: string, left: boolean, right: boolean, piece?: Piece];

function readMark(source: TemplateText, at: number): Mark {
  const { text } = source;
  if (text.startsWith("{#", at)) {
    const found = matchAt(comment, text, at) ?? refuseMark(source, at, markAt(text, at, "#}"));
    return [found[0], found[0].startsWith("{#-"), found[1] === "-"];
  }
  if (text.startsWith("{%", at)) return readRaw(source, at);
  const found = matchAt(output, text, at);
  const [mark = "", left, name, double, single, right] = found ?? [];
  if (found === undefined || (name !== undefined && (words.has(name) || !variableName.test(name))))
    refuseMark(source, at, markAt(text, at));
  const piece = name === undefined ? unescaped(double ?? single ?? "") : { variable: name };
  return [mark, left === "-", right === "-", piece];
}

/** Text between `{% raw %}` and `{% endraw %}` is as it stands there. */
function readRaw(source: TemplateText, at: number): Mark {
  const { text } = source;
  const begun = matchAt(raw, text, at);
  if (begun === undefined) return refuseMark(source, at, markAt(text, at, "%}"));
  const [opening, left, name, isInnerStripped] = begun;
  const end = new RegExp(`\\{%(-?)\\s*end${name}\\s*(-?)%\\}`, "g");
  end.lastIndex = at + opening.length;
  const found = end.exec(text);
  if (found === null) return refuseMark(source, at, opening);
  let inner = text.slice(at + opening.length, found.index);
  if (isInnerStripped === "-") inner = inner.trimStart();
  if (found[1] === "-") inner = inner.trimEnd();
  return [text.slice(at, end.lastIndex), left === "-", found[2] === "-", inner];
}

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t" };
const unescaped = (text: string) => text.replace(/\\(.)/g, (_, letter: string) => escapes[letter] ?? letter);
