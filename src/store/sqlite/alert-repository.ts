/** Alerts: what began and has not ended, and the messages that are not delivered yet. */
import type { Database } from "bun:sqlite";
import {
  type AlertCause,
  type AlertMessage,
  type AlertRepository,
  maxAlertMessages,
  type QueuedAlert,
} from "../store.ts";
import type { Synchronous } from "./asynchronous.ts";

export function alertRepository(database: Database): Synchronous<AlertRepository> {
  const causes = database.prepare<AlertCause, []>("select cause, since from alert_causes order by cause");
  const begin = database.prepare<unknown, [string, number]>(
    "insert into alert_causes values (?, ?) on conflict do nothing",
  );
  const end = database.prepare<unknown, [string]>("delete from alert_causes where cause = ?");
  const queue = database.prepare<unknown, [string, string, string, number, number, number]>(
    `insert into alert_messages select ?, ?, ?, ?, 0, ? where (select count(*) from alert_messages) < ? on conflict do nothing`,
  );
  const claim = database.prepare<QueuedAlert, [number, number, number]>(
    `update alert_messages set attempts = attempts + 1, due = ?
     where (id, destination) in (select id, destination from alert_messages where due <= ? order by due, id limit ?)
     returning id, destination, body, at, attempts`,
  );
  const postpone = database.prepare<unknown, [number, string, string]>(
    "update alert_messages set due = ? where id = ? and destination = ?",
  );
  const remove = database.prepare<unknown, [string, string]>(
    "delete from alert_messages where id = ? and destination = ?",
  );
  const count = database.prepare<{ count: number }, []>("select count(*) as count from alert_messages");
  const queued = ({ id, body, at }: AlertMessage, destinations: readonly string[]) => {
    for (const destination of destinations) queue.run(id, destination, body, at, at, maxAlertMessages);
  };
  /** Of all that see the cause change one is the first, and its message is queued with it. */
  const changing = (change: () => { changes: number }, message: AlertMessage, destinations: readonly string[]) =>
    database
      .transaction(() => {
        if (change().changes === 0) return false;
        queued(message, destinations);
        return true;
      })
      .immediate();
  return {
    causes: () => causes.all(),
    begin: (cause, message, destinations) => changing(() => begin.run(cause, message.at), message, destinations),
    end: (cause, message, destinations) => changing(() => end.run(cause), message, destinations),
    claim: (now, until, limit) => claim.all(until, now, limit),
    postpone: ({ id, destination }, due) => void postpone.run(due, id, destination),
    remove: ({ id, destination }) => void remove.run(id, destination),
    waiting: () => count.get()!.count,
  };
}
