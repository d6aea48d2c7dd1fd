/**
 * Finds the entries of a lorebook whose keys the latest messages mention. Keys are plain texts and no patterns, so that no message
 * takes longer than its length; what has to hold of secondary keys and whole words is SillyTavern's. Source: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#lorebook-fields
 */
import { estimateTokens } from "../../lib/text/token-estimate.ts";
import type { Message } from "../../protocols/chat/schema.ts";
import { fillTemplate } from "../compose/template.ts";
import type { Lorebook, LorebookEntry } from "./schema.ts";
import { messageTextOf } from "./texts.ts";

/** An entry that is added, with its text. */
export type ActiveEntry = { readonly entry: LorebookEntry; readonly text: string; readonly tokens: number };

/** Characters of the latest messages, and of added entries, that keys are looked for in. */
const maxScanned = 32_768;
/** Rounds in which entries may lead to others. */
const maxRounds = 4;

/** @returns those that are added, in their order */
export function activeEntries(
  lorebook: Lorebook,
  messages: readonly Message[],
  values: ReadonlyMap<string, string>,
): ActiveEntry[] {
  const active = new Map<LorebookEntry, string>();
  const added: string[] = [];
  for (let round = 0; round < maxRounds; round += 1) {
    const known = added.length;
    const scanned = scannedBy(lorebook, messages, added);
    for (const entry of lorebook.entries) {
      const { isExcluded, isPrevented, isAwaited } = entry.recursion;
      if (active.has(entry) || (round === 0 ? isAwaited : isExcluded)) continue;
      if (!(entry.constant || isMentioned(entry, scanned(entry)))) continue;
      const text = fillTemplate(entry.content, values);
      active.set(entry, text);
      if (!isPrevented) added.push(text);
    }
    if (!lorebook.recursive || added.length === known) break;
  }
  return withinBudget(lorebook, active);
}

/** @param added texts of entries, which lead to others @returns what the keys of an entry are looked for in */
function scannedBy({ scanDepth }: Lorebook, messages: readonly Message[], added: readonly string[]) {
  const byDepth = new Map<number, Scanned>();
  const led = added.join("\n").slice(0, maxScanned);
  return ({ scanDepth: depth = scanDepth }: LorebookEntry): Scanned => {
    const made = byDepth.get(depth) ?? new Scanned(`${latestOf(messages, depth)}\n${led}`);
    byDepth.set(depth, made);
    return made;
  };
}

function latestOf(messages: readonly Message[], depth: number): string {
  const said = messages.filter(({ role }) => role === "user" || role === "assistant").slice(-depth);
  return said.map(messageTextOf).join("\n").slice(-maxScanned);
}

class Scanned {
  readonly #text: string;
  readonly #lower: string;

  constructor(text: string) {
    this.#text = text;
    this.#lower = text.toLowerCase();
  }

  has(key: string, { caseSensitive, wholeWords }: LorebookEntry): boolean {
    const text = caseSensitive ? this.#text : this.#lower;
    if (!wholeWords || /\s/.test(key)) return text.includes(key);
    for (let at = text.indexOf(key); at >= 0; at = text.indexOf(key, at + 1)) {
      if (!isWord(text[at - 1]) && !isWord(text[at + key.length])) return true;
    }
    return false;
  }
}

const isWord = (character: string | undefined) => character !== undefined && /\w/.test(character);

function isMentioned(entry: LorebookEntry, scanned: Scanned): boolean {
  const { keys, secondaryKeys, secondaryLogic } = entry;
  const isThere = (key: string) => scanned.has(key, entry);
  if (!keys.some(isThere)) return false;
  if (secondaryKeys.length === 0) return true;
  if (secondaryLogic === "any") return secondaryKeys.some(isThere);
  if (secondaryLogic === "not_any") return !secondaryKeys.some(isThere);
  return secondaryKeys.every(isThere) === (secondaryLogic === "all");
}

/** Those of the highest priority that fit together: beyond the budget the lowest are left out. */
function withinBudget({ entries, tokenBudget }: Lorebook, active: ReadonlyMap<LorebookEntry, string>): ActiveEntry[] {
  const fitting = new Map<LorebookEntry, ActiveEntry>();
  let room = tokenBudget;
  for (const [entry, text] of [...active].toSorted(([one], [other]) => other.priority - one.priority)) {
    const tokens = estimateTokens(text);
    if (text === "" || tokens > room) continue;
    room -= tokens;
    fitting.set(entry, { entry, text, tokens });
  }
  return entries.flatMap((entry) => fitting.get(entry) ?? []);
}
