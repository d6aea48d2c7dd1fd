/** How the ledger last compared with each vendor's own reports: the line that `troupe reconcile` leaves in the audit. */
import type { Reconciliation } from "../api/facts.ts";
import { isObject, parseJson } from "../lib/json/json.ts";
import { isoTime } from "../lib/time/clock.ts";
import type { AuditRepository } from "../store/contract/store.ts";
import { moneyWords } from "../usage/money.ts";
import type { Operator } from "./act.ts";
import { type Check, ok, warning } from "./doctor/check.ts";

const act = "reconcile.run";
/** Lines that are looked through: there are two vendors. */
const maxLines = 50;

/** @property since and until: days in UTC, the second not included. Costs are micro-dollars; null: not reported */
type Outcome = Omit<Reconciliation, "object" | "at">;

export const recordReconciled = ({ record }: Pick<Operator, "record">, { account, ...after }: Outcome): Promise<void> =>
  record({ act, subject: account, after });

/** @returns the last of each account, the newest first @throws StorageError */
export async function lastReconciled(audit: Pick<AuditRepository, "list">): Promise<Reconciliation[]> {
  const lines = await audit.list({ act, limit: maxLines, before: null, actor: null, subject: null });
  const found = new Map<string, Reconciliation>();
  for (const { at, subject, after } of lines) {
    const kept = after === null ? undefined : parseJson(after);
    if (!isObject(kept) || found.has(subject)) continue;
    const outcome = kept as Omit<Outcome, "account">;
    found.set(subject, { object: "reconciliation", account: subject, at: isoTime(at), ...outcome });
  }
  return [...found.values()];
}

const money = (micro: number | null) => (micro === null ? "no cost" : moneyWords(micro));

export const billCheck = (words: string, isWithin: boolean): Check =>
  isWithin
    ? ok("bills", words)
    : warning("bills", words, "'troupe reconcile' says by day and model what differs, and why.");

/** A line for each, as the doctor says it. */
export const reconciledChecks = (all: readonly Reconciliation[]): Check[] =>
  all.map(({ account, at, since, until, ledger_micro_dollars: own, reported_micro_dollars: theirs, within }) => {
    const words = `${account} reported ${money(theirs)}, the ledger had ${money(own)}, from ${since} until ${until}; compared ${at.slice(0, 10)}`;
    return billCheck(words, within);
  });
