/** Writes a persona's file as an author would: fields in the order of the schema, long texts as blocks. */
import { Document, isScalar, Scalar, visit } from "yaml";
import { words } from "../../lib/text/words.ts";
import { type PersonaContent, PersonaFile } from "./schema.ts";

/** The order of the fields in the shipped personas; what is not named here stands behind. */
const first = words("description tier owned_by created tags avatar greeting model system variables");
const last = ["card"];
/** An empty line stands before these. */
const spaced = new Set(
  words("model system variables examples tools response_format lorebook defaults prompt_ids card"),
);
const longLine = 100;

/** The schema that editors use, beside the namespaces, so that they find it wherever the folder is taken. */
export const schemaFile = "persona.schema.json";

/** A persona's file, which names the schema. */
export const personaYaml = (value: PersonaContent): string =>
  `# yaml-language-server: $schema=../${schemaFile}\n${writePersonaYaml(value)}`;

/** The fields in the order that people read them in. */
export function writePersonaYaml(value: PersonaContent): string {
  const known = Object.keys(PersonaFile.properties).filter((field) => !first.includes(field) && !last.includes(field));
  const fields = value as Readonly<Record<string, unknown>>;
  const order = [...first, ...known, ...last].filter((field) => fields[field] !== undefined);
  return writeYaml(Object.fromEntries(order.map((field) => [field, fields[field]])));
}

/** Any YAML file for people: short lists on a line, long texts as blocks. */
export function writeYaml(value: Readonly<Record<string, unknown>>): string {
  const document = new Document(value, { aliasDuplicateObjects: false, version: "1.2" });
  visit(document, {
    Scalar: (key, node) => {
      if (typeof node.value !== "string") return;
      const style = key === "key" ? styleOfKey(node.value) : styleOf(node.value);
      if (style !== undefined) node.type = style;
    },
    Seq: (_, node) => {
      const items = node.items.map((item) => (isScalar(item) ? String(item.value) : undefined));
      const length = items.reduce((sum, item) => sum + (item?.length ?? longLine) + 2, 0);
      if (length < longLine && items.every((item) => item !== undefined && !item.includes("\n"))) node.flow = true;
    },
  });
  const contents = document.contents;
  if (contents !== null && "items" in contents) {
    for (const [at, pair] of (contents.items as { key: unknown }[]).entries()) {
      if (at > 0 && isScalar(pair.key) && spaced.has(String(pair.key.value))) pair.key.spaceBefore = true;
    }
  }
  return document.toString({ lineWidth: 110, minContentWidth: 60, flowCollectionPadding: false });
}

/** Characters that a block can't show, or that readers of YAML take for ends of lines. */
const unprintable = /[^\n\t\u0020-\u007e\u00a0-\u2027\u202a-\ufefe\uff00-\uffff]|\p{Cs}/u;

const isUnprintable = (text: string) => unprintable.test(text.replace(/[\u{10000}-\u{10ffff}]/gu, ""));

const styleOfKey = (text: string) => (isUnprintable(text) || text.includes("\n") ? Scalar.QUOTE_DOUBLE : undefined);

/** @returns undefined where the library's own choice is right */
function styleOf(text: string): Scalar.Type | undefined {
  if (isUnprintable(text)) return Scalar.QUOTE_DOUBLE;
  if (text.includes("\n")) return /^\s/.test(text) ? Scalar.QUOTE_DOUBLE : Scalar.BLOCK_LITERAL;
  const isProse = text.length > longLine && !/^\s|\s$|\s\s|\t/.test(text) && !/\S{80}/.test(text);
  return isProse ? Scalar.BLOCK_FOLDED : undefined;
}
