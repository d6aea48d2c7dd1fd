/**
 * Where each part of a provider's request body came from. Encoding is a pure function, so that it answers this itself: what changes
 * in the body when a part of the composed request changes came from that part, and what never changes is the provider's own.
 */
import { isObject, type JsonObject } from "../lib/json/json.ts";
import { formatPath, type PathPart } from "../lib/json/schema-errors.ts";
import type { ComposedRequest } from "../personas/compose/compose.ts";
import type { ComposedPart, Origin, Segment } from "../personas/compose/origins.ts";

export type BodyPart = {
  /** `messages[0].content` */
  readonly path: string;
  readonly value: unknown;
  /** Several where it was made of several. */
  readonly origins: readonly Origin[];
  /** The parts of a text of several origins, which join to the whole. */
  readonly segments?: readonly Segment[];
};

/** @returns the provider's body for another composed request; undefined where it can't be sent */
export type Encode = (composed: ComposedRequest) => Promise<unknown>;

type Path = readonly PathPart[];
type Leaf = { readonly path: Path; readonly value: unknown };
/** A text of a message, by its path in the composed request. */
type Text = Leaf & { readonly value: string; readonly message: number };
/** What a leaf came from: texts, and fields by their names. */
type Sources = { readonly texts: Text[]; readonly fields: string[] };

const byProvider: Origin = { kind: "provider" };

/** A private-use character, which no caller sends and no rule of a provider looks for: a text with it is another one. */
export const mark = "\u{f8ff}";

/**
 * @param body as it is sent
 * @param composed whose parts have the origins of `parts`
 * @param model of the target, and where it was named
 * @returns parts that cover each value of the body once
 */
export async function bodyOrigins(
  body: unknown,
  composed: ComposedRequest,
  parts: readonly ComposedPart[],
  model: { readonly name: string; readonly origin: Origin },
  encode: Encode,
): Promise<BodyPart[]> {
  const leaves = leavesOf(body);
  const found = new Map(leaves.map(({ path }): [string, Sources] => [formatPath(path), { texts: [], fields: [] }]));
  const compare = async (changed: ComposedRequest, add: (sources: Sources) => void) => {
    const other = await encode(changed);
    if (other === undefined) return;
    for (const { path, value } of leaves) {
      if (!Bun.deepEquals(valueAt(other, path), value)) add(found.get(formatPath(path))!);
    }
  };
  for (const text of textsOf(composed)) {
    await compare(withValue(composed, text.path, text.value + mark), ({ texts }) => texts.push(text));
  }
  for (const name of Object.keys(composed)) {
    if (name === "messages") continue;
    const { [name as "stream"]: _, ...rest } = composed;
    await compare(rest as ComposedRequest, ({ fields }) => fields.push(name));
  }
  const messages = new Map<string, number>();
  const resolved = leaves.map((leaf): BodyPart & { at: Path } => {
    const path = formatPath(leaf.path);
    const { texts, fields } = found.get(path)!;
    const [text] = texts;
    if (text !== undefined && texts.every(({ message }) => message === text.message)) messages.set(path, text.message);
    const made = { at: leaf.path, path, value: leaf.value };
    if (texts.length > 0) return { ...made, ...textOrigins(leaf.value, texts, parts) };
    if (fields.length > 0)
      return { ...made, origins: fields.flatMap((name) => fieldOrigins(name, leaf, composed, parts)) };
    if (leaf.value === model.name && leaf.path.at(-1) === "model") return { ...made, origins: [model.origin] };
    return { ...made, origins: [] };
  });
  const whole = resolved.map((part) => {
    if (part.origins.length > 0) return part;
    const message = messageHolding(part.value, composed) ?? messageAround(part.at, messages);
    const origin = message === undefined ? byProvider : partAt(["messages", message], parts)!.origin;
    return { ...part, origins: [origin] };
  });
  return collapsed(body, whole);
}

/** The values that hold no others. */
function leavesOf(value: unknown, path: Path = []): Leaf[] {
  const inner = typeof value === "object" && value !== null ? Object.entries(value) : [];
  if (inner.length === 0) return [{ path, value }];
  return inner.flatMap(([key, one]) => leavesOf(one, [...path, Array.isArray(value) ? Number(key) : key]));
}

function valueAt(value: unknown, path: Path): unknown {
  let at = value;
  for (const key of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as JsonObject)[key];
  }
  return at;
}

function withValue<T>(whole: T, [key, ...rest]: Path, value: unknown): T {
  if (key === undefined) return value as T;
  const inner = withValue((whole as JsonObject)[key], rest, value);
  return (Array.isArray(whole) ? whole.with(Number(key), inner) : { ...whole, [key]: inner }) as T;
}

function textsOf({ messages }: ComposedRequest): Text[] {
  return messages.flatMap(({ content }, message) => {
    const path = ["messages", message, "content"];
    if (typeof content === "string") return [{ path, value: content, message }];
    if (!Array.isArray(content)) return [];
    return content.flatMap((part, at) =>
      part.type === "text" ? [{ path: [...path, at, "text"], value: part.text, message }] : [],
    );
  });
}

/** The part of the composed request that covers a path. */
const partAt = (path: Path, parts: readonly ComposedPart[]): ComposedPart | undefined =>
  parts.find((part) => part.path.every((key, at) => path[at] === key));

/** @returns segments where the texts stand in the value as they are */
function textOrigins(
  value: unknown,
  texts: readonly Text[],
  parts: readonly ComposedPart[],
): { readonly origins: readonly Origin[]; readonly segments?: readonly Segment[] } {
  const made = texts.map((text) => ({ text, part: partAt(text.path, parts)! }));
  const origins = made.flatMap(({ part }) => [...new Set((part.segments ?? [part]).map(({ origin }) => origin))]);
  const segments: Segment[] = [];
  let from = 0;
  for (const { text, part } of made) {
    const at = typeof value === "string" ? value.indexOf(text.value, from) : -1;
    if (at < 0) return { origins };
    if (at > from) segments.push({ text: (value as string).slice(from, at), origin: byProvider });
    segments.push(...(part.segments ?? [{ text: text.value, origin: part.origin }]));
    from = at + text.value.length;
  }
  const rest = (value as string).slice(from);
  if (rest !== "") segments.push({ text: rest, origin: byProvider });
  return segments.length > 1 ? { origins, segments } : { origins };
}

/** Of a field of several parts, those that hold the value; all of them where none does. */
function fieldOrigins(name: string, leaf: Leaf, composed: ComposedRequest, parts: readonly ComposedPart[]): Origin[] {
  const its = parts.filter(({ path }) => path[0] === name);
  const holding = its.filter(
    ({ path }) =>
      path.at(-1) === leaf.path.at(-1) ||
      leavesOf(valueAt(composed, path)).some(({ value }) => Bun.deepEquals(value, leaf.value)),
  );
  return (holding.length > 0 ? holding : its).map(({ origin }) => origin);
}

/** The message that holds an id, a name or media: what can't be marked, as the provider checks it. */
function messageHolding(value: unknown, { messages }: ComposedRequest): number | undefined {
  if (typeof value !== "string" || value.length < 4) return undefined;
  const holds = (other: unknown) => typeof other === "string" && (other === value || other.endsWith(`,${value}`));
  const at = messages.findIndex((message) =>
    leavesOf(message).some(({ path, value: other }) => path[0] !== "role" && path.at(-1) !== "type" && holds(other)),
  );
  return at < 0 ? undefined : at;
}

/** The message whose texts alone stand around a value. */
function messageAround(path: Path, messages: ReadonlyMap<string, number>): number | undefined {
  for (let length = path.length - 1; length > 0; length -= 1) {
    const around = formatPath(path.slice(0, length));
    const inside = [...messages].filter(([one]) => one.startsWith(`${around}.`) || one.startsWith(`${around}[`));
    const [first] = inside;
    if (first !== undefined) return inside.every(([, message]) => message === first[1]) ? first[1] : undefined;
  }
  return undefined;
}

/** Parts below one place that all have the same origins become one. */
function collapsed(body: unknown, parts: readonly (BodyPart & { readonly at: Path })[]): BodyPart[] {
  const gather = (value: unknown, path: Path, inside: typeof parts): BodyPart[] => {
    const [first, ...others] = inside;
    if (first === undefined) return [];
    const isOne =
      path.length > 0 &&
      inside.every(({ segments }) => segments === undefined) &&
      others.every(({ origins }) => Bun.deepEquals(origins, first.origins));
    if (isOne || first.at.length === path.length) {
      const { segments, origins } = first;
      return [{ path: formatPath(path), value, origins, ...(segments && { segments }) }];
    }
    const groups = Map.groupBy(inside, ({ at }) => at[path.length]!);
    return [...groups].flatMap(([key, its]) => gather((value as JsonObject)[key], [...path, key], its));
  };
  return isObject(body) ? gather(body, [], parts) : [];
}
