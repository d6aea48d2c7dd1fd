/**
 * Handlebars' templates as far as a persona can say them: variables, comments, partials without arguments, `~`, and `\{{`. What a format
 * has beside these is told by `special`. Source: https://handlebarsjs.com/guide/expressions.html
 */
import { joinTexts, markAt, type Piece, placeAt, refuseMark, type TemplateText, variableName } from "../pieces.ts";
import { aloneOnItsLine } from "./mustache.ts";

type HandlebarsText<T> = TemplateText & {
  /** An expression that a format knows beside variables, such as Dotprompt's `role "user"`. */
  readonly special?: (expression: string, place: string) => T | undefined;
  /** The text of a partial, without its own marks read. @throws ImportError */
  readonly partial?: (name: string, place: string) => string;
  /** Takes what its own program refuses and is read here. */
  readonly note?: (place: string, message: string) => void;
};

/** A piece, or what `special` told of one. */
type Node<T> = Piece | { readonly special: T };

/** Names that are helpers, values or operators of the language, and no variables. */
export const handlebarsWords: ReadonlySet<string> = new Set(
  "this else true false null undefined if unless each with lookup log".split(" "),
);
const comment = /\{\{(~?)!(?:--[\s\S]*?--(~?)|(?!--)[\s\S]*?)\}\}/y;
const partial = /\{\{(~?)>\s*([\w./-]+|"[^"]*"|'[^']*')\s*(~?)\}\}/y;
const unescaped = /\{\{(~?)\{\s*([^{}]*?)\s*\}(~?)\}\}/y;
const plain = /\{\{(~?)&?\s*([^{}~]*?)\s*(~?)\}\}(\}?)/y;
const maxPartials = 64;

/** @throws ImportError naming the line of what can't be said */
export function handlebarsPieces(source: Omit<HandlebarsText<never>, "special">): Piece[];
export function handlebarsPieces<T>(source: HandlebarsText<T>): Node<T>[];
export function handlebarsPieces<T>(source: HandlebarsText<T>): Node<T>[] {
  return new Reader(source, 0).read();
}

class Reader<T> {
  readonly #source: HandlebarsText<T>;
  readonly #depth: number;
  readonly #pieces: Node<T>[] = [];
  /** True behind a `~` at the end of a mark. */
  #isStripped = false;
  #from = 0;

  constructor(source: HandlebarsText<T>, depth: number) {
    this.#source = source;
    this.#depth = depth;
  }

  read(): Node<T>[] {
    const { text } = this.#source;
    for (let at = text.indexOf("{{"); at >= 0; at = text.indexOf("{{", this.#from)) {
      const before = text.slice(this.#from, at);
      if (/(?<!\\)\\$/.test(before)) {
        // What is escaped reaches to the next mark, escaped or not.
        const next = text.slice(at + 2).search(/\\{0,2}\{\{/);
        const end = next < 0 ? text.length : at + 2 + next;
        this.#add(before.slice(0, -1) + text.slice(at, end));
        this.#from = end;
      } else this.#mark(at, before.endsWith("\\\\") ? before.slice(0, -1) : before);
    }
    this.#add(text.slice(this.#from));
    return joinTexts(this.#pieces);
  }

  #add(text: string, isCutAtEnd = false): void {
    const start = this.#isStripped ? text.trimStart() : text;
    this.#pieces.push(isCutAtEnd ? start.trimEnd() : start);
    this.#isStripped = false;
  }

  #mark(at: number, before: string): void {
    const { text } = this.#source;
    if (this.#silent(at, before)) return;
    const isTriple = text.startsWith("{{{", at) || text.startsWith("{{~{", at);
    const found = matchAt(isTriple ? unescaped : plain, text, at);
    if (found === undefined) refuseMark(this.#source, at, markAt(text, at));
    const [whole, left, inside = "", right, brace = ""] = found;
    const place = placeAt(this.#source, at);
    this.#add(before, left === "~");
    this.#pieces.push(this.#nodeOf(inside, at, whole));
    this.#isStripped = right === "~";
    this.#from = at + whole.length - brace.length;
    if (brace !== "" && right === "")
      this.#source.note?.(place, `{{${inside}}}} is an error in Handlebars: it is read as {{${inside}}} and a brace`);
  }

  /** Comments, and partials, which may stand alone on their lines. */
  #silent(at: number, before: string): boolean {
    const { text } = this.#source;
    const found = matchAt(comment, text, at) ?? matchAt(partial, text, at);
    if (found === undefined) return false;
    const whole = found[0];
    const isPartial = found.length > 3;
    const [start, end] = aloneOnItsLine(text, at, at + whole.length) ?? [at, at + whole.length];
    const indent = text.slice(start, at);
    this.#add(before.slice(0, before.length - indent.length), found[1] === "~");
    this.#from = end;
    if (isPartial) this.#partial(found[2]!.replace(/^(["'])(.*)\1$/, "$2"), at, whole, indent);
    this.#isStripped = whole.endsWith("~}}");
    return true;
  }

  /** One that stands alone is written with its own indent before each line. */
  #partial(name: string, at: number, whole: string, indent: string): void {
    const { partial } = this.#source;
    if (partial === undefined || this.#depth >= maxPartials) refuseMark(this.#source, at, whole);
    const place = placeAt(this.#source, at);
    const text = partial(name, place).replace(/^(?=[^\n])/gm, indent);
    const { firstLine: _, ...options } = this.#source;
    const inner = new Reader<T>({ ...options, text, place: `${place} (${name})` }, this.#depth + 1);
    this.#pieces.push(...inner.read());
  }

  #nodeOf(inside: string, at: number, whole: string): Node<T> {
    const made = this.#source.special?.(inside, placeAt(this.#source, at));
    if (made !== undefined) return { special: made };
    const name = /^(?:this\.|\.\/|this\/|@root\.)?\[?([^[\]]+)\]?$/.exec(inside)?.[1] ?? "";
    if (!variableName.test(name) || handlebarsWords.has(inside)) return refuseMark(this.#source, at, whole);
    return { variable: name };
  }
}

export function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}
