/**
 * Splits Markdown and plain text into sections of bounded size, at headings and then at paragraphs. Joined, they are the text again.
 * Headings and fences are those of https://spec.commonmark.org/0.31.2/.
 */

export type TextSection = {
  /** The headings above it, the outermost first; its own is the last. */
  readonly headings: readonly string[];
  /** Numbers of its first and last line in the file, from 1. */
  readonly firstLine: number;
  readonly lastLine: number;
  /** With its heading, its blank lines and its line ends. */
  readonly text: string;
};

/** A section of a file that was found for a question. */
export type FoundSection = {
  /** As the globs name it: relative to the persona's file. */
  readonly file: string;
  /** The headings above it, the outermost first, as `A > B`; empty: there is none. */
  readonly heading: string;
  readonly firstLine: number;
  readonly lastLine: number;
  readonly text: string;
  /** By BM25: higher is better; numbers of two questions can't be compared. */
  readonly score: number;
};

/** Bytes of a section: some 600 tokens, so that several fit into what a persona allows by default. */
export const maxSectionBytes = 2_400;

const atxMarks = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const setextLine = /^ {0,3}(=+|-+)[ \t]*$/;
const fenceStart = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/;
/** Lists, quotes, tables and indented code, whose text is no heading when a line of `---` follows. */
const otherBlock = /^(?: {4}|\t| {0,3}(?:[-+*][ \t]|[>|]|\d{1,9}[.)][ \t]))/;

export function splitSections(text: string, isMarkdown: boolean): TextSection[] {
  const lines = linesOf(text);
  const found = isMarkdown ? headingsIn(lines) : { starts: [], fenced: new Set<number>() };
  const sections: TextSection[] = [];
  const path: { level: number; title: string }[] = [];
  let from = 0;
  const take = (to: number) => {
    if (to > from) {
      const headings = path.map(({ title }) => title).filter((title) => title !== "");
      sections.push(...bounded(lines, from, to, found.fenced, headings));
    }
    from = to;
  };
  for (const { line, level, title } of found.starts) {
    take(line);
    while (path.length > 0 && path.at(-1)!.level >= level) path.pop();
    path.push({ level, title });
  }
  take(lines.length);
  return sections;
}

/** Lines with their ends: LF, CRLF or CR. */
function linesOf(text: string): string[] {
  return text.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) ?? [];
}

const bare = (line: string) => line.replace(/[\r\n]+$/, "");

type Start = { readonly line: number; readonly level: number; readonly title: string };

/** @returns the headings, and the lines that can't begin a section as they stand within a fence */
function headingsIn(lines: readonly string[]): { starts: Start[]; fenced: ReadonlySet<number> } {
  const starts: Start[] = [];
  const fenced = new Set<number>();
  let fence: { mark: string; length: number } | undefined;
  let paragraph: number | undefined;
  let isOther = false;
  for (let at = frontMatterEnd(lines); at < lines.length; at += 1) {
    const line = bare(lines[at]!);
    if (fence !== undefined) {
      fenced.add(at);
      if (closes(line, fence)) fence = undefined;
      continue;
    }
    const opened = fenceStart.exec(line);
    const title = atxTitle(line);
    if (opened !== null && !(opened[1]!.startsWith("`") && opened[2]!.includes("`"))) {
      fence = { mark: opened[1]![0]!, length: opened[1]!.length };
      paragraph = undefined;
      isOther = false;
    } else if (title !== undefined) {
      starts.push({ line: at, ...title });
      paragraph = undefined;
      isOther = false;
    } else if (line.trim() === "") {
      paragraph = undefined;
      isOther = false;
    } else if (paragraph !== undefined && setextLine.test(line)) {
      const words = lines.slice(paragraph, at).map((one) => one.trim());
      starts.push({ line: paragraph, level: line.includes("=") ? 1 : 2, title: words.join(" ") });
      paragraph = undefined;
    } else if (otherBlock.test(line)) {
      paragraph = undefined;
      isOther = true;
    } else if (!isOther) paragraph ??= at;
  }
  return { starts, fenced };
}

function atxTitle(line: string): { level: number; title: string } | undefined {
  const marks = atxMarks.exec(line);
  if (marks === null) return undefined;
  const words = line.slice(marks[0].length).trim();
  const closing = words.length - wordsEnd(words);
  const isClosed = closing > 0 && /^[ \t]?$/.test(words.charAt(wordsEnd(words) - 1));
  return { level: marks[1]!.length, title: isClosed ? words.slice(0, wordsEnd(words)).trim() : words };
}

/** @returns where the closing `#` begin */
function wordsEnd(words: string): number {
  let end = words.length;
  while (end > 0 && words[end - 1] === "#") end -= 1;
  return end;
}

function closes(line: string, { mark, length }: { mark: string; length: number }): boolean {
  const text = line.trim();
  return /^ {0,3}\S/.test(line) && text.length >= length && text === mark.repeat(text.length);
}

/** @returns the number of lines of YAML between two `---` at the beginning, with these */
function frontMatterEnd(lines: readonly string[]): number {
  if (lines.length === 0 || bare(lines[0]!).trimEnd() !== "---") return 0;
  const end = lines.findIndex((line, at) => at > 0 && /^(?:---|\.\.\.)\s*$/.test(bare(line)));
  return end < 0 ? 0 : end + 1;
}

/** Cuts lines `from` to `to` into sections of at most `maxSectionBytes`: behind blank lines if it can be, and outside of fences. */
function bounded(
  lines: readonly string[],
  from: number,
  to: number,
  fenced: ReadonlySet<number>,
  headings: readonly string[],
): TextSection[] {
  const sections: TextSection[] = [];
  let start = from;
  let bytes = 0;
  let good: number | undefined;
  const cut = (end: number) => {
    if (end > start) {
      const text = lines.slice(start, end).join("");
      sections.push({ headings, firstLine: start + 1, lastLine: end, text });
    }
    start = end;
    good = undefined;
  };
  for (let at = from; at < to; at += 1) {
    const size = Buffer.byteLength(lines[at]!);
    if (at > start && !fenced.has(at) && bare(lines[at - 1]!).trim() === "") good = at;
    if (bytes + size > maxSectionBytes && at > start) {
      cut(good ?? at);
      bytes = 0;
      for (let line = start; line < at; line += 1) bytes += Buffer.byteLength(lines[line]!);
    }
    if (bytes + size > maxSectionBytes && at > start) {
      cut(at);
      bytes = 0;
    }
    if (size > maxSectionBytes) {
      for (const text of piecesOf(lines[at]!)) {
        sections.push({ headings, firstLine: at + 1, lastLine: at + 1, text });
      }
      start = at + 1;
      bytes = 0;
    } else bytes += size;
  }
  cut(to);
  return sections;
}

/** A line that is too long, cut behind spaces where it has some. */
function piecesOf(line: string): string[] {
  const pieces: string[] = [];
  let rest = line;
  for (;;) {
    let end = beginningOf(rest, maxSectionBytes).length;
    if (end === rest.length) break;
    const space = rest.lastIndexOf(" ", end - 1);
    if (space > end / 2) end = space + 1;
    pieces.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return rest === "" ? pieces : [...pieces, rest];
}

/** @returns the longest beginning that has at most so many bytes in UTF-8 and divides no character */
export function beginningOf(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes) return text;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes));
  return text.slice(0, read);
}
