/** When callers took their requests, for windows that several processes share. One row a take, numbered by caller. */
import { openPassingDatabase } from "./passing-database.ts";

/** One take: its number and its time. Of one caller's takes neither ever falls. */
export type Take = { readonly seq: number; readonly at: number };

/** All of it is to be called within `exclusively`. */
export type TakeRows = {
  exclusively<T>(work: () => T): T;
  /** The oldest that is remembered. */
  first(who: string): Take | undefined;
  last(who: string): Take | undefined;
  at(who: string, seq: number): number | undefined;
  add(who: string, take: Take): void;
  /** Forgets the takes of that time and before. */
  forget(who: string, until: number): void;
  /** The caller that follows in the order of names; undefined: that was the last. */
  callerAfter(who: string): string | undefined;
  forgetAll(): void;
  /** How many takes are remembered. */
  count(): number;
  close(): void;
};

const schema = `create table if not exists takes (
  who text not null, seq integer not null, at real not null, primary key (who, seq)
) without rowid, strict`;

/** @param mostBytes beyond it `add` fails with SQLITE_FULL. @throws SQLite's errors, as every method does */
export function openTakeRows(path: string, mostBytes?: number): TakeRows {
  const { database, exclusively } = openPassingDatabase(path, schema, mostBytes);
  const first = database.prepare<Take, [string]>("select seq, at from takes where who = ? order by seq limit 1");
  const last = database.prepare<Take, [string]>("select seq, at from takes where who = ? order by seq desc limit 1");
  const at = database.prepare<{ at: number }, [string, number]>("select at from takes where who = ? and seq = ?");
  const add = database.prepare("insert into takes (who, seq, at) values (?, ?, ?)");
  // Only the expired rows are read, as times rise with the numbers.
  const forget = database.prepare(
    `delete from takes where who = ?1
     and seq < coalesce((select seq from takes where who = ?1 and at > ?2 order by seq limit 1), 9e15)`,
  );
  const next = database.prepare<{ who: string }, [string]>("select who from takes where who > ? order by who limit 1");
  return {
    exclusively,
    first: (who) => first.get(who) ?? undefined,
    last: (who) => last.get(who) ?? undefined,
    at: (who, seq) => at.get(who, seq)?.at,
    add: (who, take) => void add.run(who, take.seq, take.at),
    forget: (who, until) => void forget.run(who, until),
    callerAfter: (who) => next.get(who)?.who,
    forgetAll: () => void database.run("delete from takes"),
    count: () => database.query<{ count: number }, []>("select count(*) as count from takes").get()!.count,
    close: () => database.close(true),
  };
}
