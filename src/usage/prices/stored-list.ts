/**
 * The price list that `troupe prices update` stored in the data folder: a line that says where it came from and the SHA-256 of what
 * follows, then the list. It counts unless it is damaged, or older than the one in the executable and was not forced.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inForce, type Renewed } from "../../facts/in-force.ts";
import { PriceList } from "../../facts/prices/list.ts";
import type { ListedPricesOf } from "../../facts/prices/listed.ts";
import { writePrivately } from "../../lib/files/write-privately.ts";
import { objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { sha256Of } from "../../lib/text/sha256.ts";
import { useCopy } from "../facts/copy.ts";

export const storedListPath = (data: string): string => join(data, "prices.json");

/**
 * @param source the file or address that it was read from
 * @param isForced true if it counts though it is older than the one in the executable
 * @throws the file system's errors
 */
export function storeList(data: string, source: string, list: ListedPricesOf, isForced: boolean): void {
  const text = JSON.stringify(list);
  const head = JSON.stringify({ source, as_of: list.as_of, sha256: sha256Of(text), ...(isForced && { forced: true }) });
  writePrivately(storedListPath(data), `${head}\n${text}`);
}

/** `warning` says why a stored list does not count. @property facts where it came with facts that were taken */
export type ListInUse = {
  readonly list: PriceList;
  readonly source?: string;
  readonly facts?: Renewed;
  readonly warning?: string;
};

/** Has the facts count that a node keeps, and finds the prices that do: theirs, or a list that was stored alone. @param data the data folder */
export function listInUse(data: string): ListInUse {
  const fault = useCopy(data);
  const { list: known, renewed } = inForce();
  const otherwise: ListInUse = {
    list: known,
    ...(renewed !== undefined && { source: renewed.source, facts: renewed }),
    ...(fault !== undefined && { warning: fault }),
  };
  const path = storedListPath(data);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    return { ...otherwise, warning: `${path} can't be read: ${(error as Error).message}` };
  }
  const end = text.indexOf("\n");
  const head = objectOf(parseJson(text.slice(0, Math.max(0, end))));
  const list = text.slice(end + 1);
  const source = textOf(head?.["source"]);
  const sum = sha256Of(list);
  if (source === undefined || head?.["sha256"] !== sum) {
    return { ...otherwise, warning: `${path} is damaged: 'troupe prices update' writes it anew` };
  }
  const asOf = textOf(head["as_of"]);
  if (asOf === undefined) {
    // Earlier builds stored lists under the day on which they were taken.
    const words = `${path} does not say of which day its prices are: 'troupe prices update' writes it anew`;
    return { ...otherwise, warning: words };
  }
  if (asOf < known.asOf && head["forced"] !== true) return otherwise;
  return { ...otherwise, list: new PriceList(list, `list ${sum.slice(0, 12)}`), source };
}
