/** What counted calls have made of variants; they are counted with the ledger's lines. */

import type { VariantRepository, VariantState } from "../contract/variants.ts";
import type { Sql } from "./sql.ts";
import { selection, tableOf } from "./tables.ts";

export function variantRepository(sql: Sql): VariantRepository {
  const select = `select ${selection(tableOf("variants"))} from troupe.variants`;
  return {
    list: async (persona) => [
      ...(await sql.run<VariantState>(`${select} where persona = $1::text order by updated_at desc, version, variant`, [
        persona,
      ])),
    ],
    stopped: async () => [
      ...(await sql.run<VariantState>(`${select} where stopped_at is not null order by persona, version, variant`)),
    ],
    async stop(persona, version, variant, at) {
      const added = `insert into troupe.variants (persona, version, variant, calls, errors, refusals, slow, cost,
        other_calls, other_errors, other_refusals, other_slow, other_cost, windows, updated_at)
        values ($1::text, $2::text, $3::text, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, $4::bigint) on conflict do nothing`;
      await sql.run(added, [persona, version, variant, at]);
      // A change, as it is what other processes are woken by.
      const text = `update troupe.variants set stopped_at = $4::bigint, reason = 'operator', updated_at = $4::bigint
        where persona = $1::text and version = $2::text and variant = $3::text and stopped_at is null`;
      return (await sql.run(text, [persona, version, variant, at])).count;
    },
    async resume(persona, variant, at) {
      const text = `update troupe.variants set stopped_at = null, reason = null, calls = 0, errors = 0, refusals = 0, slow = 0, cost = 0,
        other_calls = 0, other_errors = 0, other_refusals = 0, other_slow = 0, other_cost = 0, updated_at = $3::bigint
        where persona = $1::text and variant = $2::text and stopped_at is not null`;
      return (await sql.run(text, [persona, variant, at])).count;
    },
    async removeUnused(before) {
      const text = "delete from troupe.variants where stopped_at is null and updated_at < $1::bigint";
      return (await sql.run(text, [before])).count;
    },
  };
}
