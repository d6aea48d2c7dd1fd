/** A persona in the making: what an importer returns, and how it moves a format's values over. */
import { Check } from "@sinclair/typebox/value";
import { saysNothing } from "../../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../../lib/json/schema-errors.ts";
import { SamplingFields } from "../../../protocols/chat/schema.ts";
import type { PersonaContent } from "../../file/schema.ts";

/** A persona file's content; a format that names no model, or no description, leaves that to whoever imports it. */
export type Draft = Omit<PersonaContent, "model" | "description"> & {
  readonly model?: readonly string[];
  readonly description?: string;
  /** Prompts of OpenAI's Responses that it answers. */
  readonly prompt_ids?: Readonly<Record<string, Readonly<Record<string, string>>>>;
};

/** Something that a persona does not carry over, and where in the file it stands. */
export type Omission = {
  readonly place: string;
  /** A sentence without its subject, or a word for what it is. */
  readonly message: string;
};

export type Imported = {
  /** As the file has it; "" where it has none. */
  readonly name: string;
  readonly draft: Draft;
  /** A picture that stands in the file. */
  readonly avatar?: { readonly extension: string; readonly bytes: Uint8Array };
  /** A test file's content, for `<name>.test.yaml`. */
  readonly tests?: Readonly<Record<string, unknown>>;
  readonly omitted: readonly Omission[];
};

type Examples = NonNullable<PersonaContent["examples"]>;
type Variables = NonNullable<PersonaContent["variables"]>;

/** Text as a template that has no variables: braces are literal. */
export const literal = (text: string): string => text.replaceAll("{{", "\\{{");

/**
 * Joins pieces of text and variables to a template. A brace or a backslash right before a variable would be read with it: they stand in
 * quotes there.
 */
export function joinTemplate(pieces: readonly (string | { readonly variable: string })[]): string {
  let template = "";
  let text = "";
  for (const piece of [...pieces, ""]) {
    if (typeof piece === "string") text += piece;
    else {
      template += `${beforeVariable(text)}{{${piece.variable}}}`;
      text = "";
    }
  }
  template += literal(text);
  return template;
}

function beforeVariable(text: string): string {
  const [run = ""] = /[\\{]*$/.exec(text) ?? [];
  const isRead = run.endsWith("\\") || (/\{*$/.exec(run)![0].length & 1) === 1;
  return isRead ? `${literal(text.slice(0, text.length - run.length))}{{${JSON.stringify(run)}}}` : literal(text);
}

/** Collects what is left out. */
export class Omissions {
  readonly list: Omission[] = [];

  add(place: string | readonly PathPart[], message: string): void {
    this.list.push({ place: typeof place === "string" ? place : formatPath(place), message });
  }

  /** Lists the members of an object that are not known, but for those that say nothing. */
  addRest(
    object: object,
    known: readonly string[],
    path: readonly PathPart[],
    message = "has no place in a persona",
  ): void {
    for (const [key, value] of Object.entries(object)) {
      if (!known.includes(key) && !saysNothing(value)) this.add([...path, key], message);
    }
  }
}

export type SamplingName = keyof typeof SamplingFields;

/**
 * @param names what the format calls a field, and what it is called here
 * @returns the values that fit; others are listed
 */
export function samplingOf(
  given: Readonly<Record<string, unknown>>,
  names: Readonly<Record<string, SamplingName>>,
  path: readonly PathPart[],
  omissions: Omissions,
): NonNullable<Draft["defaults"]> {
  const defaults: Record<string, unknown> = {};
  for (const [theirs, ours] of Object.entries(names)) {
    const value = given[theirs];
    if (value === undefined || value === null) continue;
    if (!Check(SamplingFields[ours], value)) omissions.add([...path, theirs], `does not fit defaults.${ours}`);
    else if (defaults[ours] !== undefined) omissions.add([...path, theirs], "is given twice");
    else defaults[ours] = value;
  }
  return defaults;
}

/** @param value of any form @returns up to four stop sequences; the rest is listed */
export function stopsOf(value: unknown, path: readonly PathPart[], omissions: Omissions): string[] {
  const given = [value ?? []].flat();
  const all = given.filter((stop): stop is string => typeof stop === "string" && stop !== "");
  if (given.some((stop) => typeof stop !== "string"))
    omissions.add(path, "has some that are no texts, which are left out");
  if (all.length > 4) omissions.add(path, "has more than four: the first four are taken");
  return [...new Set(all)].slice(0, 4);
}

/** A file's fields without those that are empty: they mean nothing and would only be in the way. */
export function withoutEmpty<T extends object>(fields: { readonly [K in keyof T]: T[K] | undefined }): T {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && !isEmpty(value));
  return Object.fromEntries(given) as T;
}

const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0;

/**
 * @param omissions is told where some of the text is left out
 * @returns a sentence for lists of models: one line of at most 1000 characters; undefined where there is none
 */
export function descriptionOf(text: string | undefined, omissions?: Omissions): string | undefined {
  const line = firstLineOf(text);
  if (line !== undefined && line !== text!.trim().replace(/\s+/g, " ").toWellFormed())
    omissions?.add("description", "is cut to its first paragraph, of at most 1000 characters");
  return line;
}

function firstLineOf(text: string | undefined): string | undefined {
  const line = (text ?? "")
    .trim()
    .split(/\n\s*\n/)[0]!
    .replace(/\s+/g, " ")
    .toWellFormed();
  if (line === "") return undefined;
  return line.length <= 1000
    ? line
    : `${line
        .slice(0, 999)
        .toWellFormed()
        .replace(/\ufffd$/, "")}…`;
}

export type DraftTurn = { readonly role: "user" | "assistant"; readonly content: string };

/** @returns turns joined where one role speaks twice; undefined where they do not begin with a question and end with an answer */
export function pairedTurns(turns: readonly DraftTurn[]): Examples | undefined {
  const joined: DraftTurn[] = [];
  for (const turn of turns) {
    const last = joined.at(-1);
    if (last?.role === turn.role)
      joined[joined.length - 1] = { ...last, content: `${last.content}\n\n${turn.content}` };
    else joined.push(turn);
  }
  const isPaired = joined.length % 2 === 0 && (joined.length === 0 || joined[0]!.role === "user");
  return isPaired && joined.every(({ content }) => content !== "") ? joined : undefined;
}

export type { Examples, Variables };
