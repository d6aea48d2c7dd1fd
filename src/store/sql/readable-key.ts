/** Checks that a key's rights can be read, before any database gives them. */
import { parseJson } from "../../lib/json/json.ts";
import { damaged } from "../contract/storage-error.ts";
import type { KeyRow } from "../contract/store.ts";

/** @param place of the database, for the error @throws StorageError damaged */
export function assertReadableKey({ id, surfaces, models, tags }: KeyRow, place: string): void {
  const areRead = [surfaces, models, tags].every((json) => Array.isArray(parseJson(json)));
  if (!areRead) throw damaged(place, `the rights of ${id} can't be read`);
}
