/** Holds the ledger of the last days against the vendors' own reports, where the environment has a key for them; else says how they last compared. */

import type { Config } from "../../config/config.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { type Check, warning } from "../../operate/doctor/check.ts";
import { billCheck, lastReconciled, reconciledChecks } from "../../operate/reconciliations.ts";
import { ReportError } from "../../usage/reconcile/reported.ts";
import { billedLately } from "../commands/reconcile.ts";
import { isStored, usingStore } from "../commands/storage.ts";
import type { Context } from "../context.ts";

/** @param names see `billedLately` */
export async function examineBills(context: Context, config: Config, names?: readonly string[]): Promise<Check[]> {
  try {
    if (!(await isStored(config))) return [];
    const found = await billedLately(context, config, names);
    if (found.length === 0)
      return usingStore(config, async ({ audit }) => reconciledChecks(await lastReconciled(audit)));
    return found.map(({ words, isWithin }) => billCheck(words, isWithin));
  } catch (error) {
    if (!(error instanceof ReportError)) throw error;
    return [warning("bills", printableLine(error.message), "See docs/costs.md, under reconciliation.")];
  }
}
