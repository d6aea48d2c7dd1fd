/** The line that records an act, whoever did it: by the admin API or the command line. */
import type { Clock } from "../lib/clock.ts";
import type { AuditRow } from "./store.ts";

/** An act of an operator: what was done, to what, and how that was before and is now; nothing of it is a secret. */
export type Act = {
  readonly act: string;
  readonly subject: string;
  readonly before?: unknown;
  readonly after?: unknown;
};

export function auditRow(clock: Clock, actor: string, { act, subject, before, after }: Act): AuditRow {
  const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
  return { id: `act_${clock.newId()}`, at: clock.now(), actor, act, subject, before: json(before), after: json(after) };
}
