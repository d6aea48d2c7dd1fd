/** "Did you mean …?": the known word that a mistyped one is nearest to. */

/** @returns undefined when nothing is near enough to be worth a guess, and for a known word: that one is not mistyped */
export function suggest(word: string, known: readonly string[]): string | undefined {
  const meant = plain(word);
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(meant.length / 3)) + 1;
  for (const candidate of known) {
    if (candidate === word) return undefined;
    const distance = editDistance(meant, plain(candidate), bestDistance);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** `baseUrl`, `base-url` and `base_url` are one word spelled three ways. */
const plain = (word: string) =>
  word
    .slice(0, 64)
    .replaceAll(/[-_\s]/g, "")
    .toLowerCase();

/** Insertions, deletions, replacements and swaps of neighbours; `enough` where it is that or more. */
function editDistance(a: string, b: string, enough: number): number {
  if (Math.abs(a.length - b.length) >= enough) return enough;
  let twoUp: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let at = 1; at <= b.length; at += 1) {
      const same = a[row - 1] === b[at - 1];
      let cost = Math.min(above[at]! + 1, current[at - 1]! + 1, above[at - 1]! + (same ? 0 : 1));
      if (a[row - 1] === b[at - 2] && a[row - 2] === b[at - 1]) cost = Math.min(cost, (twoUp[at - 2] ?? cost) + 1);
      current.push(cost);
    }
    [twoUp, above] = [above, current];
  }
  return Math.min(above[b.length]!, enough);
}
