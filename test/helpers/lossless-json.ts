/** A JSON text as it was written: numbers keep their spelling. Of members of one name the last one counts. */
export type Lossless =
  | string
  | boolean
  | null
  | LosslessNumber
  | readonly Lossless[]
  | { readonly [name: string]: Lossless };

export class LosslessNumber {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const token = /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\]|\\.)*")|(true|false|null)|(-?\d[\d.eE+-]*))[ \t\n\r]*/y;

/** @throws Error for what is no JSON */
export function parseLossless(text: string): Lossless {
  JSON.parse(text);
  let at = 0;
  const next = () => {
    token.lastIndex = at;
    const found = token.exec(text)!;
    at = token.lastIndex;
    return found;
  };
  const value = ([, mark, string, word, number]: RegExpExecArray): Lossless => {
    if (string !== undefined) return JSON.parse(string) as string;
    if (word !== undefined) return JSON.parse(word) as boolean | null;
    if (number !== undefined) return new LosslessNumber(number);
    if (mark === "[") {
      const elements: Lossless[] = [];
      for (let one = next(); one[1] !== "]"; one = next()) if (one[1] !== ",") elements.push(value(one));
      return elements;
    }
    const members: [string, Lossless][] = [];
    for (let one = next(); one[1] !== "}"; one = next()) {
      if (one[1] === ",") continue;
      const name = JSON.parse(one[2]!) as string;
      next();
      members.push([name, value(next())]);
    }
    return Object.fromEntries(members);
  };
  return value(next());
}
