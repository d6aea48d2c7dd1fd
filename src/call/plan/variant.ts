/** The variant of a persona that answers a call: its choice, and where its name is shown. */
import type { Caller } from "../../auth/keys.ts";
import type { Persona, Variant } from "../../personas/persona.ts";
import { chooseVariant } from "../../personas/versions/variant-choice.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import type { AttemptVariant } from "../../usage/attempt.ts";
import type { RequestContext } from "../context.ts";
import type { Services } from "../services.ts";

const header = "x-troupe-persona-variant";

/**
 * Chooses by the end user whom the request names, else by the caller's key. Variants that have stopped themselves are left out, and those
 * whose models have no provider that is set up.
 * @returns undefined where none is left
 */
export function variantFor(
  { live, variantStops }: Pick<Services, "live" | "variantStops">,
  persona: Persona,
  variants: readonly Variant[],
  { keyId }: Caller,
  { user, safety_identifier: identifier }: ChatRequest,
): Variant | undefined {
  const name = user || identifier;
  const isOut = (variant: Variant) =>
    variantStops.isStopped(persona, variant) ||
    !variant.persona.targets.some((id) => live.accounts.find(parseModelId(id)?.namespace ?? "") !== undefined);
  return chooseVariant(persona.id, variants, name ? `user ${name}` : `key ${keyId}`, isOut);
}

export function noteVariant(context: RequestContext, variant: AttemptVariant): void {
  context.variant = variant;
  context.headers[header] = variant.name;
  context.logFields["variant"] = variant.name;
}

/** Kept with an answer, for those who join or replay it. */
export const variantHeaders = ({ variant }: RequestContext): Record<string, string> =>
  variant === undefined ? {} : { [header]: variant.name };

/** Reads who answered a call that this one joins or replays. */
export function noteAnsweredVariant(context: RequestContext, headers: Readonly<Record<string, string>>): void {
  const name = headers[header];
  if (name !== undefined && context.variant === undefined) noteVariant(context, { name });
}
