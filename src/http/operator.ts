/** Who acts by HTTP: the admin API's callers, and holders of keys on their own. */
import { KeyError } from "../auth/key-lookup.ts";
import { KeySpecError } from "../auth/key-spec.ts";
import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { snakeCase } from "../lib/text/snake-case.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { Operator } from "../operate/act.ts";
import { ApiError } from "../protocols/errors.ts";
import { auditRow } from "../store/audit.ts";
import { needsStorage } from "../store/require-storage.ts";

/**
 * An operator whose acts are logged, and recorded in the audit. A line that can't be written rejects with ApiError storage_unavailable; the act
 * was done all the same, and the log has it.
 * @param actor the name under which they are recorded @param by what the log calls them
 */
export function operatorOf(
  services: Services,
  { id }: Pick<RequestContext, "id">,
  actor: string,
  by = "admin",
): Operator {
  const { budgets, clock, keys, live, log, personas, store, variantStops } = services;
  return {
    ...{ clock, store, keys, config: live.config },
    personas: () => personas.list(),
    async reread() {
      await budgets.load();
      await variantStops.load();
    },
    async record(one) {
      const { act, before, after, subject } = one;
      log.info(by, { request_id: id, actor, act, subject: truncate(subject), before, after });
      await needsStorage(() => store.audit.insert(auditRow(clock, actor, one)));
    },
  };
}

/** Does an act, or asks for what one is done to. Rejects with an ApiError in place of the errors of keys and of the store. */
export function acting<T>(work: () => Promise<T>): Promise<T> {
  return needsStorage(work).catch((error: unknown) => {
    if (error instanceof KeySpecError) throw ApiError.invalidValue(snakeCase(error.part), error.message);
    if (error instanceof KeyError) throw ApiError.invalidValue("id", error.message);
    throw error;
  });
}
