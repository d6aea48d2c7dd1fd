/**
 * YAML as operators and authors write it: read strictly, checked against a schema, with every fault at its line and column.
 * What the YAML library lets pass but nobody means is a fault too: warnings, several documents, cycles, lost digits.
 */
import type { Static, TSchema } from "@sinclair/typebox";
import { Check } from "@sinclair/typebox/value";
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
import { readPlainYaml } from "./plain-yaml.ts";
import { formatPath, type PathPart, type SchemaFault, schemaFaults } from "./schema-faults.ts";
import { suggest } from "./suggest.ts";

/** `line` and `column` count from 1; 0 where the place has none (an environment variable, a flag). */
export type Fault = {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** `providers.openai.base_url`; "" for the file as a whole. */
  readonly path: string;
  /** A sentence without its subject, or a whole one where `path` is "". */
  readonly message: string;
};

export type Position = { readonly line: number; readonly column: number };

/** `troupe.yaml:3:7: listen[0].port: must be an integer from 0 to 65535` */
export function formatFault({ file, line, column, path, message }: Fault): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  return [place, path, message].filter((part) => part !== "").join(": ");
}

export type YamlLimits = {
  /** Of the text, in UTF-16 code units. Default: 1 Mi. */
  readonly maxLength?: number;
};

const defaultMaxLength = 1024 * 1024;
const mostFaults = 50;
/** How often aliases may multiply a part of the file; the usual sharing of a block stays far below. */
const mostAliases = 20;
const start: Position = { line: 1, column: 1 };

/** A file's value, and where in the file each part of it stands. */
export class YamlSource {
  readonly file: string;
  /** Absent (undefined) when there are faults; null when the file is empty. */
  readonly value: unknown;
  /** In order of their place. */
  readonly faults: readonly Fault[];
  readonly #text: string;
  readonly #lines = new LineCounter();
  #parsed: Document | undefined;

  constructor(text: string, file: string, { maxLength = defaultMaxLength }: YamlLimits = {}) {
    this.file = file;
    this.#text = text;
    if (text.length > maxLength) {
      this.#text = "";
      this.faults = [{ file, ...start, path: "", message: `is larger than ${maxLength} characters` }];
      return;
    }
    const plain = readPlainYaml(text);
    if (plain !== undefined) {
      this.value = plain.value;
      this.faults = [];
      return;
    }
    const { value, problems } = readValue(this.#document);
    this.value = problems.length === 0 ? value : undefined;
    this.faults = problems
      .toSorted((a, b) => a.offset - b.offset)
      .slice(0, mostFaults)
      .map(({ offset, message }) => ({ file, ...this.#position(offset), path: "", message }));
  }

  /** Where a value stands; for one that is absent, the nearest thing around it. */
  locate(path: readonly PathPart[]): Position {
    return this.#find(path, "value");
  }

  /** Where the name of a value stands. */
  locateKey(path: readonly PathPart[]): Position {
    return this.#find(path, "key");
  }

  /** A mapping is pointed at by its name, which may stand lines above what it holds. */
  faultAt(path: readonly PathPart[], message: string): Fault {
    return { file: this.file, ...this.#find(path, "name"), path: formatPath(path), message };
  }

  /**
   * What keeps a value, read from here, from fitting a schema; with guesses for mistyped keys.
   * @param at where in the file the value stands, when it is only a part
   */
  check(schema: TSchema, value: unknown = this.value, at: readonly PathPart[] = []): Fault[] {
    // Most fit, and to see that is several times as fast as to look for what does not.
    if (Check(schema, value)) return [];
    return schemaFaults(schema, value, mostFaults).map((fault) => {
      const path = [...at, ...fault.path];
      const position = fault.kind === "value" ? this.locate(path) : this.locateKey(path);
      return { file: this.file, ...position, path: formatPath(path), message: messageOf(fault) };
    });
  }

  /** Of a plain text only made when somebody asks for a place in it. */
  get #document(): Document {
    this.#parsed ??= parseDocument(this.#text, {
      schema: "core",
      strict: true,
      uniqueKeys: true,
      stringKeys: true,
      merge: true,
      resolveKnownTags: false,
      prettyErrors: false,
      lineCounter: this.#lines,
    });
    return this.#parsed;
  }

  #find(path: readonly PathPart[], what: "key" | "value" | "name"): Position {
    let node: Node | null | undefined = this.#document.contents;
    let key: Node | null | undefined = node;
    for (const part of path) {
      const found = this.#step(node, part);
      // An absent value belongs to what should hold it, which is named by its key.
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
    return this.#position(node?.range?.[0] ?? 0);
  }

  #position(offset: number): Position {
    const { line, col } = this.#lines.linePos(offset);
    return line === 0 ? start : { line, column: col };
  }
}

export type ParsedYaml<S extends TSchema> = {
  /** Only to be used when there are no faults. */
  readonly value: Static<S>;
  readonly faults: readonly Fault[];
  locate(path: readonly PathPart[]): Position;
};

/**
 * Reads a text and checks it; all faults at once, unless it is no YAML to begin with. An empty text is an empty mapping.
 * @param file names the text in faults
 */
export function parseYaml<S extends TSchema>(
  text: string,
  file: string,
  schema: S,
  limits?: YamlLimits,
): ParsedYaml<S> {
  const source = new YamlSource(text, file, limits);
  const value = source.value ?? {};
  const faults = source.faults.length > 0 ? source.faults : source.check(schema, value);
  return { value: value as Static<S>, faults, locate: (path) => source.locate(path) };
}

type Step = { readonly key: Node; readonly node: Node | null };
type Problem = { readonly offset: number; readonly message: string };

function readValue(document: Document): { value?: unknown; problems: readonly Problem[] } {
  const problems = [...document.errors, ...document.warnings].map(({ code, message, pos }) => ({
    offset: pos[0],
    message: wordings[code] ?? message,
  }));
  // Too deep a file makes one error for each bracket: the first tells it all.
  const exhausted = problems.find((_, at) => document.errors[at]?.code === "RESOURCE_EXHAUSTION");
  if (exhausted !== undefined) return { problems: [exhausted] };
  if (problems.length > 0) return { problems };
  try {
    const slips = slipsIn(document);
    return slips.length > 0 ? { problems: slips } : { value: document.toJS({ maxAliasCount: mostAliases }), problems };
  } catch (error) {
    if (error instanceof RangeError) return { problems: [{ offset: 0, message: wordings.RESOURCE_EXHAUSTION! }] };
    const { message } = error as Error;
    return { problems: [{ offset: 0, message: message.startsWith("Excessive alias") ? tooManyAliases : message }] };
  }
}

const tooManyAliases = `Aliases repeat parts of the file more than ${mostAliases} times`;

/** Where the library's own words speak to its user, not to the author of a file. */
const wordings: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: "This key stands here for the second time",
  MULTIPLE_DOCS: "A second document begins here; there may be only one",
  NON_STRING_KEY: "A key must be text",
  RESOURCE_EXHAUSTION: "This is nested too deeply",
};

/** What parses, but can't be meant or can't be kept. */
function slipsIn(document: Document): Problem[] {
  const slips: Problem[] = [];
  const report = (node: Node, message: string) => slips.push({ offset: node.range?.[0] ?? 0, message });
  visit(document, {
    Alias(_, alias: Alias, path) {
      const target = alias.resolve(document);
      if (target === undefined) report(alias, `Nothing before this is named &${alias.source}`);
      else if (path.includes(target)) report(alias, `*${alias.source} holds itself`);
    },
    Scalar(_, { value, source = "", range }) {
      if (typeof value !== "number") return;
      const offset = range?.[0] ?? 0;
      if (!Number.isFinite(value)) slips.push({ offset, message: `${source} is no number that can be used` });
      else if (/^[-+]?\d+$/.test(source) && !Number.isSafeInteger(value)) {
        slips.push({ offset, message: `${source} has too many digits for a number; put it in quotes if it is text` });
      }
    },
    Pair(_, { key, value }) {
      if (!isMergeKey(key)) return;
      const odd = mergeSources(value).some((one) => !isMap(isAlias(one) ? one.resolve(document) : one));
      if (odd) report(key as Node, "<< takes a mapping, or an alias of one");
    },
  });
  return slips;
}

function messageOf({ path, message, known = [] }: SchemaFault): string {
  if (known.length === 0) return message;
  const guess = suggest(String(path.at(-1)), known);
  if (guess !== undefined) return `${message}; did you mean '${guess}'?`;
  return known.length > 12 ? message : `${message}; known here: ${known.join(", ")}`;
}

const isMergeKey = (key: unknown) => isScalar(key) && key.type === "PLAIN" && key.source === "<<";
const mergeSources = (value: unknown) => (isSeq(value) ? value.items : [value]) as Node[];
