/**
 * Dates on which models end, as their makers announced them by `checkedOn`; what a provider's own list says goes before. Floors ("not
 * sooner than") are no announcements and do not stand here. Other hosts of the same models have schedules of their own.
 */
import { ownMember } from "../lib/own-member.ts";

/** The day on which the pages were read last. Documents are checked against this day, so that no test fails by the passing of time. */
export const checkedOn = "2026-11-23";

type Ending = readonly [ends: string, ...models: readonly string[]];

const endings: Readonly<Record<string, readonly Ending[]>> = {
  // https://developers.openai.com/api/docs/deprecations
  openai: [
    ["2026-07-23", "computer-use-preview", "gpt-4o-search-preview", "gpt-4o-mini-search-preview", "o3-deep-research"],
    ["2026-07-23", "gpt-5-chat-latest", "gpt-5-codex", "gpt-5.1-chat-latest", "gpt-5.2-codex", "o4-mini-deep-research"],
    ["2026-07-23", "gpt-5.1-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini"],
    ["2026-08-10", "gpt-5.2-chat-latest", "gpt-5.3-chat-latest"],
    ["2026-10-23", "gpt-4", "gpt-4-0613", "gpt-4-1106-preview", "gpt-4-turbo", "gpt-4o-2024-05-13", "gpt-4.1-nano"],
    ["2026-10-23", "gpt-3.5-turbo", "gpt-3.5-turbo-0125"],
    ["2026-10-23", "o1", "o1-pro", "o3-mini", "o4-mini", "gpt-image-1"],
    ["2026-12-01", "gpt-image-1-mini", "gpt-image-1.5", "chatgpt-image-latest"],
    ["2026-12-11", "gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro", "o3", "o3-pro"],
    ["2027-01-06", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"],
    ["2027-01-14", "gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini"],
    ["2027-01-20", "gpt-realtime", "gpt-audio", "gpt-4o-realtime", "gpt-4o-realtime-preview"],
    ["2027-01-20", "gpt-4o-audio", "gpt-4o-audio-preview"],
    ["2027-02-26", "whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-4o-transcribe-diarize"],
    ["2027-04-01", "gpt-5.1", "gpt-5.3-codex", "gpt-5.4-nano"],
  ],
  // https://platform.claude.com/docs/en/about-claude/model-deprecations
  anthropic: [
    ["2025-07-21", "claude-3-sonnet"],
    ["2025-10-28", "claude-3-5-sonnet", "claude-3-5-sonnet-latest"],
    ["2026-01-05", "claude-3-opus", "claude-3-opus-latest"],
    ["2026-02-19", "claude-3-7-sonnet", "claude-3-7-sonnet-latest", "claude-3-5-haiku", "claude-3-5-haiku-latest"],
    ["2026-04-20", "claude-3-haiku"],
    ["2026-06-15", "claude-opus-4", "claude-opus-4-0", "claude-sonnet-4", "claude-sonnet-4-0"],
    ["2026-08-05", "claude-opus-4-1"],
    ["2026-11-30", "claude-sonnet-4-5"],
  ],
  // https://ai.google.dev/gemini-api/docs/deprecations
  google: [
    ["2026-03-09", "gemini-3-pro-preview"],
    ["2026-06-01", "gemini-2.0-flash", "gemini-2.0-flash-001", "gemini-2.0-flash-lite", "gemini-2.0-flash-lite-001"],
    ["2026-12-01", "gemini-2.5-pro", "gemini-2.5-flash"],
    ["2027-05-07", "gemini-3.1-flash-lite"],
  ],
  // https://docs.x.ai/developers/migration/may-15-retirement
  xai: [
    ["2026-05-15", "grok-3", "grok-4-0709", "grok-code-fast-1"],
    ["2026-05-15", "grok-4-fast-reasoning", "grok-4-fast-non-reasoning"],
    ["2026-05-15", "grok-4-1-fast-reasoning", "grok-4-1-fast-non-reasoning"],
  ],
  // https://github.com/mistralai/platform-docs-public/pull/496
  mistral: [
    ["2026-07-31", "devstral-2512", "magistral-medium-2509", "open-mistral-nemo-2407"],
    ["2026-08-31", "mistral-medium-2505", "mistral-medium-2508"],
  ],
  // https://api-docs.deepseek.com/news/news260424
  deepseek: [["2026-07-24", "deepseek-chat", "deepseek-reasoner"]],
  // https://console.groq.com/docs/deprecations
  groq: [["2026-08-16", "llama-3.3-70b-versatile", "llama-3.1-8b-instant"]],
};

const byProvider: Readonly<Record<string, Readonly<Record<string, string>>>> = Object.fromEntries(
  Object.entries(endings).map(([provider, rows]) => [
    provider,
    Object.fromEntries(rows.flatMap(([ends, ...models]) => models.map((model) => [model, ends]))),
  ]),
);

/** Every model of the table: provider, name, and the day on which it ends. */
export const announcedEndings = (): readonly (readonly [provider: string, model: string, ends: string])[] =>
  Object.entries(endings).flatMap(([provider, rows]) =>
    rows.flatMap(([ends, ...models]) => models.map((model) => [provider, model, ends] as const)),
  );

/** A snapshot ends with its model, unless the table names it: `gpt-4o-2024-08-06`, `claude-sonnet-4-5-20250929`. */
const snapshot = /-20\d\d-?[01]\d-?[0-3]\d$/;

/**
 * @param provider the provider's own name (the account's dialect)
 * @returns the day (YYYY-MM-DD, UTC) on which the model ends; undefined where none is announced
 */
export function announcedEnd(provider: string, model: string): string | undefined {
  const models = ownMember(byProvider, provider);
  if (models === undefined) return undefined;
  const name = model.toLowerCase();
  return ownMember(models, name) ?? ownMember(models, name.replace(snapshot, ""));
}

/** How long before its end a model is reported: six months, in days. */
const noticeDays = 183;
const dayMs = 86_400_000;

export type EndState = "ended" | "ends_soon" | "later";

/** @param ends YYYY-MM-DD: the first day on which it no longer answers @param now Unix milliseconds */
export function endState(ends: string, now: number): EndState {
  const at = Date.parse(ends);
  if (now >= at) return "ended";
  return at - now < noticeDays * dayMs ? "ends_soon" : "later";
}

/** `ended on 2026-06-15`, `ends on 2027-01-14`: for people. */
export const endWords = (ends: string, now: number): string =>
  `${endState(ends, now) === "ended" ? "ended" : "ends"} on ${ends}`;
