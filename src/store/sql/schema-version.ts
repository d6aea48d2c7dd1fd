/** Numbers of schemas, for all stores. */
import { versionOf } from "../../lib/text/version-of.ts";
import { StorageError } from "../contract/storage-error.ts";

/** The first release's. Lower ones were made on the way to it; nothing carries them over. */
export const firstVersion = 31;

/** The schema's number once all of that many steps were made; 0 before the first. */
export const versionAfter = (steps: number): number => (steps === 0 ? 0 : firstVersion + steps - 1);

/** Number of steps behind a schema of that number; 0 where there is no schema yet. @throws StorageError for one before the first */
export function stepsBehind(version: number, place: string): number {
  if (version === 0) return 0;
  if (version >= firstVersion) return version - firstVersion + 1;
  const message = `The database ${place} has schema ${version}, of a Troupe before the first release, which this one can't carry over (it knows ${firstVersion} and later): start with an empty one, or run the program that made it.`;
  throw new StorageError("older", place, message);
}

/** A schema's number, and the hash of the text that made it, as a database keeps both. */
export type SchemaText = { readonly version: number; readonly hash: string };

/** What a database keeps of each step: white space apart, a text that differs makes another schema. */
export const schemaTexts = (steps: readonly string[]): SchemaText[] =>
  steps.map((text, at) => ({ version: versionAfter(at + 1), hash: versionOf(text.replace(/\s+/g, " ").trim()) }));

/**
 * Refuses a schema that another build made by another text under the same number: its tables are not those that this program asks.
 * @param found what the database keeps, of steps that this program does not know too
 * @param version the database's
 * @throws StorageError
 */
export function checkTexts(
  found: readonly SchemaText[],
  version: number,
  steps: readonly string[],
  place: string,
): void {
  const differs = schemaTexts(steps).some(
    (own) => own.version <= version && found.find((one) => one.version === own.version)?.hash !== own.hash,
  );
  if (!differs) return;
  const message = `The database ${place} has schema ${version} of another build of Troupe, whose tables differ from this one's under the same number: run the build that made it, or start with an empty one.`;
  throw new StorageError("other", place, message);
}
