/** Says what is wrong with a YAML text, for whoever wrote it: a plain sentence and where to look, in place of the library's words for developers. */
import { type Document, isCollection, isScalar, type Node, visit, type YAMLError } from "yaml";

export type DocumentError = { readonly offset: number; readonly message: string };

type Found = Pick<YAMLError, "code" | "message"> & { readonly offset: number };

/** These leave the rest as it is; behind any other error all that follows may be read wrongly. */
const harmless = new Set<YAMLError["code"]>([
  ...(["DUPLICATE_KEY", "NON_STRING_KEY", "TAG_RESOLVE_FAILED", "BAD_SCALAR_START", "BAD_DQ_ESCAPE"] as const),
]);

/** @returns in order of their place, up to the first one that those behind it may follow from */
export function plainErrors(document: Document, text: string): DocumentError[] {
  const found = [...document.errors, ...document.warnings]
    .map(({ code, message, pos }): Found => ({ code, message, offset: pos[0] }))
    .toSorted((a, b) => a.offset - b.offset);
  // A file that nests too deeply gives one error for each bracket.
  const exhausted = found.find(({ code }) => code === "RESOURCE_EXHAUSTION");
  const last = exhausted ?? found.find(({ code }) => !harmless.has(code));
  const reported =
    exhausted !== undefined ? [exhausted] : last === undefined ? found : found.slice(0, found.indexOf(last) + 1);
  return reported.map((error) => plain(error, document, text));
}

export const tooDeep = "This is nested too deeply";
const notIndented = "This line is not indented like the lines that it belongs to";
const noName =
  "This is neither 'name: value' nor indented as a part of what stands above; a colon needs a space behind it";
const tooMuch = "Nothing may follow a closing quote or bracket; put all of the value in quotes";

/** By the code, and where one code has several meanings by the library's sentence. The first that fits counts. */
const wordings: readonly [
  code: YAMLError["code"],
  sentence: RegExp,
  message: string | ((found: RegExpExecArray) => string),
][] = [
  ["TAB_AS_INDENT", /^/, "This line begins with a tab; YAML is indented by spaces alone"],
  ["DUPLICATE_KEY", /^/, "This key stands here for the second time"],
  ["MULTIPLE_DOCS", /^/, "A second document begins here; there may be only one"],
  ["RESOURCE_EXHAUSTION", /^/, tooDeep],
  ["MULTILINE_IMPLICIT_KEY", /^/, noName],
  ["MISSING_CHAR", /followed by map values/, noName],
  ["MISSING_CHAR", /^Comments/, "A comment needs a space before its #; put the value in quotes if # belongs to it"],
  ["MISSING_CHAR", /,/, "A comma is missing before this"],
  ["BLOCK_AS_IMPLICIT_KEY", /sequence/, "A list begins where a name is expected; look at its indentation"],
  ["BLOCK_AS_IMPLICIT_KEY", /^/, "This value holds a colon and a space; put it in quotes"],
  ["BAD_INDENT", /^/, notIndented],
  ["BAD_SCALAR_START", /(\S)$/, ([, sign]) => `A value can't begin with ${sign}; put it in quotes`],
  [
    "TAG_RESOLVE_FAILED",
    /!\S*/,
    ([tag]) => `${tag} is a tag of YAML, and none is known here; put the value in quotes if ! belongs to it`,
  ],
  [
    "BAD_DQ_ESCAPE",
    /\\.?/,
    ([sequence]) => `${sequence} means nothing in double quotes; write \\\\ for a backslash, or take single quotes`,
  ],
  ["TAG_RESOLVE_FAILED", /^/, "A tag of YAML that is not known here; put the value in quotes if ! belongs to it"],
  [
    "BLOCK_IN_FLOW",
    /^/,
    "Between brackets a name or a list begins that only stands on lines of its own; look for one that is not closed",
  ],
  ["BAD_DIRECTIVE", /^/, "A line can't begin with %; put it in quotes"],
  [
    "BAD_ALIAS",
    /^(Alias|Anchor)/,
    ([kind]) => `A value can't begin with ${kind === "Alias" ? "*" : "&"} and no name; put it in quotes`,
  ],
  [
    "MISSING_CHAR",
    /^Tags and anchors/,
    "A name behind ! or & needs a space behind it; put the value in quotes if it is none",
  ],
  ["UNEXPECTED_TOKEN", /at node end/, tooMuch],
  [
    "UNEXPECTED_TOKEN",
    /^Not a YAML token/,
    "Text stands behind | or > in the same line; it begins in the next one, indented",
  ],
  ["UNEXPECTED_TOKEN", /"([\]}])"$/, ([, sign]) => `This ${sign} closes nothing`],
  ["UNEXPECTED_TOKEN", /^Unexpected , in/, "Nothing stands before this comma"],
  ["UNEXPECTED_TOKEN", /^/, notIndented],
];

function plain({ code, message, offset }: Found, document: Document, text: string): DocumentError {
  const opening = openedAt(code, message, offset, document);
  if (opening !== undefined) return { offset: opening, message: `This ${text[opening]} is not closed` };
  if (code === "NON_STRING_KEY") {
    const braces = text[offset] === "{";
    return {
      offset,
      message: braces ? "Braces are a mapping in YAML; put a text that begins with {{ in quotes" : "A key must be text",
    };
  }
  const [line = ""] = text.slice(offset).split("\n", 1);
  if (code === "BLOCK_AS_IMPLICIT_KEY" && message.startsWith("Nested") && !/:(?:\s|$)/.test(line)) {
    // The seeming mapping goes on in the next line, which is indented as if it belonged to this line's value.
    const next = offset + line.length + 1;
    return { offset: next + (/^ */.exec(text.slice(next))?.[0].length ?? 0), message: notIndented };
  }
  // It stands there by its indentation, unless a quote or a bracket was closed before it.
  if (/at node end/.test(message) && !/["'\]}]\s*$/.test(text.slice(0, offset)))
    return { offset, message: notIndented };
  for (const [of, sentence, words] of wordings) {
    const match = of === code ? sentence.exec(message) : null;
    if (match !== null) return { offset, message: typeof words === "string" ? words : words(match) };
  }
  return { offset, message: `This can't be read: ${message}` };
}

/** The offset of the quote or bracket that is missing its other half. */
function openedAt(code: YAMLError["code"], message: string, offset: number, document: Document): number | undefined {
  const isQuote = code === "MISSING_CHAR" && /quote$/.test(message);
  const isBracket = /^Flow .* end with a/.test(message);
  if (!isQuote && !isBracket) return undefined;
  let found: number | undefined;
  visit(document, {
    Node(_, node) {
      const opens = isQuote
        ? isScalar(node) && /^QUOTE/.test(node.type ?? "")
        : isCollection(node) && node.flow === true;
      const [start = Number.POSITIVE_INFINITY] = (node as Node).range ?? [];
      if (opens && start <= offset) found = start;
    },
  });
  return found;
}
