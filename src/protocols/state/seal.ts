/**
 * Seals: one maker's thinking state (signed blocks, encrypted reasoning, thought signatures) in a slot that another client
 * format has for its own maker's. An envelope differs from a native seal by its prefix, and names the family that made its
 * content, which alone can read it: `trp1.<family>.<JSON in base64url>`. It is neither secret nor signed: makers check theirs.
 */
import { parseJson } from "../../lib/json/json.ts";
import { JsonScan } from "../../lib/json/scan.ts";

export const sealFamilies = ["anthropic", "google", "openai", "xai", "openrouter", "troupe"] as const;
export type SealFamily = (typeof sealFamilies)[number];

type Seal = { readonly family: SealFamily; readonly content: unknown };

const prefix = "trp1.";
const form = /^trp1\.([a-z]+)\.([\w-]+)$/;

/** Bounds of one envelope. Its length is bounded by that of the body it came in, whose other bounds it would pass by. */
const limits = { jsonDepth: 64, jsonValues: 1000, jsonKeys: 1000, jsonStringBytes: Number.POSITIVE_INFINITY };

/** @param content JSON, of few values @returns one word of letters, digits, `.`, `_` and `-` */
export function seal(family: SealFamily, content: unknown): string {
  return `${prefix}${family}.${Buffer.from(JSON.stringify(content)).toString("base64url")}`;
}

/** The same where a slot holds bytes in base64, as Gemini's does: its typed clients refuse other texts. */
export function sealAsBytes(family: SealFamily, content: unknown): string {
  return Buffer.from(seal(family, content)).toString("base64");
}

/** For a slot that must hold a seal where no maker has one: an envelope that nobody can open. */
export const emptySeal = `${prefix}none`;

/** The beginning of envelopes in base64. */
const bytesPrefix = "dHJwMS";

/** @param text in either alphabet of base64, where it is: clients write bytes anew */
const opened = (text: string): string =>
  text.startsWith(bytesPrefix) ? Buffer.from(text, "base64").toString("latin1") : text;

/** True for an envelope of ours, be it one that can't be opened: no upstream takes it for its own seal. */
export function isSeal(text: string): boolean {
  return opened(text).startsWith(prefix);
}

/** @param text a caller's @returns undefined for a native seal, and for an envelope of an unknown family or a damaged one */
export function unseal(text: string): Seal | undefined {
  if (!isSeal(text)) return undefined;
  const [, maker, encoded] = form.exec(opened(text)) ?? [];
  const family = sealFamilies.find((one) => one === maker);
  if (family === undefined || encoded === undefined) return undefined;
  const json = Buffer.from(encoded, "base64url");
  if (new JsonScan(limits).push(json) !== undefined) return undefined;
  const content = parseJson(json.toString());
  return content === undefined ? undefined : { family, content };
}
