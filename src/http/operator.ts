/** Who acts by HTTP: the admin API's callers, and holders of keys on their own. */
import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { Operator } from "../operate/act.ts";
import { auditRow } from "../store/contract/audit.ts";

/**
 * An operator whose acts are logged, and recorded in the audit. Where a line can't be written the act was done all the same, and the log has it.
 * @param actor the name under which they are recorded @param by what the log calls them
 */
export function operatorOf(
  services: Services,
  { id }: Pick<RequestContext, "id">,
  actor: string,
  by = "admin",
): Operator {
  const { budgets, clock, facts, keys, live, log, personas, store, variantStops } = services;
  return {
    ...{ actor, clock, store, keys, config: live.config },
    personas: () => personas.list(),
    async reread() {
      await budgets.load();
      await variantStops.load();
      await facts.follow();
    },
    async record(one) {
      const { act, before, after, subject } = one;
      log.info(by, { request_id: id, actor, act, subject: truncate(subject), before, after });
      await store.audit.insert(auditRow(clock, actor, one));
    },
  };
}
