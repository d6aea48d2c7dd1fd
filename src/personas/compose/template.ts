/** System text with `{{variables}}`: taken apart once, when the file is read, and put together for each call. */

export type Template = readonly Segment[];
type Segment = { readonly text: string } | { readonly variable: string };

/**
 * Everything in a text that is not itself, in order: `\{{` (two literal braces), `{{name}}`, `{{"text"}}` (that text, as JSON writes it:
 * a brace or a backslash right before a variable), and a stray `{{`.
 */
const marks = /\\\{\{|\{\{[ \t]*(?:([A-Za-z_][A-Za-z0-9_]*)|("(?:[^"\\\n]|\\["\\/bfnrt])*"))[ \t]*\}\}|\{\{/g;

type Mark = {
  readonly kind: "escape" | "variable" | "literal" | "stray";
  readonly index: number;
  readonly length: number;
  /** The variable's name; "" for the other kinds. */
  readonly name: string;
  /** What stands there in its place; "" for a variable. */
  readonly text: string;
};

export function findMarks(text: string): Mark[] {
  return [...text.matchAll(marks)].map(({ 0: whole, 1: name, 2: quoted, index }) => {
    const at = { index, length: whole.length, name: name ?? "" };
    if (name !== undefined) return { kind: "variable", ...at, text: "" };
    if (quoted !== undefined) return { kind: "literal", ...at, text: literalIn(quoted) };
    return { kind: whole.startsWith("\\") ? "escape" : "stray", ...at, text: "{{" };
  });
}

/** Texts of JSON hold no control characters, and those of a template may hold a tab. */
const literalIn = (quoted: string): string => JSON.parse(quoted.replaceAll("\t", "\\t")) as string;

export function parseTemplate(text: string): Template {
  const segments: Segment[] = [];
  let from = 0;
  for (const mark of findMarks(text)) {
    segments.push({ text: text.slice(from, mark.index) });
    segments.push(mark.kind === "variable" ? { variable: mark.name } : { text: mark.text });
    from = mark.index + mark.length;
  }
  return [...segments, { text: text.slice(from) }];
}

/** The values go in as they are: braces inside them mean nothing. A variable without a value is empty. */
export function fillTemplate(template: Template, values: ReadonlyMap<string, string>): string {
  return template.map((part) => ("text" in part ? part.text : (values.get(part.variable) ?? ""))).join("");
}
