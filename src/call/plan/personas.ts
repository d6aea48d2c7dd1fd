/** Finds the persona that a call names. */
import { type Caller, mayUseModel } from "../../auth/keys.ts";
import type { Persona } from "../../personas/persona.ts";
import { isPreview } from "../../personas/review/previews.ts";
import { splitReference } from "../../personas/versions/references.ts";
import { ApiError } from "../../protocols/errors.ts";
import { mayUseNamed, standsFor } from "../admit/named.ts";
import type { Services } from "../services.ts";

/**
 * @param name an id, or one with a version or label: who may use a persona may use its versions
 * @returns undefined also for a persona that the key's tier or globs hide
 * @throws ApiError model_not_allowed for what is no preview, where the key may call those alone
 */
export function findPersona(services: Services, caller: Caller, name: string): Persona | undefined {
  const meant = standsFor(services, name);
  const isAllowed = mayUseNamed(caller, name, meant) || mayUseVersions(caller, meant);
  const found = isAllowed ? services.personas.visibleTo(caller.tier).find(meant) : undefined;
  if (caller.onlyPreviews === true && (found === undefined || !isPreview(found))) throw ApiError.notPreviewed(name);
  return found;
}

/** True if the key may use the persona whose version or label that is. */
export function mayUseVersions(caller: Caller, name: string): boolean {
  const id = splitReference(name)?.id;
  return id !== undefined && mayUseModel(caller, id);
}

/** Reads the version that a name pins, where it is not in memory. @throws ApiError storage_unavailable */
export const preparePersona = (services: Services, name: string): Promise<void> =>
  services.personaVersions.prepare(standsFor(services, name));
