/** Names of models, as providers, clouds and gateways write them: what is left of one that says which model it is, and of which version. */

/** Regions and makers before a name at clouds: `us.anthropic.claude-…`, `openai.gpt-…`. */
const dottedBegin = /^(?:[a-z][a-z-]*\.)+(?=[a-z])/;
/** The version of a cloud's own offer of a model: `…-v1:0`. */
const offerVersion = /-v\d+$/;
/** Behind a fine-tuned model's name stand whose it is and what it is called: `ft:gpt-5.6-luna:acme::id`. */
const fineTuned = /^ft:([^:]+)/;
/** A snapshot's day: `-2025-08-07`, `-20250929`. */
const snapshot = /-20\d\d-?[01]\d-?[0-3]\d$/;

/**
 * @param given `models/gemini-4-pro`, `openai/gpt-6`, `us.anthropic.claude-opus-5-v1:0`, `claude-opus-4-5@20251101`, `ft:gpt-4o:acme::1`,
 * an ARN, or a plain name
 * @returns the maker's own name in small letters: without folders, regions, what it is tuned for, and a cloud's version
 */
export function bareName(given: string): string {
  const name = given.slice(given.lastIndexOf("/") + 1).toLowerCase();
  const tuned = fineTuned.exec(name)?.[1];
  if (tuned !== undefined) return tuned;
  const plain = name.replace(/[@:].*$/s, "");
  const own = plain.replace(dottedBegin, "");
  return own === plain ? plain : own.replace(offerVersion, "");
}

/** A snapshot is the model that it is of: `gpt-4o-2024-08-06`, `claude-sonnet-4-5-20250929`. */
export const withoutDay = (name: string): string => name.replace(snapshot, "");

/** What a line calls its newest model, whatever its number. */
const newestWord = /^(?:-?latest)?$/;

export type Version = readonly [major: number, minor: number];
/** Later than any that has a number. */
const newest: Version = [Number.POSITIVE_INFINITY, 0];

/**
 * The version that a text begins with: `5.6-luna`, `5-5-20260801`, `4-0709`. A day is none, nor is a size: `3-32b`.
 * @returns undefined where it does not begin with one; for `latest` and for nothing at all, the newest
 */
export function versionAt(text: string): Version | undefined {
  if (newestWord.test(text)) return newest;
  const [, written, dotted, dashed] = /^(\d{1,2})(?:\.(\d{1,2})(?!\d)|-(\d{1,2})(?![\da-z]))?(?!\d)/.exec(text) ?? [];
  if (written === undefined) return undefined;
  const major = Number(written);
  const minor = dotted ?? dashed;
  // Azure names models without the dot: `gpt-35-turbo`.
  if (minor === undefined && major >= 20) return [Math.floor(major / 10), major % 10];
  return [major, Number(minor ?? 0)];
}

export const isAtLeast = ([major, minor]: Version, [firstMajor, firstMinor]: Version): boolean =>
  major > firstMajor || (major === firstMajor && minor >= firstMinor);

/** A name at its number: `kimi-k3.1-pro` is `kimi-k`, 3.1 and `-pro`. */
type NumberedName = { readonly begin: string; readonly version: Version; readonly end: string };

const numbered = /(?<![\d.])\d{1,2}(?:\.\d{1,2}(?!\d)|-\d{1,2}(?![\da-z]))?(?!\d)/;

/** @param name a bare name without a day @returns undefined where there is no number in it, unless it is a line's `latest` */
export function numberedName(name: string): NumberedName | undefined {
  const found = numbered.exec(name);
  if (found !== null) {
    const end = name.slice(found.index + found[0].length);
    return { begin: name.slice(0, found.index), version: versionAt(found[0])!, end };
  }
  return name.endsWith("-latest") ? { begin: name.slice(0, -"latest".length), version: newest, end: "" } : undefined;
}
