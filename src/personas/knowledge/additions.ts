/** What knowledge and a lorebook add to one call, and where it stands in its messages. Pure. */
import type { FoundSection } from "../../lib/text/sections.ts";
import type { Insertion } from "../../protocols/body/insertion.ts";
import type { ChatRequest, Message } from "../../protocols/chat/schema.ts";
import type { Persona } from "../persona.ts";
import { type ActiveEntry, activeEntries } from "./lorebook.ts";
import { chooseSections, sectionTokens, writeSections } from "./sections.ts";

export type Additions = {
  /** Sections of files, the best first. */
  readonly sections: readonly FoundSection[];
  /** Entries of the lorebook, in their order. */
  readonly entries: readonly ActiveEntry[];
  /** The estimated tokens of all. */
  readonly tokens: number;
  /** Texts before and after the persona's, in the system message. */
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** Texts that stand first in messages of the user. */
  readonly within: readonly Insertion[];
};

/**
 * @param messages the caller's
 * @param values of the persona's variables
 * @param found sections for the question, the best first
 * @returns undefined where nothing is added
 */
export function additionsOf(
  { knowledge, lorebook }: Pick<Persona, "knowledge" | "lorebook">,
  messages: ChatRequest["messages"],
  values: ReadonlyMap<string, string>,
  found: readonly FoundSection[],
): Additions | undefined {
  const users = usersIn(messages);
  // What stands in no message of the user has no place.
  const sections = knowledge === undefined || users.length === 0 ? [] : chooseSections(found, knowledge);
  const active = lorebook === undefined ? [] : activeEntries(lorebook, messages, values);
  const entries = active.filter(({ entry: { place } }) => typeof place !== "number" || users.length > 0);
  if (sections.length === 0 && entries.length === 0) return undefined;
  const within = new Map<number, string[]>();
  const put = (message: number, text: string) => within.set(message, [...(within.get(message) ?? []), text]);
  const atDepth = Map.groupBy(
    entries.filter(({ entry: { place } }) => typeof place === "number"),
    ({ entry: { place } }) => userAt(users, messages.length - (place as number)),
  );
  for (const [message, group] of atDepth) put(message, writeEntries(group));
  if (sections.length > 0) put(users.at(-1)!, writeSections(sections));
  return {
    sections,
    entries,
    tokens: entries.reduce((sum, { tokens }) => sum + tokens, sectionTokens(sections)),
    before: textsAt(entries, "before_system"),
    after: textsAt(entries, "after_system"),
    within: [...within].map(([message, texts]) => ({
      message,
      user: users.indexOf(message),
      users: users.length,
      text: texts.join("\n\n"),
    })),
  };
}

const usersIn = (messages: readonly Message[]): number[] =>
  messages.flatMap(({ role }, at) => (role === "user" ? at : []));

/** The message of the user at or before that place, else the first one. */
const userAt = (users: readonly number[], place: number): number =>
  users.findLast((at) => at < Math.max(place, users[0]! + 1)) ?? users[0]!;

const textsAt = (entries: readonly ActiveEntry[], place: "before_system" | "after_system") =>
  entries.filter(({ entry }) => entry.place === place).map(({ text }) => text);

const writeEntries = (entries: readonly ActiveEntry[]): string =>
  `<lorebook>\n${entries.map(({ text }) => text).join("\n\n")}\n</lorebook>`;

/** @returns the caller's messages with the texts that stand within them */
export function withInsertions(messages: readonly Message[], within: readonly Insertion[]): readonly Message[] {
  if (within.length === 0) return messages;
  const texts = new Map(within.map(({ message, text }) => [message, text]));
  return messages.map((message, at) => {
    const text = texts.get(at);
    return text === undefined ? message : ({ ...message, content: precededContent(message.content, text) } as Message);
  });
}

function precededContent(content: Message["content"], text: string): unknown {
  if (typeof content === "string") return `${text}\n\n${content}`;
  return [{ type: "text", text }, ...(Array.isArray(content) ? content : [])];
}
