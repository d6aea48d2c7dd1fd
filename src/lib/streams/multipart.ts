/**
 * One field of a multipart form, found and replaced while the form passes through; everything else stays as it is, byte for byte. A form
 * that servers may read in two ways is refused: by lines that end in another way, by heads that name a part twice, by doubled fields.
 * Source: https://www.rfc-editor.org/rfc/rfc7578
 */

import { truncate } from "../text/truncate.ts";

/** The form breaks the rules of its format, or a field stands in it twice. */
export class MultipartFault extends Error {
  override readonly name = "MultipartFault";
}

const maxHeadBytes = 16 * 1024;
/** Maximum size of the field that is replaced. */
const maxValueBytes = 1024;
const headEnd = "\r\n\r\n";
/** Maximum number of fields that are no files and no lists. */
const maxFields = 256;

type State = "between" | "head" | "value" | "body" | "end";

/** @returns the boundary that a content type names; undefined where it is no form */
export function boundaryOf(contentType: string | null): string | undefined {
  // A server takes the first of several, or the last.
  const [, quoted, plain] =
    /^\s*multipart\/form-data\s*;(?:(?!boundary).)*\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))(?!.*boundary)/i.exec(
      contentType ?? "",
    ) ?? [];
  return quoted ?? plain;
}

export class MultipartField {
  readonly #name: string;
  readonly #delimiter: Buffer;
  /** Without the line end before it: wherever it stands beside, some servers take it for one. */
  readonly #mark: Buffer;
  readonly #fields = new Set<string>();
  readonly #replace: (value: string) => string;
  readonly #onField: (name: string) => void;
  #state: State = "body";
  /** Bytes that are not decided yet. A form begins as if a line had ended before it. */
  #rest: Buffer = Buffer.from("\r\n");
  /** Bytes of it that are still to be taken off again. */
  #excess = 2;
  /** By how many bytes the form has changed. */
  #growth = 0;

  /**
   * @param replace gives what stands in the field's place; called once; what it throws, `push` throws
   * @param onField called with the name of each other part that is no file; what it throws, `push` throws
   */
  constructor(
    boundary: string,
    name: string,
    replace: (value: string) => string,
    onField: (name: string) => void = () => {},
  ) {
    this.#name = name;
    this.#onField = onField;
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
    this.#mark = Buffer.from(`--${boundary}`);
    this.#replace = replace;
  }

  get growth(): number {
    return this.#growth;
  }

  /** @returns what can go on, in order @throws MultipartFault */
  push(bytes: Uint8Array): Buffer[] {
    let rest = this.#rest.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#rest, bytes]);
    const out: Buffer[] = [];
    const give = (end: number) => {
      if (end > 0) out.push(rest.subarray(0, end));
      rest = rest.subarray(end);
    };
    for (;;) {
      if (this.#state === "end") {
        if (/[^\s]/.test(rest.toString("latin1", 0, rest.length).replace(/^--/, ""))) {
          throw new MultipartFault("something stands behind its end");
        }
        give(rest.length);
        break;
      }
      if (this.#state === "between") {
        if (rest.length < 2) break;
        const next = rest.toString("latin1", 0, 2);
        if (next !== "--" && next !== "\r\n") throw new MultipartFault("a boundary is followed by something else");
        this.#state = next === "--" ? "end" : "head";
        if (next === "--") give(2);
        continue;
      }
      if (this.#state === "head") {
        const end = rest.indexOf(headEnd);
        if ((end < 0 ? rest.length : end) > maxHeadBytes) throw new MultipartFault("the head of a part is too large");
        if (end < 0) break;
        const isField = this.#fieldIn(rest.toString("utf8", 0, end));
        this.#state = isField ? "value" : "body";
        // The line's end may begin the next delimiter, of a part without content.
        give(end + 2);
        continue;
      }
      const at = rest.indexOf(this.#delimiter);
      const mark = rest.indexOf(this.#mark);
      if (mark >= 0 && mark !== at + 2) throw new MultipartFault("a boundary stands in the middle of a line");
      if (this.#state === "value") {
        if ((at < 0 ? rest.length : at) > maxValueBytes)
          throw new MultipartFault(`the field ${this.#name} is too long`);
        if (at < 0) break;
        if (at < 2) throw new MultipartFault("a part ends before it begins");
        const old = rest.subarray(2, at);
        const value = Buffer.from(this.#replace(old.toString("utf8")));
        this.#growth = value.length - old.length;
        out.push(Buffer.from("\r\n"), value);
        rest = rest.subarray(at);
      } else if (at < 0) {
        give(Math.max(0, rest.length - this.#delimiter.length + 1));
        break;
      } else give(at);
      give(this.#delimiter.length);
      this.#state = "between";
    }
    this.#rest = rest;
    return this.#withoutBegin(out);
  }

  /** @returns whether it is the head of the field @throws MultipartFault for one that can be read in two ways, and for a doubled field */
  #fieldIn(head: string): boolean {
    const { name, isFile } = partOf(head);
    const plain = name.toUpperCase().toLowerCase();
    if (!isFile && !name.endsWith("[]")) {
      if (this.#fields.has(plain)) throw new MultipartFault(`the field ${truncate(name)} stands twice`);
      if (this.#fields.size < maxFields) this.#fields.add(plain);
      else throw new MultipartFault(`it has more than ${maxFields} fields`);
    }
    if (name === this.#name) return true;
    if (!isFile) this.#onField(name);
    return false;
  }

  /** @returns what was held back @throws MultipartFault where the form has no end */
  end(): Buffer[] {
    if (this.#state !== "end") throw new MultipartFault("the form is not complete");
    return this.#rest.length > 0 ? [this.#rest] : [];
  }

  /** Takes off the line end that was put before the form. */
  #withoutBegin(out: Buffer[]): Buffer[] {
    if (this.#excess === 0 || out.length === 0) return out;
    const whole = Buffer.concat(out);
    const excess = Math.min(this.#excess, whole.length);
    this.#excess -= excess;
    return whole.length > excess ? [whole.subarray(excess)] : [];
  }
}

/** @throws MultipartFault for a head that does not name its part once, in the way that clients do */
function partOf(head: string): { readonly name: string; readonly isFile: boolean } {
  const lines = head.split("\r\n").filter((line) => /^[^:]*content-disposition/i.test(line));
  const [, name, more = ""] =
    /^content-disposition:\s*form-data\s*;\s*name=("(?:[^"\\]|\\.)*"|[^\s;"]+)(.*)$/i.exec(lines[0] ?? "") ?? [];
  const isFile = /^\s*;\s*filename=/i.test(more);
  const isPlain = /^(?:\s*;\s*filename\*?=(?:"(?:[^"\\]|\\.)*"|[^\s;"]+))*\s*;?\s*$/i.test(more);
  // A line that begins with a space goes on with the one before.
  if (name === undefined || lines.length > 1 || !isPlain || /\r\n[ \t]|[^\r]\n|\r(?!\n)/.test(head)) {
    throw new MultipartFault("the head of a part does not name it, or not once");
  }
  return { name: name.startsWith('"') ? name.slice(1, -1) : name, isFile };
}
