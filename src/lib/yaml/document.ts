/** Parses YAML with the `yaml` library, and finds the position of each value in the text. */
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from "yaml";
import type { PathPart } from "../json/schema-errors.ts";
import { type DocumentError, plainErrors, tooDeep } from "./wording.ts";

/** Counted from 1. */
export type Position = { readonly line: number; readonly column: number };
/** The node to locate; "name" is the key of a mapping, and the value otherwise. */
export type Wanted = "key" | "value" | "name";

/** Maximum expansion of a part of the file by aliases; usual files stay far below. */
const maxAliases = 20;

export class YamlDocument {
  readonly #lines = new LineCounter();
  readonly #document: Document;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    this.#document = parseDocument(text, {
      schema: "core",
      strict: true,
      uniqueKeys: true,
      stringKeys: true,
      merge: true,
      resolveKnownTags: false,
      prettyErrors: false,
      lineCounter: this.#lines,
    });
  }

  /** The value, or the errors in the text. */
  read(): { value?: unknown; errors: readonly DocumentError[] } {
    return readValue(this.#document, this.#text);
  }

  /** Position of a value or its name; of the nearest enclosing node where it is absent. */
  find(path: readonly PathPart[], what: Wanted): Position {
    let node: Node | null | undefined = this.#document.contents;
    let key: Node | null | undefined = node;
    for (const part of path) {
      const found = this.#step(node, part);
      // An absent value is reported at the key of the node that should hold it.
      if (found === undefined) return this.#positionOf(key);
      ({ key, node } = found);
    }
    const wantsKey = what === "key" || (what === "name" && isMap(node));
    return this.#positionOf(wantsKey ? key : (node ?? key));
  }

  #step(node: Node | null | undefined, part: PathPart): Step | undefined {
    const target = this.#resolved(node);
    if (isSeq(target)) {
      const item = target.items[Number(part)] as Node | undefined;
      return item === undefined ? undefined : { key: item, node: item };
    }
    if (!isMap(target)) return undefined;
    const own = target.items.find(({ key }) => !isMergeKey(key) && isScalar(key) && String(key.value) === String(part));
    if (own !== undefined) return { key: own.key as Node, node: own.value as Node | null };
    const merged = target.items.flatMap(({ key, value }) => (isMergeKey(key) ? mergeSources(value) : []));
    return merged.map((source) => this.#step(source, part)).find((found) => found !== undefined);
  }

  #resolved(node: Node | null | undefined): Node | null | undefined {
    return isAlias(node) ? node.resolve(this.#document) : node;
  }

  #positionOf(node: Node | null | undefined): Position {
    return this.position(node?.range?.[0] ?? 0);
  }

  /** @param offset in UTF-16 code units */
  position(offset: number): Position {
    const { line, col } = this.#lines.linePos(offset);
    return line === 0 ? { line: 1, column: 1 } : { line, column: col };
  }
}

type Step = { readonly key: Node; readonly node: Node | null };

function readValue(document: Document, text: string): { value?: unknown; errors: readonly DocumentError[] } {
  const errors = plainErrors(document, text);
  if (errors.length > 0) return { errors };
  try {
    const semantic = semanticErrors(document);
    return semantic.length > 0 ? { errors: semantic } : { value: document.toJS({ maxAliasCount: maxAliases }), errors };
  } catch (error) {
    if (error instanceof RangeError) return { errors: [{ offset: 0, message: tooDeep }] };
    const { message } = error as Error;
    return { errors: [{ offset: 0, message: message.startsWith("Excessive alias") ? tooManyAliases : message }] };
  }
}

const tooManyAliases = `Aliases repeat parts of the file more than ${maxAliases} times`;

/** Errors in text that parses: unresolved or cyclic aliases, numbers that lose digits, invalid merges. */
function semanticErrors(document: Document): DocumentError[] {
  const errors: DocumentError[] = [];
  const report = (node: Node, message: string) => errors.push({ offset: node.range?.[0] ?? 0, message });
  visit(document, {
    Alias(_, alias: Alias, path) {
      const target = alias.resolve(document);
      if (target === undefined) report(alias, `Nothing before this is named &${alias.source}`);
      else if (path.includes(target)) report(alias, `*${alias.source} holds itself`);
    },
    Scalar(_, { value, source = "", range }) {
      if (typeof value !== "number") return;
      const offset = range?.[0] ?? 0;
      if (!Number.isFinite(value)) errors.push({ offset, message: `${source} is no number that can be used` });
      else if (/^[-+]?\d+$/.test(source) && !Number.isSafeInteger(value)) {
        errors.push({
          offset,
          message: `${source} has too many digits for a number; put it in quotes if it is text`,
        });
      }
    },
    Pair(_, { key, value }) {
      if (!isMergeKey(key)) return;
      const odd = mergeSources(value).some((one) => !isMap(isAlias(one) ? one.resolve(document) : one));
      if (odd) report(key as Node, "<< takes a mapping, or an alias of one");
    },
  });
  return errors;
}

const isMergeKey = (key: unknown) => isScalar(key) && key.type === "PLAIN" && key.source === "<<";
const mergeSources = (value: unknown) => (isSeq(value) ? value.items : [value]) as Node[];
