/** Acts on personas' variants: which of them answer. They hold until they are undone or the persona's content changes. */
import { suggest } from "../lib/text/suggest.ts";
import type { Persona } from "../personas/persona.ts";
import { ApiError } from "../protocols/errors.ts";
import type { VariantState } from "../store/contract/variants.ts";
import { type Done, done, type Operator } from "./act.ts";

/** @returns its other variants @throws ApiError not_found */
function othersOf({ id, variants = [] }: Persona, variant: string): string[] {
  const names = variants.map(({ name }) => name);
  if (names.includes(variant)) return names.filter((name) => name !== variant);
  const known =
    names.length === 0 ? `${id} has no variants.` : `${id} has no variant '${variant}': ${names.join(", ")}.`;
  const guess = suggest(variant, names);
  throw ApiError.notFound(guess === undefined ? known : `${known} Did you mean '${guess}'?`, "variant");
}

/** @property serving the others that are not stopped */
type Stopped = Done<undefined, { readonly version: string }> & { readonly serving: readonly string[] };

/** Stops a variant of the version that is given. @throws ApiError not_found, also where it is stopped */
export async function stopVariant(operator: Operator, persona: Persona, variant: string): Promise<Stopped> {
  const others = othersOf(persona, variant);
  const { id, version } = persona;
  const { variants } = operator.store;
  if ((await variants.stop(id, version, variant, operator.clock.now())) === 0)
    throw ApiError.notFound(`${variant} of ${id} is stopped already.`, "variant");
  const stopped = (await variants.list(id)).filter((one) => one.version === version && one.stoppedAt !== null);
  await operator.reread();
  return {
    serving: others.filter((other) => !stopped.some((one) => one.variant === other)),
    ...(await done(operator, "variant.stop", `${id} ${variant}`, undefined, { version })),
  };
}

/** What a promotion changed. @property stopped those that served @property resumed whether it was stopped itself */
type Promotion = { readonly version: string; readonly stopped: readonly string[]; readonly resumed: boolean };

/** Lets all callers go to one variant: it goes on, and the others are stopped. @throws ApiError not_found */
export async function promoteVariant(
  operator: Operator,
  persona: Persona,
  variant: string,
): Promise<Done<undefined, Promotion>> {
  const others = othersOf(persona, variant);
  const { id, version } = persona;
  const { variants } = operator.store;
  const at = operator.clock.now();
  const resumed = (await variants.resume(id, variant, at)) > 0;
  const stopped: string[] = [];
  for (const other of others) if ((await variants.stop(id, version, other, at)) > 0) stopped.push(other);
  await operator.reread();
  return done(operator, "variant.promote", `${id} ${variant}`, undefined, { version, stopped, resumed });
}

/** Lets a variant that is stopped go on, in all versions of the persona, with a new window. @throws ApiError not_found */
export async function resumeVariant(
  operator: Operator,
  id: string,
  variant: string,
): Promise<Done<readonly VariantState[], undefined>> {
  const { variants } = operator.store;
  const stopped = (await variants.list(id)).filter((one) => one.variant === variant && one.stoppedAt !== null);
  const resumed = await variants.resume(id, variant, operator.clock.now());
  await operator.reread();
  if (resumed === 0) throw ApiError.notFound(`${id} has no variant ${variant} that is stopped.`, "variant");
  return done(operator, "variant.resume", `${id} ${variant}`, stopped, undefined);
}
