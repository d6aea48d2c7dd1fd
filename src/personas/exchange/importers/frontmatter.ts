/** Files of YAML between two lines `---`, and text below. */
import { isObject, type JsonObject } from "../../../lib/json/json.ts";
import { ImportError, type ImportedFile, parseYamlText } from "./source.ts";

export type Frontmatter = {
  readonly fields: JsonObject;
  readonly body: string;
  /** The line of the file at which the body begins, counted from 1. */
  readonly bodyLine: number;
};

const form = /^\s*---[ \t]*\n(?:([\s\S]*?)\n)?---[ \t]*(?:\n|$)/;
/** Lines of `#`, such as a licence's, above the fields. */
const comments = /^(?:[ \t]*(?:#[^\n]*)?\n)*/;

type Options = {
  /** Whether lines of `#` may stand above. */
  readonly hasComments?: boolean;
  /** Reads the fields. @throws ImportError */
  readonly parse?: (yaml: string, firstLine: number) => unknown;
};

/** @returns undefined where the file does not begin so @throws ImportError where the YAML can't be read */
export function frontmatterOf(
  source: ImportedFile,
  { hasComments = false, parse = parseYamlText }: Options = {},
): Frontmatter | undefined {
  const text = source.text.replaceAll("\r\n", "\n");
  const above = hasComments ? comments.exec(text)![0] : "";
  const match = form.exec(text.slice(above.length));
  if (match === null) return undefined;
  const [marked, yaml = ""] = match;
  const head = above + marked;
  const firstLine = (above + marked.slice(0, marked.indexOf("---"))).split("\n").length + 1;
  const fields = parse(yaml, firstLine) ?? {};
  if (!isObject(fields))
    throw new ImportError(`line ${firstLine}`, "the fields between the lines '---' must be a mapping");
  return { fields, body: text.slice(head.length), bodyLine: head.split("\n").length };
}

/** For detection: the keys of the YAML's first level, without reading it. */
export function frontmatterKeys(
  source: ImportedFile,
): { readonly keys: readonly string[]; readonly body: string } | undefined {
  const start = Buffer.from(source.bytes.subarray(0, 8)).toString("latin1");
  if (!/^(?:ï»¿)?\s*---/.test(start)) return undefined;
  const text = source.text.replaceAll("\r\n", "\n");
  const match = form.exec(text);
  if (match === null) return undefined;
  const keys = [...(match[1] ?? "").matchAll(/^([A-Za-z_][\w.-]*):/gm)].map(([, key]) => key!);
  return { keys, body: text.slice(match[0].length) };
}
