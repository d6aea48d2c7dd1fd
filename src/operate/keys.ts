/** Acts on keys. */
import type { Key } from "../api/keys.ts";
import { type KeyInfo, keyFields } from "../auth/key-info.ts";
import type { KeyChanges, KeySpec } from "../auth/key-spec.ts";
import type { NewKey } from "../auth/keys.ts";
import { ApiError } from "../protocols/errors.ts";
import { type Done, done, type Operator } from "./act.ts";
import { unmatchedPattern } from "./checks/model-patterns.ts";

/** A key as it is shown. Never the key itself. */
export const keyJson = (key: KeyInfo): Key => ({ object: "key", ...keyFields(key) });

/** @property secret shown once, and in no line of the audit */
type MadeKey<Before> = Done<Before, Key> & { readonly secret: string };

const made = async (operator: Operator, { secret, key }: NewKey) => ({
  secret,
  ...(await done(operator, "key.create", key.id, undefined, keyJson(key))),
});

/** Refuses patterns that fit no model there can be. @throws ApiError invalid_value */
export async function checkModels(
  { config, personas }: Pick<Operator, "config" | "personas">,
  models: readonly string[] = [],
): Promise<void> {
  const problem = models.length === 0 ? undefined : unmatchedPattern(models, config, await personas());
  if (problem !== undefined)
    throw ApiError.invalidValue("models", `models: ${problem}${problem.endsWith("?") ? "" : "."}`);
}

/** @throws ApiError invalid_value, KeySpecError */
export async function createKey(operator: Operator, spec: KeySpec): Promise<MadeKey<undefined>> {
  await checkModels(operator, spec.models);
  return made(operator, await operator.keys.create(spec));
}

/** Makes the first key where there has never been one. @param file gets the key @returns whether it was made */
export async function createFirstKey(operator: Operator, file: string): Promise<boolean> {
  const first = await operator.keys.ensureFirstKey(file);
  if (first !== undefined) await made(operator, first);
  return first !== undefined;
}

/** Changes a key, from the next request on. @throws ApiError invalid_value, KeyError, KeySpecError */
export async function updateKey(operator: Operator, key: KeyInfo, changes: KeyChanges): Promise<Done<Key>> {
  await checkModels(operator, changes.models);
  const after = await operator.keys.update(key.id, changes);
  return done(operator, "key.update", key.id, keyJson(key), keyJson(after));
}

/** Gives a key a new secret. @param graceMs for which the old one is taken too @throws KeyError */
export async function rotateKey(operator: Operator, key: KeyInfo, graceMs?: number): Promise<MadeKey<Key>> {
  const { secret, key: after } = await operator.keys.rotate(key.id, graceMs);
  return { secret, ...(await done(operator, "key.rotate", key.id, keyJson(key), keyJson(after))) };
}

/** Revokes a key, from the next request on and for ever. @throws KeyError */
export async function revokeKey(operator: Operator, key: KeyInfo): Promise<Done<Key>> {
  const after = await operator.keys.revoke(key.id);
  return done(operator, "key.revoke", key.id, keyJson(key), keyJson(after));
}
