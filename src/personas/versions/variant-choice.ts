/** The choice of the variant that answers a caller. */
import type { Variant } from "../persona.ts";

/**
 * Chooses by weighted rendezvous hashing: each variant draws a number from the caller's name, and the least in relation to its weight wins.
 * So a caller stays with its variant, and when a weight changes or a variant stops, only as many callers move as the shares change by.
 * Source: https://www.snia.org/sites/default/files/SDC15_presentations/dist_sys/Jason_Resch_New_Consistent_Hashings_Rev.pdf
 * @param id of the persona, so that nobody is in the small part of every persona
 * @param sticky the caller's name @param isOut whether nobody goes to a variant
 * @returns undefined where nobody goes to any
 */
export function chooseVariant(
  id: string,
  variants: readonly Variant[],
  sticky: string,
  isOut: (variant: Variant) => boolean = () => false,
): Variant | undefined {
  let chosen: Variant | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const variant of variants) {
    if (variant.weight === 0 || isOut(variant)) continue;
    const drawn = (Bun.hash.xxHash32(`${id}\n${variant.name}\n${sticky}`) + 0.5) / 2 ** 32;
    const score = -Math.log(drawn) / variant.weight;
    if (score >= least) continue;
    least = score;
    chosen = variant;
  }
  return chosen;
}
