/**
 * What all text fragments of one stream have in common: most upstreams write the same bytes around each text. Once that
 * is known, a fragment is a comparison and a copy, where reading and writing JSON anew costs many times as much.
 */
type Chunk = { readonly choices?: readonly { readonly delta?: { readonly content?: unknown } }[] };

/** A JSON string exactly as `JSON.stringify` writes it; what is written in another way is left to the parser. */
const canonicalString = /"(?:[^"\\\u0000-\u001f]|\\["\\bfnrt])*"/y;
/** Stands for any text, and is in none. */
const probe = "\u0000probe";

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
   * @param data a chunk's JSON
   * @param content the text of its only fragment
   * @param padding the value of its field `obfuscation`, which is another in each chunk
   * @returns undefined when it is not certain where they stand
   */
  static learn(data: string, content: string, padding: string | undefined): FragmentTemplate | undefined {
    const text = JSON.stringify(content);
    const at = data.lastIndexOf(text);
    if (at < 0) return undefined;
    const [before, rest] = [data.slice(0, at), data.slice(at + text.length)];
    const padded = padding === undefined ? -1 : rest.lastIndexOf(JSON.stringify(padding)) + 1;
    if (padded === 0) return undefined;
    const template =
      padding === undefined
        ? new FragmentTemplate(before, rest, undefined)
        : new FragmentTemplate(before, rest.slice(0, padded), rest.slice(padded + padding.length));
    return template.#isRight() ? template : undefined;
  }

  /** @returns the text of a chunk that differs in nothing else, as `JSON.stringify` writes it; undefined for any other */
  textOf(data: string): string | undefined {
    if (!data.startsWith(this.before)) return undefined;
    canonicalString.lastIndex = this.before.length;
    if (!canonicalString.test(data)) return undefined;
    const end = canonicalString.lastIndex;
    if (!data.startsWith(this.between, end)) return undefined;
    const rest = end + this.between.length;
    if (this.after === undefined ? rest !== data.length : !this.#endsPadded(data, rest)) return undefined;
    return data.slice(this.before.length, end);
  }

  #endsPadded(data: string, from: number): boolean {
    const end = data.indexOf('"', from);
    return (
      data.length - end === this.after!.length && data.endsWith(this.after!) && !data.slice(from, end).includes("\\")
    );
  }

  /** The same text may stand in several places: another one put into this place must come out as the fragment's. */
  #isRight(): boolean {
    const chunk = JSON.parse(this.before + JSON.stringify(probe) + this.between + (this.after ?? "")) as Chunk;
    return chunk.choices?.[0]?.delta?.content === probe;
  }
}
