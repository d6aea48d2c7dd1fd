/** The whole body of an answer, if it is no longer than it may be. */

/** @returns undefined where it has more bytes: what is left is not read */
export async function boundedBody({ body }: Response, maxBytes: number): Promise<Buffer | undefined> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body ?? []) {
    size += piece.length;
    if (size > maxBytes) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
