/** Which facts count in this process: those in the executable, or newer ones that were put in their place. */
import { compiledFacts, useFacts } from "./facts.ts";
import type { FactsFile } from "./file.ts";
import { compiledList, PriceList } from "./prices/list.ts";

/** Newer facts. @property sha256 of their file @property asOf YYYY-MM-DD @property source the file or address that it came from */
export type Renewed = { readonly sha256: string; readonly asOf: string; readonly source: string };

/** @property renewed absent: those in the executable count */
type InForce = { readonly list: PriceList; readonly renewed?: Renewed };

const compiled: InForce = { list: compiledList };
let current = compiled;

export const inForce = (): InForce => current;

/** The day of which the executable's are: the later one of both parts. */
export const compiledAsOf: string = [compiledFacts.as_of, compiledList.asOf].sort().at(-1)!;

/** @param prices the text of a list */
export function putInForce(renewed: Renewed, models: FactsFile, prices: string): void {
  useFacts(models);
  current = { list: new PriceList(prices, `facts ${renewed.sha256.slice(0, 12)}`), renewed };
}

export function goBackToCompiled(): void {
  useFacts();
  current = compiled;
}
