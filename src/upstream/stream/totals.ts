/** Running totals within an event that is else the same again, as bytes. Like the template that it is a part of, it may only decline. */

const quote = 34;
const backslash = 92;
const zero = 48;
const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= zero && byte <= zero + 9;
const maxDigits = 15;

/** A value of which only whole numbers may differ. */
export class Totals {
  /** What stands before, between and behind the numbers. */
  readonly #parts: readonly Buffer[];

  private constructor(parts: readonly Buffer[]) {
    this.#parts = parts;
  }

  /** @returns undefined where it has numbers of another kind, or none */
  static learn(value: Buffer): Totals | undefined {
    // The bytes of a whole read are not kept for it.
    const bytes = Buffer.from(value);
    const parts: Buffer[] = [];
    let start = 0;
    let isText = false;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at]!;
      if (isText && byte === backslash) at += 1;
      else if (byte === quote) isText = !isText;
      else if (!isText && isDigit(byte)) {
        const end = endOfNumber(bytes, at);
        // A sign, a fraction or an exponent.
        if (end < 0 || /[-+.eE]/.test(bytes.toString("latin1", at - 1, at) + bytes.toString("latin1", end, end + 1))) {
          return undefined;
        }
        parts.push(bytes.subarray(start, at));
        start = end;
        at = end - 1;
      }
    }
    return parts.length === 0 ? undefined : new Totals([...parts, bytes.subarray(start)]);
  }

  /** @returns where it ends; -1 where it differs in something else */
  endIn(piece: Buffer, from: number): number {
    let at = from;
    for (const [index, part] of this.#parts.entries()) {
      if (index > 0) at = endOfNumber(piece, at);
      if (at < 0 || at + part.length > piece.length || part.compare(piece, at, at + part.length) !== 0) return -1;
      at += part.length;
    }
    return at;
  }
}

/** @returns -1 where no whole number of so many digits begins, as JSON has them */
export function endOfNumber(bytes: Buffer, from: number): number {
  if (!isDigit(bytes[from])) return -1;
  if (bytes[from] === zero) return isDigit(bytes[from + 1]) ? -1 : from + 1;
  let at = from + 1;
  while (isDigit(bytes[at])) at += 1;
  return at - from > maxDigits ? -1 : at;
}
