/** Mustache's templates as far as a persona can say them: variables and comments. Source: https://mustache.github.io/mustache.5.html */
import { joinTexts, markAt, type Piece, refuseMark, type TemplateText, variableName } from "../pieces.ts";

type Escaped = {
  readonly pieces: Piece[];
  /** Variables whose values are escaped for HTML there, each once. */
  readonly escaped: readonly string[];
};

const mark = /\{\{(?:!([\s\S]*?)\}\}|\{\s*([^{}]*?)\s*\}\}\}|(&?)\s*([^{}]*?)\s*\}\})/y;

/** @throws ImportError naming the line of what can't be said */
export function mustachePieces(source: TemplateText): Escaped {
  const { text } = source;
  const pieces: Piece[] = [];
  const escaped = new Set<string>();
  let from = 0;
  for (let at = text.indexOf("{{"); at >= 0; at = text.indexOf("{{", from)) {
    mark.lastIndex = at;
    const found = mark.exec(text) ?? refuseMark(source, at, markAt(text, at));
    const [whole, comment, unescaped, ampersand, plain] = found;
    const end = at + whole.length;
    if (comment === undefined) {
      const name = unescaped ?? plain ?? "";
      if (!variableName.test(name)) refuseMark(source, at, whole);
      pieces.push(text.slice(from, at), { variable: name });
      if (unescaped === undefined && ampersand === "") escaped.add(name);
      from = end;
    } else {
      const [start, next] = aloneOnItsLine(text, at, end) ?? [at, end];
      pieces.push(text.slice(from, Math.max(from, start)));
      from = next;
    }
  }
  return { pieces: joinTexts([...pieces, text.slice(from)]), escaped: [...escaped] };
}

/** A mark that writes nothing and stands alone on its lines takes them with it. @returns where they begin and end */
export function aloneOnItsLine(text: string, start: number, end: number): readonly [number, number] | undefined {
  const before = text.slice(0, start).match(/(?:^|\n)([ \t]*)$/)?.[1];
  const after = text.slice(end).match(/^[ \t]*(?:\r?\n|$)/)?.[0];
  return before === undefined || after === undefined ? undefined : [start - before.length, end + after.length];
}
