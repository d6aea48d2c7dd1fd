/** Keeps the numbers of a large JSON text as `keepNumbers` does, in pieces, each in a turn of its own. */
import { nextSlice } from "../time/cooperative-scheduling.ts";
import { exactIn, type Keeping, keepingOf, keepNumbers, keepsSpelling, mayDiffer } from "./exact.ts";
import type { JsonObject } from "./json.ts";
import { elementsAt, type MemberSpan, membersAt, type Span, valueAt } from "./spans.ts";

/** Bytes of one piece: 1 to 5 ms, where it is full of numbers. */
const pieceBytes = 64 * 1024;

/** Neighbours in an array or object; `isLarge`: one alone, which holds more than a piece. */
type Piece = { start: number; end: number; readonly names: (string | number)[]; readonly isLarge: boolean };

type Text = { readonly bytes: Buffer; readonly piece: number };

/** @param parsed what the text was parsed to, changed in place */
export async function keepNumbersInTurns(parsed: unknown, bytes: Buffer, piece = pieceBytes): Promise<void> {
  if (!mayDiffer(bytes.toString("latin1"))) return;
  const span = valueAt(bytes, 0);
  if (span !== undefined && isHolder(parsed)) await keepWithin(parsed, span.start, "where", { bytes, piece });
}

const isHolder = (value: unknown): value is JsonObject => typeof value === "object" && value !== null;

/** @param start of the holder in the text */
async function keepWithin(holder: JsonObject, start: number, keeping: Keeping, text: Text): Promise<void> {
  await nextSlice();
  const pieces = Array.isArray(holder) ? elementPieces(start, text) : memberPieces(holder, start, text);
  for (const piece of pieces) {
    const [name = ""] = piece.names;
    const value = holder[name];
    if (piece.isLarge && isHolder(value)) {
      const within = keeping === "where" ? keepingOf(holder, String(name)) : keeping;
      await keepWithin(value, piece.start, within, text);
    } else await keepPiece(holder, piece, keeping, text);
  }
}

function elementPieces(start: number, { bytes, piece }: Text): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  elementsAt(bytes, start, (span) => addTo(pieces, span, span.start, at++, piece));
  return pieces;
}

/** Of members of one name the last one counts. */
function memberPieces(holder: JsonObject, start: number, { bytes, piece }: Text): Piece[] {
  const members = new Map<string, MemberSpan>();
  membersAt(bytes, start, (name, span) => {
    if (Object.hasOwn(holder, name)) members.set(name, span);
  });
  const pieces: Piece[] = [];
  for (const [name, span] of [...members].sort(([, a], [, b]) => a.start - b.start))
    addTo(pieces, span, span.value, name, piece);
  return pieces;
}

function addTo(pieces: Piece[], { start, end }: Span, value: number, name: string | number, size: number): void {
  const last = pieces.at(-1);
  if (end - value > size) pieces.push({ start: value, end, names: [name], isLarge: true });
  else if (last === undefined || last.isLarge || end - last.start > size)
    pieces.push({ start, end, names: [name], isLarge: false });
  else {
    last.end = end;
    last.names.push(name);
  }
}

async function keepPiece(holder: JsonObject, piece: Piece, keeping: Keeping, { bytes }: Text): Promise<void> {
  const { start, end, names, isLarge } = piece;
  // No list and no object: a long string.
  if (isLarge) return;
  const inner = bytes.toString("utf8", start, end);
  if (keepsSpelling(inner)) return;
  await nextSlice();
  const isList = Array.isArray(holder);
  const text = isList ? `[${inner}]` : `{${inner}}`;
  const kept = keeping === "where" ? keptPart(holder, names, text) : (exactIn(text, keeping) as JsonObject);
  for (const [at, name] of names.entries()) holder[name] = kept[isList ? at : name];
}

/** The neighbours as the holder has them, with their numbers. */
function keptPart(holder: JsonObject, names: readonly (string | number)[], text: string): JsonObject {
  const part = Array.isArray(holder)
    ? names.map((name) => holder[name as number])
    : // The holder's name tells that it is a call.
      {
        ...(typeof holder["name"] === "string" && { name: holder["name"] }),
        ...Object.fromEntries(names.map((name) => [name, holder[name]])),
      };
  keepNumbers(part, text);
  return part as JsonObject;
}
