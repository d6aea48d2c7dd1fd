/** Parses a large JSON object in slices of work: its longest list, which is most of it, in groups of elements. */
import { nextSlice } from "../time/cooperative-scheduling.ts";
import type { JsonObject } from "./json.ts";
import { type ByteRange, elementsAt, membersAt, valueAt } from "./ranges.ts";

/** Bytes that are parsed in one slice: 1 to 10 ms. */
const sliceBytes = 1024 * 1024;

const openBracket = 0x5b;
const closeBracket = 0x5d;

/** Reads text as `JSON.parse` does. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * @param parse reads a text, and throws where it is no JSON
 * @returns undefined where there is no such list to be parsed apart
 * @throws what `parse` throws, and TypeError for what is no UTF-8
 */
export async function parseInSlices(
  bytes: Buffer<ArrayBuffer>,
  parse: (text: string) => unknown,
): Promise<JsonObject | undefined> {
  const found = longestList(bytes);
  if (found === undefined) return undefined;
  await nextSlice();
  const { name, start, end } = found;
  const starts = groupStarts(bytes, start);
  if (starts.length < 2) return undefined;
  const textOf = (from: number, to: number) => utf8.decode(bytes.subarray(from, to));
  const object = parse(`${textOf(0, start)}[]${textOf(end, bytes.length)}`) as JsonObject;
  const list: unknown[] = [];
  for (const [at, from] of starts.entries()) {
    await nextSlice();
    const to = starts[at + 1];
    // All but the last group end with a comma, which an element has to follow.
    const group = parse(to === undefined ? `[${textOf(from, end - 1)}]` : `[${textOf(from, to)}0]`) as unknown[];
    if (to !== undefined) group.pop();
    for (const element of group) list.push(element);
  }
  object[name] = list;
  return object;
}

/** The longest of the object's members that are lists. Of members of one name the last one counts. */
function longestList(bytes: Buffer): (ByteRange & { name: string }) | undefined {
  const root = valueAt(bytes, 0);
  if (root === undefined) return undefined;
  const lists = new Map<string, ByteRange>();
  membersAt(bytes, root.start, (name, { value, end }) => lists.set(name, { start: value, end }));
  let longest: (ByteRange & { name: string }) | undefined;
  for (const [name, { start, end }] of lists) {
    const isList = bytes[start] === openBracket && bytes[end - 1] === closeBracket && name !== "__proto__";
    if (isList && end - start > (longest === undefined ? 0 : longest.end - longest.start))
      longest = { name, start, end };
  }
  return longest;
}

/** Offsets at which the groups of elements begin. */
function groupStarts(bytes: Buffer, list: number): number[] {
  const starts: number[] = [];
  elementsAt(bytes, list, ({ start }) => {
    if (starts.length === 0 || start - starts.at(-1)! >= sliceBytes) starts.push(start);
  });
  return starts;
}
