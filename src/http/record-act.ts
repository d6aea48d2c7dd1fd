/** Lines of the audit: what somebody changed here, and who. */

import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { truncate } from "../lib/text/truncate.ts";
import { type Act, auditRow } from "../store/audit.ts";
import { needsStorage } from "../store/require-storage.ts";

/**
 * Logs the act and writes its line. Rejects with ApiError storage_unavailable; the act was done all the same, and the log has it.
 * @param actor the name under which it is recorded @param by what the log calls it
 */
export async function recordAct(
  { clock, log, store }: Services,
  { id }: Pick<RequestContext, "id">,
  actor: string,
  act: Act,
  by = "admin",
): Promise<void> {
  const { before, after, subject } = act;
  log.info(by, { request_id: id, actor, act: act.act, subject: truncate(subject), before, after });
  await needsStorage(() => store.audit.insert(auditRow(clock, actor, act)));
}
