/** Keeps the numbers of a large JSON text as `keepNumbers` does, in pieces, each in a turn of its own. */
import { nextSlice } from "../time/cooperative-scheduling.ts";
import { exactIn, type Keeping, keepingOf, keepNumbers, keepsSpelling, mayDiffer } from "./exact.ts";
import type { JsonObject } from "./json.ts";
import { type ByteRange, elementsAt, type MemberRange, membersAt, valueAt } from "./ranges.ts";

/** Bytes of one piece: 1 to 5 ms, where it is full of numbers. */
const pieceBytes = 64 * 1024;

/** Neighbours in an array or object; `isLarge`: one alone, which holds more than a piece. */
type Piece = { start: number; end: number; readonly names: (string | number)[]; readonly isLarge: boolean };

type Text = { readonly bytes: Buffer; readonly piece: number };

/** @param parsed what the text was parsed to, changed in place */
export async function keepNumbersInTurns(parsed: unknown, bytes: Buffer, piece = pieceBytes): Promise<void> {
  if (!mayDiffer(bytes.toString("latin1"))) return;
  const range = valueAt(bytes, 0);
  if (range !== undefined && isContainer(parsed)) await keepWithin(parsed, range.start, "where", { bytes, piece });
}

const isContainer = (value: unknown): value is JsonObject => typeof value === "object" && value !== null;

/** @param start of the container in the text */
async function keepWithin(container: JsonObject, start: number, keeping: Keeping, text: Text): Promise<void> {
  await nextSlice();
  const pieces = Array.isArray(container) ? elementPieces(start, text) : memberPieces(container, start, text);
  for (const piece of pieces) {
    const [name = ""] = piece.names;
    const value = container[name];
    if (piece.isLarge && isContainer(value)) {
      const within = keeping === "where" ? keepingOf(container, String(name)) : keeping;
      await keepWithin(value, piece.start, within, text);
    } else await keepPiece(container, piece, keeping, text);
  }
}

function elementPieces(start: number, { bytes, piece }: Text): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  elementsAt(bytes, start, (range) => addTo(pieces, range, range.start, at++, piece));
  return pieces;
}

/** Of members of one name the last one counts. */
function memberPieces(container: JsonObject, start: number, { bytes, piece }: Text): Piece[] {
  const members = new Map<string, MemberRange>();
  membersAt(bytes, start, (name, range) => {
    if (Object.hasOwn(container, name)) members.set(name, range);
  });
  const pieces: Piece[] = [];
  for (const [name, range] of [...members].sort(([, a], [, b]) => a.start - b.start))
    addTo(pieces, range, range.value, name, piece);
  return pieces;
}

function addTo(pieces: Piece[], { start, end }: ByteRange, value: number, name: string | number, size: number): void {
  const last = pieces.at(-1);
  if (end - value > size) pieces.push({ start: value, end, names: [name], isLarge: true });
  else if (last === undefined || last.isLarge || end - last.start > size)
    pieces.push({ start, end, names: [name], isLarge: false });
  else {
    last.end = end;
    last.names.push(name);
  }
}

async function keepPiece(container: JsonObject, piece: Piece, keeping: Keeping, { bytes }: Text): Promise<void> {
  const { start, end, names, isLarge } = piece;
  // No list and no object: a long string.
  if (isLarge) return;
  const inner = bytes.toString("utf8", start, end);
  if (keepsSpelling(inner)) return;
  await nextSlice();
  const isList = Array.isArray(container);
  const text = isList ? `[${inner}]` : `{${inner}}`;
  const kept = keeping === "where" ? keptPart(container, names, text) : (exactIn(text, keeping) as JsonObject);
  for (const [at, name] of names.entries()) container[name] = kept[isList ? at : name];
}

/** The neighbours as the container has them, with their numbers. */
function keptPart(container: JsonObject, names: readonly (string | number)[], text: string): JsonObject {
  const part = Array.isArray(container)
    ? names.map((name) => container[name as number])
    : // The container's name tells that it is a call.
      {
        ...(typeof container["name"] === "string" && { name: container["name"] }),
        ...Object.fromEntries(names.map((name) => [name, container[name]])),
      };
  keepNumbers(part, text);
  return part as JsonObject;
}
