/**
 * The YAML that people write: mappings and lists by indentation, or in brackets on one line; plain and quoted text on one
 * line, and blocks of text. Here it is read twenty times as fast as by the YAML library. Whatever else a text has (anchors,
 * tags, escapes, repeated keys, a mistake) is not for here: the answer is "not plain", and the library reads it or finds the
 * fault. What is read here the library would read to the same value, without a fault; a test holds the two together.
 */

/** @returns the value, in an object of its own; undefined: the text is not plain, which says nothing about it */
export function readPlainYaml(text: string): { readonly value: unknown } | undefined {
  // Tabs, carriage returns, other control characters and line breaks, and a mark of the byte order.
  if (/[^\n\x20-\x7e\xa0-\u2027\u202a-\ufefe\uff00-\uffff]/.test(text)) return undefined;
  try {
    return { value: new BlockReader(text.split("\n")).readAll() };
  } catch (error) {
    if (error instanceof NotPlain) return undefined;
    throw error;
  }
}

class NotPlain extends Error {}

function notPlain(): never {
  throw new NotPlain();
}

const mostDepth = 40;
/** What begins a key, and what may be in it: never a number, a merge or a sign. */
const keyed = /^([A-Za-z_][\w./-]{0,99}):(?: +(.*))?$/;
const itemed = /^-( +)([^ ].*)$/;
const blank = /^ *(?:#.*)?$/;

type Mapping = Record<string, unknown>;

/** Goes through the lines from top to bottom. */
class BlockReader {
  readonly #lines: string[];
  #at = 0;

  constructor(lines: string[]) {
    this.#lines = lines;
  }

  readAll(): unknown {
    const indent = this.#nextIndent();
    if (indent === undefined) return null;
    const value = indent === 0 ? this.#block(0, 0) : notPlain();
    return this.#nextIndent() === undefined ? value : notPlain();
  }

  /** Skips what says nothing. @returns where the next line begins; undefined at the end */
  #nextIndent(): number | undefined {
    while (this.#at < this.#lines.length && blank.test(this.#line)) this.#at += 1;
    return this.#at < this.#lines.length ? indentOf(this.#line) : undefined;
  }

  get #line(): string {
    return this.#lines[this.#at]!;
  }

  #block(indent: number, depth: number): unknown {
    if (depth > mostDepth) notPlain();
    return this.#line.startsWith("- ", indent) ? this.#list(indent, depth) : this.#mapping(indent, depth);
  }

  #mapping(indent: number, depth: number): Mapping {
    const mapping: Mapping = {};
    do {
      const [, key = notPlain(), rest = ""] = keyed.exec(this.#line.slice(indent)) ?? notPlain();
      put(mapping, key, () => {
        this.#at += 1;
        return this.#value(rest, indent, depth, "key");
      });
    } while (this.#goesOn(indent));
    return mapping;
  }

  #list(indent: number, depth: number): unknown[] {
    const list: unknown[] = [];
    do {
      const [, space = notPlain(), rest = notPlain()] = itemed.exec(this.#line.slice(indent)) ?? notPlain();
      if (keyed.test(rest)) {
        // A mapping that begins beside the dash stands where its first key does.
        const inner = indent + 1 + space.length;
        this.#lines[this.#at] = " ".repeat(inner) + rest;
        list.push(this.#mapping(inner, depth + 1));
      } else {
        this.#at += 1;
        list.push(this.#value(rest, indent, depth, "item"));
      }
    } while (this.#goesOn(indent) && this.#line.startsWith("- ", indent));
    return list;
  }

  #goesOn(indent: number): boolean {
    const next = this.#nextIndent();
    // Deeper than what it would have to belong to: a text of several lines, or a mistake.
    return next !== undefined && next > indent ? notPlain() : next === indent;
  }

  /** @param rest what stands behind a key or a dash; the lines below it come next */
  #value(rest: string, indent: number, depth: number, of: "key" | "item"): unknown {
    const header = /^([|>])(-?)$/.exec(rest);
    if (header !== null) return this.#text(indent, header[1] === ">", header[2] === "-");
    if (rest !== "" && !rest.startsWith("#")) return readInline(rest);
    const next = this.#nextIndent();
    if (next === undefined || next < indent) return null;
    const isListBelowKey = of === "key" && next === indent && this.#line.startsWith("- ", indent);
    return next > indent || isListBelowKey ? this.#block(next, depth + 1) : null;
  }

  #text(parent: number, folded: boolean, stripped: boolean): string {
    const from = this.#at;
    while (this.#at < this.#lines.length && (this.#line.trim() === "" || indentOf(this.#line) > parent)) this.#at += 1;
    const lines = this.#lines.slice(from, this.#at);
    while (lines.at(-1) === "") lines.pop();
    const indent = indentOf(lines.find((line) => line !== "") ?? notPlain());
    const isEven = lines.every((line) =>
      folded ? indentOf(line) === indent : line === "" || indentOf(line) >= indent,
    );
    // Spaces alone, and in a folded text blank lines and deeper ones, follow rules of their own.
    if (!isEven || lines.some((line) => line !== "" && line.trim() === "")) notPlain();
    return lines.map((line) => line.slice(indent)).join(folded ? " " : "\n") + (stripped ? "" : "\n");
  }
}

const indentOf = (line: string) => line.search(/[^ ]|$/);

function put(mapping: Mapping, key: string, read: () => unknown): void {
  if (Object.hasOwn(mapping, key) || key === "__proto__" || typeof scalarOf(key) !== "string") notPlain();
  mapping[key] = read();
}

/** A value on one line: brackets, or text with or without quotes; and a comment behind it. */
function readInline(text: string): unknown {
  const reader = new InlineReader(text);
  const value = reader.read("block", 0);
  return reader.isAtEnd() ? value : notPlain();
}

/** Plain text: it begins with no sign, and neither `: ` nor ` #` is in it; between brackets no bracket and no comma either. */
const plainText = {
  block: /(?:[A-Za-z0-9_/.($\xa0-\uffff]|-(?=[0-9]))(?:[^ :#]|:(?=[^ ])|#| +(?=[^ #]))*/y,
  flow: /(?:[A-Za-z0-9_/.($\xa0-\uffff]|-(?=[0-9]))(?:[^ :#,[\]{}]|:(?=[^ ,[\]{}])|#| +(?=[^ #:,[\]{}]))*/y,
};
const quotedText = /"([^"\\]*)"|'([^']*)'/y;
const flowKey = /([A-Za-z_][\w.-]{0,99}): +/y;
const spaces = / */y;

class InlineReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** @param where whether it stands between brackets */
  read(where: "block" | "flow", depth: number): unknown {
    if (depth > mostDepth) notPlain();
    const first = this.#text[this.#at];
    if (first === "[") return this.#flowList(depth);
    if (first === "{") return this.#flowMapping(depth);
    const quoted = this.#take(quotedText);
    if (quoted !== undefined) return quoted[1] ?? quoted[2];
    return scalarOf((this.#take(plainText[where]) ?? notPlain())[0]);
  }

  isAtEnd(): boolean {
    return /^ *$|^ +#/.test(this.#text.slice(this.#at));
  }

  #flowList(depth: number): unknown[] {
    const list: unknown[] = [];
    this.#eachUntil("]", () => list.push(this.read("flow", depth + 1)));
    return list;
  }

  #flowMapping(depth: number): Mapping {
    const mapping: Mapping = {};
    this.#eachUntil("}", () => {
      const [, key = notPlain()] = this.#take(flowKey) ?? notPlain();
      put(mapping, key, () => this.read("flow", depth + 1));
    });
    return mapping;
  }

  #eachUntil(close: string, readOne: () => void): void {
    this.#at += 1;
    this.#take(spaces);
    while (this.#text[this.#at] !== close) {
      readOne();
      this.#take(spaces);
      const next = this.#text[this.#at];
      if (next === ",") this.#at += 1;
      else if (next !== close) notPlain();
      this.#take(spaces);
    }
    this.#at += 1;
  }

  #take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text) ?? undefined;
    if (found !== undefined) this.#at = pattern.lastIndex;
    return found;
  }
}

const words = new Map<string, unknown>(Object.entries({ true: true, false: false, null: null }));

/** What a plain text means. Source: https://yaml.org/spec/1.2.2/#103-core-schema */
function scalarOf(text: string): unknown {
  if (words.has(text)) return words.get(text);
  if (/^(?:0|-?[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?$/.test(text)) return Number(text);
  const isOddNumber = /^[-+]?(?:\.[0-9]+|[0-9]+\.?[0-9]*)(?:e[-+]?[0-9]+)?$|^0[xo]|^[-+]?\.(?:inf|nan)$/i.test(text);
  const isOddWord = words.has(text.toLowerCase());
  return isOddNumber || isOddWord ? notPlain() : text;
}
