/** Files of YAML between two lines `---`, and text below. */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import { ImportError, parseYamlText, type SourceFile } from "./source.ts";

export type Frontmatter = {
  readonly fields: JsonObject;
  readonly body: string;
  /** The line of the file at which the body begins, counted from 1. */
  readonly bodyLine: number;
};

const form = /^\s*---[ \t]*\n(?:([\s\S]*?)\n)?---[ \t]*(?:\n|$)/;

/** @returns undefined where the file does not begin so @throws ImportError where the YAML can't be read */
export function frontmatterOf(source: SourceFile): Frontmatter | undefined {
  const text = source.text.replaceAll("\r\n", "\n");
  const match = form.exec(text);
  if (match === null) return undefined;
  const [head, yaml = ""] = match;
  const fields = parseYamlText(yaml, head.slice(0, head.indexOf("---")).split("\n").length + 1) ?? {};
  if (!isObject(fields)) throw new ImportError("line 2", "the fields between the lines '---' must be a mapping");
  return { fields, body: text.slice(head.length), bodyLine: head.split("\n").length };
}

/** For detection: the keys of the YAML's first level, without reading it. */
export function frontmatterKeys(
  source: SourceFile,
): { readonly keys: readonly string[]; readonly body: string } | undefined {
  const start = Buffer.from(source.bytes.subarray(0, 8)).toString("latin1");
  if (!/^(?:ï»¿)?\s*---/.test(start)) return undefined;
  const text = source.text.replaceAll("\r\n", "\n");
  const match = form.exec(text);
  if (match === null) return undefined;
  const keys = [...(match[1] ?? "").matchAll(/^([A-Za-z_][\w.-]*):/gm)].map(([, key]) => key!);
  return { keys, body: text.slice(match[0].length) };
}
