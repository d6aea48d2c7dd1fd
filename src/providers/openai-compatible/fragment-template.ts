/**
 * What all text fragments of one stream have in common: most upstreams write the same bytes around each text. Once that
 * is known, a fragment is a comparison and a copy, where reading and writing JSON anew costs many times as much.
 *
 * A shortcut may only decline: nothing here throws, and what is not certain is left to the parser.
 */
import { elementsAt, membersAt, type Span, valueAt } from "../../lib/json/spans.ts";

const quote = 34;
const backslash = 92;
/** What may follow a backslash in what `JSON.stringify` writes, but for code points. */
export const shortEscapes: ReadonlySet<number> = new Set([...'"\\bfnrt'].map((letter) => letter.charCodeAt(0)));

export class FragmentTemplate {
  /** Up to the text. */
  readonly before: string;
  /** From the text's end to the padding, or to the end of all. */
  readonly between: string;
  /** Behind the padding; undefined where there is none. */
  readonly after: string | undefined;

  private constructor(before: string, between: string, after: string | undefined) {
    this.before = before;
    this.between = between;
    this.after = after;
  }

  /**
   * The places are found by the structure of the chunk, not by what stands there: any text may stand elsewhere too.
   * @param data a chunk's JSON, whose only fragment is a text
   * @param padding the name of a field whose text is another in each chunk
   * @returns undefined when it is not certain where they stand
   */
  static learn(data: string, padding: string): FragmentTemplate | undefined {
    const bytes = Buffer.from(data);
    const chunk = membersOf(bytes, valueAt(bytes, 0));
    const choice = membersOf(bytes, onlyElement(bytes, chunk?.get("choices")));
    const delta = membersOf(bytes, choice?.get("delta"));
    const text = delta?.get("content");
    if (text === undefined) return undefined;
    const pad = chunk!.get(padding);
    const isPadded = pad !== undefined && bytes[pad.start] === quote;
    if (isPadded && pad.start < text.end) return undefined;
    const template = new FragmentTemplate(
      bytes.toString("utf8", 0, text.start),
      bytes.toString("utf8", text.end, isPadded ? pad.start + 1 : bytes.length),
      isPadded ? bytes.toString("utf8", pad.end - 1) : undefined,
    );
    return template.textOf(data) === undefined ? undefined : template;
  }

  /** @returns the text of a chunk that differs in nothing else, as `JSON.stringify` writes it; undefined for any other */
  textOf(data: string): string | undefined {
    if (!data.startsWith(this.before)) return undefined;
    const end = canonicalEnd(data, this.before.length);
    if (end < 0 || !data.startsWith(this.between, end)) return undefined;
    const rest = end + this.between.length;
    if (this.after === undefined ? rest !== data.length : !this.#endsPadded(data, rest)) return undefined;
    return data.slice(this.before.length, end);
  }

  #endsPadded(data: string, from: number): boolean {
    const end = plainEnd(data, from);
    return data.length - end === this.after!.length && data.endsWith(this.after!);
  }
}

/**
 * A string that is not written exactly as `JSON.stringify` writes it is left to the parser.
 * @returns where the string ends that begins at `start`; -1 where there is none, or another spelling of it
 */
function canonicalEnd(data: string, start: number): number {
  if (data.charCodeAt(start) !== quote) return -1;
  let at = plainEnd(data, start + 1);
  while (data.charCodeAt(at) === backslash && shortEscapes.has(data.charCodeAt(at + 1))) at = plainEnd(data, at + 2);
  return data.charCodeAt(at) === quote ? at + 1 : -1;
}

/** @returns where the first character stands that a string can't hold as it is */
function plainEnd(data: string, from: number): number {
  let at = from;
  for (let code = data.charCodeAt(at); code >= 32 && code !== quote && code !== backslash; ) {
    code = data.charCodeAt(++at);
  }
  return at;
}

type Members = ReadonlyMap<string, Span>;

/** The values' spans by name; undefined where there is no object, or two members have one name. */
function membersOf(bytes: Buffer, object: Span | undefined): Members | undefined {
  if (object === undefined) return undefined;
  const members = new Map<string, Span>();
  let count = 0;
  membersAt(bytes, object.start, (name, { value, end }) => {
    members.set(name, { start: value, end });
    count += 1;
  });
  return members.size === count ? members : undefined;
}

/** The span of the only element; undefined where that is no array of one. */
function onlyElement(bytes: Buffer, array: Span | undefined): Span | undefined {
  const elements: Span[] = [];
  if (array !== undefined) elementsAt(bytes, array.start, (element) => elements.push(element));
  return elements.length === 1 ? elements[0] : undefined;
}
