/** Numbers of schemas, for all stores. */
import { StorageError } from "./storage-error.ts";

/** The first release's. Lower ones were made on the way to it; nothing carries them over. */
export const firstVersion = 20;

/** The schema's number once all of that many steps were made; 0 before the first. */
export const versionAfter = (steps: number): number => (steps === 0 ? 0 : firstVersion + steps - 1);

/** Number of steps behind a schema of that number; 0 where there is no schema yet. @throws StorageError for one before the first */
export function stepsBehind(version: number, place: string): number {
  if (version === 0) return 0;
  if (version >= firstVersion) return version - firstVersion + 1;
  const message = `The database ${place} has schema ${version}, of a Troupe before the first release, which this one can't carry over (it knows ${firstVersion} and later): start with an empty one, or run the program that made it.`;
  throw new StorageError("older", place, message);
}
