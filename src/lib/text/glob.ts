/** True if some text that begins like this matches. */
export function globReaches(glob: string, beginning: string): boolean {
  const [literal = "", ...more] = glob.split("*");
  return literal.startsWith(beginning) || (more.length > 0 && beginning.startsWith(literal));
}

/** `*` matches any run of characters, slashes included; everything else is literal. */
export function globMatches(glob: string, text: string): boolean {
  if (glob === "*") return true;
  const pieces = glob.split("*");
  if (pieces.length === 1) return glob === text;
  const first = pieces[0]!;
  const last = pieces[pieces.length - 1]!;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let from = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const at = text.indexOf(piece, from);
    if (at < 0 || at + piece.length > text.length - last.length) return false;
    from = at + piece.length;
  }
  return true;
}
