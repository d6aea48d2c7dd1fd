/** What is written in a file of the folder of personas, and not saved yet. */
import { signal } from "@preact/signals";
import { isOwn } from "../../who.ts";

/** @property base the text that it was made of, and its hash */
export type Draft = { readonly text: string; readonly base: string; readonly hash: string | null };

const stored = (name: string) => `troupe.draft.${name}`;

/** By the files' names: it outlives the page that shows it, and a reload of the tab. */
export const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

export function keep(name: string, draft: Draft | undefined): void {
  const next = new Map(drafts.value);
  if (draft === undefined) next.delete(name);
  else next.set(name, draft);
  drafts.value = next;
  try {
    if (draft === undefined) sessionStorage.removeItem(stored(name));
    else sessionStorage.setItem(stored(name), JSON.stringify(draft));
  } catch {
    // A browser without room keeps it as long as the page is open.
  }
}

/** Takes up what the tab has of an earlier page. */
export async function takeUp(name: string): Promise<void> {
  await isOwn;
  if (drafts.value.has(name)) return;
  try {
    keep(name, JSON.parse(sessionStorage.getItem(stored(name)) ?? "") as Draft);
  } catch {
    // There is none.
  }
}
