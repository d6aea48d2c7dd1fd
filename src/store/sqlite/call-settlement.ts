/**
 * Ends the reservations of calls whose lines the ledger gets, and spends what they cost, within the transaction that adds the lines: so
 * what is spent of a budget never differs from what the ledger has.
 */
import type { Database } from "bun:sqlite";
import type { BudgetSpan, LedgerLine, Spending } from "../contract/usage.ts";
import { costOfModels, modelCosts, partsOfScope, scopesOf, spansOf, usedTokens } from "../ledger/charges.ts";

/** A call under way. `budgets`: JSON, pairs of scope and span. */
type Held = {
  readonly amount: number;
  readonly budgets: string;
  readonly tokensKey: string | null;
  readonly tokensAt: number | null;
  readonly tokens: number;
};
type Change = BudgetSpan & { spent: number; freed: number };

export const budgetsText = (budgets: readonly BudgetSpan[]): string =>
  budgets.length === 0 ? "[]" : JSON.stringify(budgets.map(({ scope, span }) => [scope, span]));

/** @returns to be called in the transaction, with the lines that were added and those that were there. It gives what is spent now */
export function settling(database: Database) {
  const isAnyHeld = database.prepare("select 1 from reservations limit 1");
  const isAnySpent = database.prepare("select 1 from spending limit 1");
  const isAnyByModel = database.prepare("select 1 from spending where instr(scope, ' model:') > 0 limit 1");
  const byModel = database.prepare<{ scope: string }, { whose: string; span: string }>(
    `select scope from spending
     where substr(scope, 1, instr(scope, ' model:') - 1) = $whose and span = $span and instr(scope, ' model:') > 0`,
  );
  const end = database.prepare<Held, { requestId: string; attempt: number }>(
    `delete from reservations where request_id = $requestId and attempt = $attempt
     returning amount, budgets, tokens_key as tokensKey, tokens_at as tokensAt, tokens`,
  );
  const spend = database.prepare<Spending, Change>(
    `update spending set spent = spent + $spent, reserved = max(0, reserved - $freed) where scope = $scope and span = $span
     returning scope, span, spent, reserved`,
  );
  const correct = database.prepare<unknown, { key: string; at: number; change: number }>(
    "update token_uses set tokens = max(0, tokens + $change) where key = $key and at = $at",
  );
  return (added: readonly LedgerLine[], known: readonly LedgerLine[]): Spending[] => {
    const areHeld = isAnyHeld.get() !== null;
    if (!areHeld && isAnySpent.get() === null) return [];
    const changes = new Map<string, Change>();
    const change = (scope: string, span: string, spent: number, freed: number) => {
      const name = `${span} ${scope}`;
      const found = changes.get(name);
      if (found === undefined) changes.set(name, { scope, span, spent, freed });
      else {
        found.spent += spent;
        found.freed += freed;
      }
    };
    const areByModel = isAnyByModel.get() !== null;
    const settle = (line: LedgerLine, isAdded: boolean) => {
      const { requestId, attempt } = line;
      const held = areHeld ? end.get({ requestId, attempt }) : null;
      const unknown = held?.amount ?? 0;
      const cost = isAdded ? (line.cost ?? unknown) : 0;
      const costOf = (scope: string) => {
        const { model } = partsOfScope(scope);
        return model === undefined || cost === 0 ? cost : costOfModels(model, modelCosts(line), unknown);
      };
      if (cost > 0)
        for (const span of spansOf(line.at))
          for (const whose of scopesOf(line)) {
            change(whose, span, cost, 0);
            if (!areByModel) continue;
            for (const { scope } of byModel.all({ whose, span })) change(scope, span, costOf(scope), 0);
          }
      if (held === null) return;
      for (const [scope, span] of JSON.parse(held.budgets) as [string, string][]) {
        change(scope, span, span === "prepaid" ? costOf(scope) : 0, held.amount);
      }
      if (held.tokensKey === null) return;
      const used = isAdded ? (usedTokens(line) ?? held.tokens) : 0;
      if (used !== held.tokens) correct.run({ key: held.tokensKey, at: held.tokensAt!, change: used - held.tokens });
    };
    for (const line of added) settle(line, true);
    for (const line of known) settle(line, false);
    return [...changes.values()].flatMap((one) => spend.get(one) ?? []);
  };
}
