/** Counts calls of variants within the transaction that adds their lines to the ledger. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import type { LedgerLine } from "../contract/usage.ts";
import { countCall, newState, type VariantState } from "../contract/variants.ts";
import { sqliteText } from "../sql/sql.ts";
import { columnNames, selection, tableOf, valuesOf } from "../sql/tables.ts";

/** @returns to be called in the transaction, with the lines that were added. It says whether a variant was stopped */
export function countingVariants(database: Database) {
  const table = tableOf("variants");
  const names = columnNames(table);
  let statements: ReturnType<typeof prepared> | undefined;
  const prepared = () => ({
    find: database.prepare<VariantState, [string, string, string]>(
      sqliteText(`select ${selection(table)} from troupe.variants where persona = ? and version = ? and variant = ?`),
    ),
    save: database.prepare<unknown, SQLQueryBindings[]>(
      `insert into variants (${names.join(", ")}) values (${names.map(() => "?").join(", ")})
       on conflict do update set ${names.map((name) => `${name} = excluded.${name}`).join(", ")}`,
    ),
  });
  return (lines: readonly LedgerLine[]): boolean => {
    const states = new Map<string, VariantState>();
    for (const line of lines) {
      const call = line.variantCall;
      if (call === undefined) continue;
      statements ??= prepared();
      for (const rule of call.rules) {
        const { persona, version } = call;
        const id = JSON.stringify([persona, version, rule.variant]);
        const state = states.get(id) ?? statements.find.get(persona, version, rule.variant) ?? newState(call, rule);
        if (state.stoppedAt === null) states.set(id, countCall(state, rule, call, line));
      }
    }
    for (const state of states.values()) statements!.save.run(...(valuesOf(table, state) as SQLQueryBindings[]));
    return [...states.values()].some(({ stoppedAt }) => stoppedAt !== null);
  };
}
