/** Changes by hand of which variants answer: those of the admin API and of the command line. */
import type { Persona } from "../../personas/persona.ts";
import type { Store } from "../../store/store.ts";

type Variants = Pick<Store, "variants">;

const othersOf = ({ variants = [] }: Persona, variant: string): string[] =>
  variants.filter(({ name }) => name !== variant).map(({ name }) => name);

/**
 * Stops a variant of the version that is given, until it is resumed or the persona's content changes.
 * @param at Unix milliseconds
 * @returns the others that serve; undefined: it was stopped already
 */
export async function stopVariant(
  { variants }: Variants,
  persona: Persona,
  variant: string,
  at: number,
): Promise<string[] | undefined> {
  const { id, version } = persona;
  if ((await variants.stop(id, version, variant, at)) === 0) return undefined;
  const stopped = (await variants.list(id)).filter((one) => one.version === version && one.stoppedAt !== null);
  return othersOf(persona, variant).filter((other) => !stopped.some((one) => one.variant === other));
}

/** What a promotion changed. @property stopped those that served @property resumed whether it was stopped itself */
export type Promotion = { readonly stopped: readonly string[]; readonly resumed: boolean };

/** Lets all callers go to one variant: it goes on, and the others are stopped. @param at Unix milliseconds */
export async function promoteVariant(
  { variants }: Variants,
  persona: Persona,
  variant: string,
  at: number,
): Promise<Promotion> {
  const { id, version } = persona;
  const resumed = (await variants.resume(id, variant, at)) > 0;
  const stopped: string[] = [];
  for (const other of othersOf(persona, variant))
    if ((await variants.stop(id, version, other, at)) > 0) stopped.push(other);
  return { stopped, resumed };
}
