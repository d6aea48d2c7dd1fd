/** A change and the line of the audit that records it, as one statement or transaction. */
import type { AuditRow } from "../contract/audit.ts";
import type { Parameter } from "./sql.ts";

/** Records a change, as the second statement of `runBoth`. @param from the number of the first of the line's values among the parameters */
export function recording(from: number): string {
  const kinds = ["text", "bigint", "text", "text", "text", "text", "text"];
  const values = kinds.map((kind, at) => `$${from + at}::${kind}`).join(", ");
  return `insert into troupe.audit (id, at, actor, act, subject, before, after)
    select ${values} from changed where true on conflict (id) do nothing`;
}

export const audited = ({ id, at, actor, act, subject, before, after }: AuditRow): readonly Parameter[] => [
  ...[id, at, actor, act, subject, before, after],
];
