/** A file to import: its bytes, and what they read as. */
import { isObject, isTooDeep, type JsonObject } from "../../../lib/json/json.ts";
import { YamlSource } from "../../../lib/yaml/yaml.ts";

/** A file that can't become a persona, and the place that keeps it from it. */
export class ImportError extends Error {
  override readonly name = "ImportError";
  /** "line 12", "data.name", "byte 33 (tEXt)"; "" for the file as a whole. */
  readonly place: string;

  /** @param message a sentence without its subject */
  constructor(place: string, message: string) {
    super(message);
    this.place = place;
  }
}

/** The most bytes of text that are taken from a file: what a person wrote is far smaller. */
export const maxTextBytes = 16 * 1024 * 1024;

/** Reads a file by its path relative to another's folder. @returns undefined where there is none inside that folder */
export type FilesBeside = (path: string) => Uint8Array | undefined;

export class ImportedFile {
  /** Without its folder. */
  readonly name: string;
  /** A text is UTF-8 here, whatever it was. */
  readonly bytes: Uint8Array;
  readonly #beside: FilesBeside;
  #text: string | undefined;
  #json: { readonly value: unknown } | undefined;

  /** @param beside the files of its folder. Default: none */
  constructor(name: string, bytes: Uint8Array, beside: FilesBeside = () => undefined) {
    this.name = name;
    this.bytes = asUtf8(bytes);
    this.#beside = beside;
  }

  /** The text of a file in this one's folder, or below it. @returns undefined where there is none @throws ImportError */
  textBeside(path: string): string | undefined {
    const bytes = this.#beside(path);
    return bytes && decodeText(asUtf8(bytes), path);
  }

  /** @throws ImportError where it is not UTF-8, or too large */
  get text(): string {
    this.#text ??= decodeText(this.bytes);
    return this.#text;
  }

  /** The file as JSON. @throws ImportError */
  get json(): unknown {
    this.#json ??= { value: parseJsonText(this.text) };
    return this.#json.value;
  }

  /** True if it begins as a JSON object or list does. */
  get looksLikeJson(): boolean {
    const start = Buffer.from(this.bytes.subarray(0, 4096)).toString("latin1").replace(/^ï»¿/, "");
    return /^\s*(?:\{\s*["}]|\[\s*["[{\]\dtfn-])/.test(start);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** A text of UTF-16, which Windows' editors write with a byte order mark, as UTF-8; all else as it is. */
function asUtf8(bytes: Uint8Array): Uint8Array {
  const [first, second] = bytes;
  const isLittle = first === 0xff && second === 0xfe;
  if ((!isLittle && !(first === 0xfe && second === 0xff)) || bytes.length > maxTextBytes) return bytes;
  try {
    return Buffer.from(new TextDecoder(isLittle ? "utf-16le" : "utf-16be", { fatal: true }).decode(bytes));
  } catch {
    return bytes;
  }
}

/** @param place of the text, where it is only a part of the file @throws ImportError */
export function decodeText(bytes: Uint8Array, place = ""): string {
  if (bytes.length > maxTextBytes) throw new ImportError(place, `is larger than ${maxTextBytes / 1024 / 1024} MiB`);
  try {
    return utf8.decode(bytes);
  } catch {
    const line = `line ${lineOfFirstFault(bytes)}`;
    throw new ImportError(place === "" ? line : `${place}, ${line}`, "is not UTF-8");
  }
}

/** Counted from 1. A replacement character that the text really holds is its own three bytes. */
function lineOfFirstFault(bytes: Uint8Array): number {
  const lossy = new TextDecoder().decode(bytes);
  let offset = bytes[0] === 0xef && bytes[1] === 0xbb ? 3 : 0;
  let from = 0;
  for (;;) {
    const at = lossy.indexOf("\ufffd", from);
    offset += Buffer.byteLength(lossy.slice(from, at));
    if (at < 0 || bytes[offset] !== 0xef || bytes[offset + 1] !== 0xbf || bytes[offset + 2] !== 0xbd) {
      return lossy.slice(0, at < 0 ? undefined : at).split("\n").length;
    }
    offset += 3;
    from = at + 1;
  }
}

/**
 * @param place of the text, where it is only a part of the file
 * @throws ImportError for what is no JSON, is nested too deeply, or holds a number that would lose digits
 */
export function parseJsonText(text: string, place = ""): unknown {
  if (isTooDeep(text)) throw new ImportError(place, "is nested too deeply");
  try {
    return JSON.parse(text, exactNumber as (key: string, value: unknown) => unknown);
  } catch (error) {
    if (error instanceof ImportError) throw error;
    throw new ImportError(place, `is not JSON: ${(error as Error).message.replace(/^JSON Parse error: /, "")}`);
  }
}

/** A reviver: whole numbers beyond 2^53 lose digits when they are read, and a card has to go back as it came. */
function exactNumber(key: string, value: unknown, { source }: { source?: string }): unknown {
  if (key === "<<") throw new ImportError(key, "is a name that YAML merges mappings by: rename that member");
  if (typeof value !== "number" || source === undefined) return value;
  const isExact = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  if (!isExact) throw new ImportError(key, `is a number that would lose digits: ${source.slice(0, 40)}`);
  return value;
}

/** A YAML value. @param firstLine the line of the file at which the text begins @throws ImportError */
export function parseYamlText(text: string, firstLine = 1): unknown {
  const { value, errors } = new YamlSource(text, "", { maxLength: maxTextBytes });
  const [error] = errors;
  if (error !== undefined) throw new ImportError(`line ${error.line + firstLine - 1}`, error.message);
  return value;
}

/** @returns the objects of a list, or the one that stands alone */
export const recordsIn = (value: unknown): JsonObject[] => [value].flat().filter(isObject);
