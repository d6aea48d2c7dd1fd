/** System text with `{{variables}}`: taken apart once, when the file is read, and put together for each call. */

export type Template = readonly Segment[];
type Segment = { readonly text: string } | { readonly variable: string };

/** Everything in a text that is not itself, in order: `\{{` (two literal braces), `{{name}}`, and a stray `{{`. */
const marks = /\\\{\{|\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}|\{\{/g;

type Mark = {
  readonly kind: "escape" | "variable" | "stray";
  readonly index: number;
  readonly length: number;
  /** The variable's name; "" for the other kinds. */
  readonly name: string;
};

export function findMarks(text: string): Mark[] {
  return [...text.matchAll(marks)].map(({ 0: whole, 1: name, index }) => ({
    kind: name !== undefined ? "variable" : whole.startsWith("\\") ? "escape" : "stray",
    index,
    length: whole.length,
    name: name ?? "",
  }));
}

export function parseTemplate(text: string): Template {
  const segments: Segment[] = [];
  let from = 0;
  for (const { kind, index, length, name } of findMarks(text)) {
    segments.push({ text: text.slice(from, index) });
    segments.push(kind === "variable" ? { variable: name } : { text: "{{" });
    from = index + length;
  }
  return [...segments, { text: text.slice(from) }];
}

/** The values go in as they are: braces inside them mean nothing. A variable without a value is empty. */
export function fillTemplate(template: Template, values: ReadonlyMap<string, string>): string {
  return template.map((part) => ("text" in part ? part.text : (values.get(part.variable) ?? ""))).join("");
}
