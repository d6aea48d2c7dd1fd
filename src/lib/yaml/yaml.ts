/**
 * YAML as operators and authors write it: read strictly, checked against a schema, with every error at its line and column.
 * Warnings of the YAML library, several documents, cycles and lost digits are errors too: nobody means them.
 */
import type { TSchema } from "@sinclair/typebox";
import { Check } from "@sinclair/typebox/value";
import { formatPath, type PathPart, type SchemaError, schemaErrors } from "../json/schema-errors.ts";
import { suggest } from "../text/suggest.ts";
import type { Position, YamlDocument } from "./document.ts";
import { readUnambiguousYaml } from "./unambiguous.ts";

export type { Position };

/** `line` and `column` count from 1; 0 where the place has none (an environment variable, a flag). */
export type Diagnostic = {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** `providers.openai.base_url`; "" for the file as a whole. */
  readonly path: string;
  /** A sentence without its subject, or a whole one where `path` is "". */
  readonly message: string;
};

/** For sorting: in the order of the file. */
export const byPlace = (a: Diagnostic, b: Diagnostic): number => a.line - b.line || a.column - b.column;

/** `troupe.yaml:3:7: listen[0].port: must be an integer from 0 to 65535` */
export function formatDiagnostic({ file, line, column, path, message }: Diagnostic): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  return [place, path, message].filter((part) => part !== "").join(": ");
}

type YamlLimits = {
  /** Maximum length of the text, in UTF-16 code units. Default: 1 Mi. */
  readonly maxLength?: number;
};

const defaultMaxLength = 1024 * 1024;
const maxErrors = 50;

/** A file's value, and where in the file each part of it stands. */
export class YamlSource {
  readonly file: string;
  /** Absent (undefined) when there are errors; null when the file is empty. */
  readonly value: unknown;
  /** In order of their place. */
  readonly errors: readonly Diagnostic[];
  readonly #text: string;
  #parsed: YamlDocument | undefined;

  constructor(text: string, file: string, { maxLength = defaultMaxLength }: YamlLimits = {}) {
    this.file = file;
    this.#text = text;
    if (text.length > maxLength) {
      this.#text = "";
      this.errors = [{ file, line: 1, column: 1, path: "", message: `is larger than ${maxLength} characters` }];
      return;
    }
    const read = readUnambiguousYaml(text);
    if (read !== undefined) {
      this.value = read.value;
      this.errors = [];
      return;
    }
    const { value, errors } = this.#document.read();
    this.value = errors.length === 0 ? value : undefined;
    this.errors = errors
      .toSorted((a, b) => a.offset - b.offset)
      .slice(0, maxErrors)
      .map(({ offset, message }) => ({ file, ...this.#document.position(offset), path: "", message }));
  }

  /** The position of a value; of one that is absent, the nearest thing around it. */
  locate(path: readonly PathPart[]): Position {
    return this.#document.find(path, "value");
  }

  /** The position of a value's name. */
  locateKey(path: readonly PathPart[]): Position {
    return this.#document.find(path, "key");
  }

  /** A mapping is pointed at by its name, which may stand lines above what it holds. */
  diagnosticAt(path: readonly PathPart[], message: string): Diagnostic {
    return { file: this.file, ...this.#document.find(path, "name"), path: formatPath(path), message };
  }

  /**
   * Finds what keeps a value, read from here, from fitting a schema; with guesses for mistyped keys.
   * @param at where in the file the value stands, when it is only a part
   */
  check(schema: TSchema, value: unknown = this.value, at: readonly PathPart[] = []): Diagnostic[] {
    // Most fit, and to see that is several times as fast as to look for what does not.
    if (Check(schema, value)) return [];
    return schemaErrors(schema, value, maxErrors).map((error) => {
      const path = [...at, ...error.path];
      const position = error.kind === "value" ? this.locate(path) : this.locateKey(path);
      return { file: this.file, ...position, path: formatPath(path), message: messageOf(error) };
    });
  }

  /** The document; of a text that Bun read, it is only made when somebody asks for a place in it. */
  get #document(): YamlDocument {
    this.#parsed ??= parseByLibrary(this.#text);
    return this.#parsed;
  }
}

/** The library is loaded for the first text that needs it, which no usual start has: it takes 2 ms. */
function parseByLibrary(text: string): YamlDocument {
  const { YamlDocument } = require("./document.ts") as typeof import("./document.ts");
  return new YamlDocument(text);
}

function messageOf({ path, message, known = [] }: SchemaError): string {
  if (known.length === 0) return message;
  const guess = suggest(String(path.at(-1)), known);
  if (guess !== undefined) return `${message}; did you mean '${guess}'?`;
  return known.length > 12 ? message : `${message}; known here: ${known.join(", ")}`;
}
