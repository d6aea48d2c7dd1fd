/** What a turn holds in its packed columns. */

import { located, rowWords } from "../store/contract/storage-error.ts";
import { damagedContent, unpackText } from "../store/packing.ts";
import { asUnavailable } from "../store/require-storage.ts";

/** @param id the turn's @throws ApiError storage_unavailable when it is damaged */
export function turnTextOf(id: string, packed: Uint8Array): string {
  try {
    return unpackText(packed);
  } catch (error) {
    throw asUnavailable(located(error, rowWords("turns", [id])));
  }
}

/** @param id the turn's @throws ApiError storage_unavailable when it is damaged */
export function parsedOf<T>(id: string, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw asUnavailable(located(damagedContent(error), rowWords("turns", [id])));
  }
}

/** Reads what a turn holds from its columns. @throws ApiError storage_unavailable when it is damaged */
export const turnContentOf = <T>(id: string, packed: Uint8Array): T => parsedOf<T>(id, turnTextOf(id, packed));
