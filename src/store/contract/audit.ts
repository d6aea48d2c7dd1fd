/** The line that records an act, whoever did it: by the admin API, the command line or a file. */
import type { ActName } from "../../api/words.ts";
import type { Clock } from "../../lib/time/clock.ts";

/** One act of an operator. */
export type AuditRow = {
  readonly id: string;
  readonly at: number;
  /** Who: a key's id, the user whom a proxy names, who ran a command, or a file whose change did it. */
  readonly actor: string;
  /** `key.create` and its like. */
  readonly act: string;
  /** Subject of the act: the thing that it was done to. */
  readonly subject: string;
  /** JSON, without secrets; null where there was nothing. */
  readonly before: string | null;
  readonly after: string | null;
};

/** An act of an operator: what was done, to what, and how that was before and is now; nothing of it is a secret. */
export type Act = {
  readonly act: ActName;
  readonly subject: string;
  readonly before?: unknown;
  readonly after?: unknown;
};

export function auditRow(clock: Clock, actor: string, { act, subject, before, after }: Act): AuditRow {
  const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
  return { id: `act_${clock.newId()}`, at: clock.now(), actor, act, subject, before: json(before), after: json(after) };
}
