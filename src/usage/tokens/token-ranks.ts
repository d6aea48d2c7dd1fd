/** Reads a tokenizer's table as OpenAI publishes it: a line for each token, its bytes in base64 and its rank. */
import { isUtf8 } from "node:buffer";

/** By rank: a text, or bytes that are none. */
type TokenRanks = (string | number[])[];

/** The package's own table is a program of 200,000 literals, which takes thrice the room in the executable, and in memory. */
export function tokenRanks(table: string): TokenRanks {
  const ranks: TokenRanks = [];
  for (const line of table.trimEnd().split("\n")) {
    const space = line.indexOf(" ");
    const bytes = Buffer.from(line.slice(0, space), "base64");
    ranks[Number(line.slice(space + 1))] = isText(bytes) ? bytes.toString() : [...bytes];
  }
  return ranks;
}

/** A byte order mark counts as bytes, since who decodes a text may drop it. */
const isText = (bytes: Buffer) => isUtf8(bytes) && !(bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf);
