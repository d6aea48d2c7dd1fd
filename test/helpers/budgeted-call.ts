/** Calls that are held to budgets, from their reservation to their line in the ledger. */
import type { Store } from "../../src/store/contract/store.ts";
import type { LedgerLine, Reservation } from "../../src/store/contract/usage.ts";
import { noTokens } from "../../src/usage/tokens/counts.ts";
import { ledgerLine } from "./ledger-line.ts";

/** The line of a call that begins. */
export const begunLine = (requestId: string, changes: Partial<LedgerLine> = {}): LedgerLine =>
  ledgerLine(requestId, {
    ...{ ended: "interrupted", status: null, firstTokenMs: null, totalMs: 0 },
    ...{ counted: "unknown", tokens: noTokens, cost: null, costs: null, priceSource: "unknown", priceDate: null },
    ...changes,
  });

type Given = Partial<Omit<Reservation, "line">> & { readonly at?: number };

/** It has the tags whose budgets it is held to. */
export function reservationOf(requestId: string, { at = 1_700_000_000_000, ...given }: Given): Reservation {
  const tags = (given.budgets ?? []).flatMap(({ scope }) => (scope.startsWith("tag:") ? [scope.slice(4)] : []));
  return { line: begunLine(requestId, { at, tags: [...new Set(tags)] }), amount: 0, budgets: [], ...given };
}

/** @param cost null: it is unknown @returns whether the line was new */
export async function settle(
  { ledger }: Pick<Store, "ledger">,
  { line }: Pick<Reservation, "line">,
  cost: number | null,
  used = 0,
): Promise<boolean> {
  const counted = cost === null ? "unknown" : "upstream";
  const tokens = { ...noTokens, input: used };
  return (await ledger.append([{ ...line, ended: "finished", status: 200, cost, counted, tokens }])).added > 0;
}
