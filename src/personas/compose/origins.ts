/**
 * Where each part of a composed request came from. Pure, and derived from persona, request and result, so that a plain call pays
 * nothing for it.
 */
import { isObject } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import type { Additions } from "../knowledge/additions.ts";
import { piecesOf } from "../knowledge/sections.ts";
import type { Persona } from "../persona.ts";
import { type ComposedRequest, lifted } from "./compose.ts";
import { entriesOf, samplingFields, spellingsOf } from "./sampling.ts";
import { findMarks } from "./template.ts";
import { fillIn } from "./variables.ts";

/** A place in a file; `line` and `column` count from 1. */
export type FilePlace = { readonly file: string; readonly line: number; readonly column: number };

/** The places of a persona's parts in its files. */
export type PersonaPlaces = {
  locate(path: readonly PathPart[]): FilePlace;
  /** Its system text with all includes in place, where the texts of other files begin in it, and the place of each of its marks' ends. */
  readonly system: {
    readonly text: string;
    readonly starts: readonly number[];
    placeAt(offset: number): FilePlace;
  };
};

/**
 * - `persona`: the persona's own text, example, tool, stop or answer format; `model`: the entry of its list
 * - `variable`: a variable's value, the caller's or its default (`source`)
 * - `caller`: a field of the request
 * - `default`, `limit`, `option`: the section of the persona that gave the value; a limit names what it lowered (`capped`)
 * - `knowledge`: a section of one of the persona's files, whose place it names; `lorebook`: entries of it
 * - `provider`: a rule of the provider's own, or of this program
 */
export type Origin = {
  readonly kind:
    | "persona"
    | "model"
    | "variable"
    | "caller"
    | "default"
    | "limit"
    | "option"
    | "knowledge"
    | "lorebook"
    | "provider";
  /** The path in the persona's file or in the request. */
  readonly field?: string;
  readonly source?: "caller" | "default";
  /** The value that a limit lowered; absent where nothing was given, so that the limit itself is sent. */
  readonly capped?: unknown;
} & Partial<FilePlace>;

/** A part of a text. */
export type Segment = { readonly text: string; readonly origin: Origin };

/** A part of a composed request: what stands at that path. */
export type ComposedPart = {
  readonly path: readonly PathPart[];
  readonly origin: Origin;
  /** The parts of a message's text, which join to the whole. Absent: it is of one origin. */
  readonly segments?: readonly Segment[];
};

type Body = Readonly<Record<string, unknown>>;

/**
 * @param request as the caller sent it
 * @param composed of persona and request, by `compose`
 * @param places absent where the persona's files are not at hand
 * @param additions that it was composed with
 * @returns parts that cover each value of `composed` once; a part inside of another stands before it
 */
export function originsOf(
  persona: Persona,
  request: ChatRequest,
  composed: ComposedRequest,
  places?: PersonaPlaces,
  additions?: Additions,
): ComposedPart[] {
  const asked = lifted(request) as Body;
  const literal = request as Body;
  const inPersona = (kind: Origin["kind"], ...path: PathPart[]): Origin => ({
    kind,
    field: formatPath(path),
    ...places?.locate(path),
  });
  /** A field that a client library left in `extra_body` is named there. */
  const ofCaller = (...path: PathPart[]): Origin => {
    const isInside = literal[path[0]!] === undefined && asked[path[0]!] !== undefined;
    return { kind: "caller", field: formatPath(isInside ? ["extra_body", ...path] : path) };
  };

  const lorebook = inPersona("lorebook", "lorebook");
  const callers = composed.messages.filter((message, at) => at > 0 && !persona.examples.includes(message));
  const messages = composed.messages.flatMap((message, at): ComposedPart[] => {
    const path = ["messages", at];
    const own = request.messages.indexOf(message);
    if (own >= 0) return [{ path, origin: ofCaller("messages", own) }];
    const example = persona.examples.indexOf(message);
    if (example >= 0) return [{ path, origin: inPersona("persona", "examples", example) }];
    if (at > 0) {
      const preceded = callers.indexOf(message);
      const added = addedSegments(preceded, additions, lorebook);
      return precededParts(path, added, request.messages[preceded]!.content, ofCaller("messages", preceded));
    }
    const origin = inPersona("persona", "system");
    const segments = [
      ...(additions?.before ?? []).map((text) => ({ text: `${text}\n\n`, origin: lorebook })),
      ...systemSegments(persona, asked["variables"], ofCaller, inPersona, places),
      ...(persona.skills ? [{ text: `\n\n${persona.skills.text}`, origin: inPersona("persona", "skills") }] : []),
      ...(additions?.after ?? []).map((text) => ({ text: `\n\n${text}`, origin: lorebook })),
    ];
    const isWhole = segments.map(({ text }) => text).join("") === message.content;
    return [isWhole ? { path, origin, segments } : { path, origin }];
  });

  const fields = Object.entries(composed).flatMap(([name, value]): ComposedPart[] => {
    switch (name) {
      case "messages":
        return [];
      case "stop":
        return (value as string[]).map((text, at) => {
          const own = persona.stop.indexOf(text);
          return { path: [name, at], origin: own >= 0 ? inPersona("persona", name, own) : ofCaller(name) };
        });
      case "tools":
        return (value as unknown[]).map((tool, at) => {
          if (tool === persona.skills?.tool) return { path: [name, at], origin: inPersona("persona", "skills") };
          const own = (persona.tools as readonly unknown[]).indexOf(tool);
          const origin =
            own >= 0 ? inPersona("persona", name, own) : ofCaller(name, (asked["tools"] as unknown[]).indexOf(tool));
          return { path: [name, at], origin };
        });
      case "metadata":
        return Object.keys(value as object).map((key) => {
          const isAsked = isObject(asked[name]) && Object.hasOwn(asked[name], key);
          return { path: [name, key], origin: isAsked ? ofCaller(name, key) : inPersona("persona", name, key) };
        });
      case "store":
      case "response_format":
        return [{ path: [name], origin: asked[name] != null ? ofCaller(name) : inPersona("persona", name) }];
    }
    const sampled = samplingOrigin(persona, asked, name, value, ofCaller, inPersona);
    const isOption = !Object.hasOwn(asked, name) && Object.hasOwn(persona.options, name);
    return [{ path: [name], origin: sampled ?? (isOption ? inPersona("option", "options", name) : ofCaller(name)) }];
  });
  return [...messages, ...fields];
}

/** The segments of the text that a message of the caller begins with. @param message its place among the caller's */
function addedSegments(message: number, additions: Additions | undefined, lorebook: Origin): Segment[] {
  const { sections = [], within = [] } = additions ?? {};
  const { text = "" } = within.find((one) => one.message === message) ?? {};
  const pieces = piecesOf(sections);
  const whole = pieces.join("");
  const holdsSections = whole !== "" && text.endsWith(whole);
  const entries = holdsSections ? text.slice(0, -whole.length) : text;
  return [
    ...(entries === "" ? [] : [{ text: entries, origin: lorebook }]),
    ...(holdsSections ? sections : []).map(({ file, firstLine: line }, at): Segment => {
      const origin: Origin = { kind: "knowledge", field: "knowledge", file, line, column: 1 };
      return { text: pieces[at]!, origin };
    }),
  ];
}

/** A message of the caller behind what was added: one text, or a part of its own before the caller's. */
function precededParts(path: PathPart[], added: readonly Segment[], content: unknown, origin: Origin): ComposedPart[] {
  if (typeof content === "string") {
    const between = { text: `\n\n${content}`, origin };
    return [{ path, origin, segments: [...added, between] }];
  }
  const first: ComposedPart = { path: [...path, "content", 0], origin: added[0]!.origin, segments: added };
  return [first, { path, origin }];
}

type Named = (...path: PathPart[]) => Origin;
type NamedAs = (kind: Origin["kind"], ...path: PathPart[]) => Origin;

/** The segments of the system text. A template's parts with odd numbers are its marks, in the order in which they stand in the text. */
function systemSegments(
  persona: Persona,
  given: unknown,
  ofCaller: Named,
  inPersona: NamedAs,
  places: PersonaPlaces | undefined,
): Segment[] {
  const values = fillIn(persona.variables, given);
  const marks = places === undefined ? [] : findMarks(places.system.text);
  const segments: Segment[] = [];
  for (const [at, part] of persona.system.entries()) {
    if ("variable" in part) {
      const { variable: name } = part;
      const isGiven = isObject(given) && given[name] != null;
      const origin = isGiven ? ofCaller("variables", name) : inPersona("variable", "variables", name, "default");
      const source = isGiven ? "caller" : "default";
      segments.push({ text: values.get(name) ?? "", origin: { ...origin, kind: "variable", source } });
      continue;
    }
    if (part.text === "") continue;
    const isBraces = at % 2 === 1;
    const mark = marks[(at >> 1) - (isBraces ? 0 : 1)];
    const start = mark === undefined ? 0 : mark.index + (isBraces ? 0 : mark.length);
    const cuts = (places?.system.starts ?? []).flatMap((cut) =>
      cut > start && cut < start + part.text.length ? cut - start : [],
    );
    for (const [number, from] of [0, ...cuts].entries()) {
      const text = part.text.slice(from, cuts[number]);
      const last = segments.at(-1);
      const isNew = last?.origin.kind !== "persona" || places?.system.starts.includes(start + from) === true;
      if (isNew)
        segments.push({ text, origin: { ...inPersona("persona", "system"), ...places?.system.placeAt(start + from) } });
      else segments[segments.length - 1] = { ...last, text: last.text + text };
    }
  }
  return segments;
}

function samplingOrigin(
  { defaults, limits }: Persona,
  asked: Body,
  name: string,
  value: unknown,
  ofCaller: Named,
  inPersona: NamedAs,
): Origin | undefined {
  const field = samplingFields.find((one) => one === name);
  if (field === undefined) return undefined;
  if (asked[field] === value) return ofCaller(field);
  const limit = entriesOf(limits).find(([one, most]) => spellingsOf(field).includes(one) && most === value);
  // A default may not be above its limit, so that a value that is both is the default's.
  const isDefault = asked[field] == null && defaults[field] === value;
  if (isDefault) return inPersona("default", "defaults", field);
  if (limit === undefined) return undefined;
  return { ...inPersona("limit", "limits", limit[0]), ...(asked[field] != null && { capped: asked[field] }) };
}
