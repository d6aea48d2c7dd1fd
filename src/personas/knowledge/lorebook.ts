/**
 * Finds the entries of a lorebook whose keys the latest messages mention. Keys are plain texts and no patterns, so that no message
 * takes longer than its length. Source: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#lorebook-fields
 */
import { estimateTokens } from "../../lib/token-estimate.ts";
import type { Message } from "../../protocols/chat/schema.ts";
import { fillTemplate } from "../template.ts";
import type { Lorebook, LorebookEntry } from "./schema.ts";
import { textOf } from "./texts.ts";

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
  let scanned = new Scanned(latestOf(messages, lorebook.scanDepth));
  for (let round = 0; round < maxRounds; round += 1) {
    const added: string[] = [];
    for (const entry of lorebook.entries) {
      if (active.has(entry) || !(entry.constant || isMentioned(entry, scanned))) continue;
      const text = fillTemplate(entry.content, values);
      active.set(entry, text);
      added.push(text);
    }
    if (!lorebook.recursive || added.length === 0) break;
    scanned = new Scanned(added.join("\n").slice(0, maxScanned));
  }
  return withinBudget(lorebook, active);
}

function latestOf(messages: readonly Message[], depth: number): string {
  const said = messages.filter(({ role }) => role === "user" || role === "assistant").slice(-depth);
  return said.map(textOf).join("\n").slice(-maxScanned);
}

class Scanned {
  readonly #text: string;
  readonly #lower: string;

  constructor(text: string) {
    this.#text = text;
    this.#lower = text.toLowerCase();
  }

  has(key: string, caseSensitive: boolean): boolean {
    return caseSensitive ? this.#text.includes(key) : this.#lower.includes(key);
  }
}

function isMentioned({ keys, secondaryKeys, caseSensitive }: LorebookEntry, scanned: Scanned): boolean {
  const isThere = (key: string) => scanned.has(key, caseSensitive);
  return keys.some(isThere) && (secondaryKeys.length === 0 || secondaryKeys.some(isThere));
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
