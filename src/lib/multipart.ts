/**
 * One field of a multipart form, found and replaced while the form passes through; everything else stays as it is, byte for byte.
 * Source: https://www.rfc-editor.org/rfc/rfc7578
 */

/** The form breaks the rules of its format, or the field stands in it twice. */
export class MultipartFault extends Error {
  override readonly name = "MultipartFault";
}

const maxHeadBytes = 16 * 1024;
/** Of the field that is replaced. */
const maxValueBytes = 1024;
const headEnd = "\r\n\r\n";

type State = "between" | "head" | "value" | "body" | "end";

/** @returns the boundary that a content type names; undefined where it is no form */
export function boundaryOf(contentType: string | null): string | undefined {
  const [, quoted, plain] =
    /^\s*multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType ?? "") ?? [];
  return quoted ?? plain;
}

export class MultipartField {
  readonly #name: string;
  readonly #delimiter: Buffer;
  readonly #replace: (value: string) => string;
  #state: State = "body";
  /** What is not decided yet. A form begins as if a line had ended before it. */
  #rest: Buffer = Buffer.from("\r\n");
  /** Bytes of it that are still to be taken off again. */
  #excess = 2;
  #isFound = false;
  /** By how many bytes the form has changed. */
  #growth = 0;

  /** @param replace gives what stands in the field's place; called once; what it throws, `push` throws */
  constructor(boundary: string, name: string, replace: (value: string) => string) {
    this.#name = name;
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
    this.#replace = replace;
  }

  get isFound(): boolean {
    return this.#isFound;
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
        give(rest.length);
        break;
      }
      if (this.#state === "between") {
        if (rest.length < 2) break;
        // Two dashes end the form; all else is white space before the next part.
        this.#state = rest.toString("latin1", 0, 2) === "--" ? "end" : "head";
        continue;
      }
      if (this.#state === "head") {
        const end = rest.indexOf(headEnd);
        if ((end < 0 ? rest.length : end) > maxHeadBytes) throw new MultipartFault("the head of a part is too large");
        if (end < 0) break;
        const isField = nameOf(rest.toString("utf8", 0, end)) === this.#name;
        if (isField && this.#isFound) throw new MultipartFault(`the field ${this.#name} stands twice`);
        this.#isFound ||= isField;
        this.#state = isField ? "value" : "body";
        // The line's end may begin the next delimiter, of a part without content.
        give(end + 2);
        continue;
      }
      const at = rest.indexOf(this.#delimiter);
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

/** The name of a part, from its `content-disposition`. */
function nameOf(head: string): string | undefined {
  const line = /^content-disposition:(.*)$/im.exec(head)?.[1];
  const [, quoted, plain] = /;\s*name=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(line ?? "") ?? [];
  return quoted ?? plain;
}
