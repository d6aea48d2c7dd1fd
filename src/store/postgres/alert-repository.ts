/** Alerts: what began and has not ended, and the messages that are not delivered yet. Nodes claim messages, so that one sends each. */
import { type AlertCause, type AlertRepository, maxAlertMessages, type QueuedAlert } from "../store.ts";
import type { QueryPool } from "./query-pool.ts";

const queueing = `
  insert into troupe.alert_messages (id, destination, body, at, due)
  select $2::text, destination, $3::text, $4::bigint, $4::bigint from changed, jsonb_array_elements_text($5::text::jsonb) destination
  where (select count(*) from troupe.alert_messages) < ${maxAlertMessages} on conflict do nothing`;

export function alertRepository(pool: QueryPool): AlertRepository {
  return {
    async causes() {
      const rows = await pool.run<AlertCause>(
        "select cause, since::float8 as since from troupe.alert_causes order by cause",
      );
      return rows.map((row) => ({ ...row }));
    },
    async begin(cause, { id, body, at }, destinations) {
      const text = `with changed as (
          insert into troupe.alert_causes values ($1::text, $4::bigint) on conflict do nothing returning 1),
        queued as (${queueing}) select count(*)::int as count from changed`;
      const [row] = await pool.run<{ count: number }>(text, [cause, id, body, at, JSON.stringify(destinations)]);
      return row!.count > 0;
    },
    async end(cause, { id, body, at }, destinations) {
      const text = `with changed as (delete from troupe.alert_causes where cause = $1::text returning 1),
        queued as (${queueing}) select count(*)::int as count from changed`;
      const [row] = await pool.run<{ count: number }>(text, [cause, id, body, at, JSON.stringify(destinations)]);
      return row!.count > 0;
    },
    async claim(now, until, limit) {
      const text = `with found as materialized (
          select id, destination from troupe.alert_messages where due <= $1::bigint order by due, id limit $3::int
          for update skip locked)
        update troupe.alert_messages m set attempts = m.attempts + 1, due = $2::bigint from found
        where m.id = found.id and m.destination = found.destination
        returning m.id, m.destination, m.body, m.at::float8 as at, m.attempts::int as attempts`;
      const rows = await pool.run<QueuedAlert>(text, [now, until, limit]);
      return rows.map((row) => ({ ...row }));
    },
    async postpone({ id, destination }, due) {
      const text = "update troupe.alert_messages set due = $3::bigint where id = $1::text and destination = $2::text";
      await pool.run(text, [id, destination, due]);
    },
    async remove({ id, destination }) {
      const text = "delete from troupe.alert_messages where id = $1::text and destination = $2::text";
      await pool.run(text, [id, destination]);
    },
    async waiting() {
      const [row] = await pool.run<{ count: number }>("select count(*)::int as count from troupe.alert_messages");
      return row!.count;
    },
  };
}
