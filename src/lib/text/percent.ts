/** Percent-encoding as a server in between may undo it, more than once. */

/** Maximum number of times that it is undone. */
const maxDecoding = 4;

/** @returns the text once nothing is left to be decoded; undefined where that has no end, or what it holds can't be decoded */
export function decodedText(text: string): string | undefined {
  let known = text;
  for (let times = 0; times <= maxDecoding; times += 1) {
    if (!known.includes("%")) return known;
    try {
      known = decodeURIComponent(known);
    } catch {
      return undefined;
    }
  }
  return undefined;
}

/** The same text with its letters, digits and marks decoded; what can't be decoded stays as it is. */
export function decodedLetters(text: string): string {
  let known = text;
  for (let times = 0; times <= maxDecoding && known.includes("%"); times += 1) {
    known = known.replace(/%([2-7][0-9a-f])/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  }
  return known;
}
