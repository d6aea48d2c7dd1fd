/** Which model answered, where the upstream gave the call to another one than was asked. */
import { objectOf, textOf } from "../../lib/json/json.ts";

/**
 * @param asked the model as it was asked @param answered as the answer names it
 * @returns the model that answered; undefined where it is the same by another of its names: with a date, a version, a cloud's prefix
 */
export function servedBy(asked: string, answered: unknown): string | undefined {
  const name = textOf(answered);
  if (name === undefined || name === asked) return undefined;
  const [one, other] = [plainName(asked), plainName(name)];
  return one === undefined || other === undefined || one === other ? undefined : name.slice(0, 128);
}

/**
 * The name of a Claude model without its date, version and place, its words in one order: the number may stand before the family or behind it.
 * Undefined where it is none: a deployment or a profile may have any name.
 */
function plainName(model: string): string | undefined {
  const name = /claude-[a-z0-9.-]+/.exec(model.toLowerCase().replace(/.*(?=claude-)/, ""))?.[0];
  const words = name
    ?.replaceAll(".", "-")
    .replace(/-v\d+$/, "")
    .replace(/-(?:20\d{6}|latest|0)$/, "")
    .split("-");
  const isNumber = (word: string) => /^\d+$/.test(word);
  return words && [...words.filter((word) => !isNumber(word)).sort(), ...words.filter(isNumber)].join("-");
}

/** The model behind a boundary between two attempts: https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback */
export const servedBehind = (block: unknown): string | undefined =>
  textOf(objectOf(objectOf(block)?.["to"])?.["model"])?.slice(0, 128);
