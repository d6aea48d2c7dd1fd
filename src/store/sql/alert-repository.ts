/** Alerts: what began and has not ended, and the messages that are not delivered yet. Nodes claim messages, so that one sends each. */
import {
  type AlertCause,
  type AlertMessage,
  type AlertRepository,
  maxAlertMessages,
  type QueuedAlert,
} from "../contract/store.ts";
import type { Sql } from "./sql.ts";

const begin = "insert into troupe.alert_causes values ($1::text, $4::bigint) on conflict do nothing";
const end = "delete from troupe.alert_causes where cause = $1::text";
/** Queues the message with the change of its cause, for the first alone of all that see the change. */
const queue = `insert into troupe.alert_messages (id, destination, body, at, due)
  select $2::text, destination.value, $3::text, $4::bigint, $4::bigint
  from changed, jsonb_array_elements_text($5::text::jsonb) destination(value)
  where (select count(*) from troupe.alert_messages) < ${maxAlertMessages} on conflict do nothing`;
const claim = `with found as materialized (
    select id, destination from troupe.alert_messages where due <= $1::bigint order by due, id limit $3::int
    for update skip locked)
  update troupe.alert_messages set attempts = alert_messages.attempts + 1, due = $2::bigint from found
  where alert_messages.id = found.id and alert_messages.destination = found.destination
  returning alert_messages.id, alert_messages.destination, body, at::float8 as at, attempts::int as attempts`;

export function alertRepository(sql: Sql): AlertRepository {
  const changing = (change: string, cause: string, { id, body, at }: AlertMessage, destinations: readonly string[]) =>
    sql.runBoth(change, queue, [cause, id, body, at, JSON.stringify(destinations)]);
  return {
    causes: async () => [
      ...(await sql.run<AlertCause>("select cause, since::float8 as since from troupe.alert_causes order by cause")),
    ],
    begin: (cause, message, destinations) => changing(begin, cause, message, destinations),
    end: (cause, message, destinations) => changing(end, cause, message, destinations),
    claim: async (now, until, limit) => [...(await sql.run<QueuedAlert>(claim, [now, until, limit]))],
    async postpone({ id, destination }, due) {
      const text = "update troupe.alert_messages set due = $3::bigint where id = $1::text and destination = $2::text";
      await sql.run(text, [id, destination, due]);
    },
    async remove({ id, destination }) {
      const text = "delete from troupe.alert_messages where id = $1::text and destination = $2::text";
      await sql.run(text, [id, destination]);
    },
    async queued(limit) {
      const text = `select id, destination, body, at::float8 as at, attempts::int as attempts, due::float8 as due
        from troupe.alert_messages order by at desc, id desc, destination limit $1::int`;
      return [...(await sql.run<QueuedAlert & { readonly due: number }>(text, [limit]))];
    },
    async waiting() {
      const [row] = await sql.run<{ count: number }>("select count(*)::int as count from troupe.alert_messages");
      return row!.count;
    },
  };
}
