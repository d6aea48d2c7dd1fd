/** Stores expiring texts that several processes share. */
import { openEphemeralDatabase } from "./ephemeral-database.ts";

export type StateRepository = {
  /** @param now in Unix milliseconds, here and below */
  get(key: string, now: number): string | undefined;
  /** The keys get the same text. Where there is no room, those that would end first go. */
  put(keys: readonly string[], text: string, expiresAt: number, now: number): void;
  count(): number;
  close(): void;
};

const schema = `create table if not exists states (
  key text not null primary key, text text not null, expires_at integer not null
) strict;
create index if not exists states_by_end on states (expires_at)`;

/** How many go at once where room is needed. */
const goAtOnce = 100;

/** @param maxBytes of the file. @throws SQLite's errors, as every method does */
export function openStateRepository(path: string, maxBytes: number): StateRepository {
  const { database, exclusively } = openEphemeralDatabase(path, schema, maxBytes);
  const get = database.prepare<{ text: string }, [string, number]>(
    "select text from states where key = ? and expires_at > ?",
  );
  const put = database.prepare("insert or replace into states (key, text, expires_at) values (?, ?, ?)");
  const removeExpired = database.prepare("delete from states where expires_at <= ?");
  const removeFirst = database.prepare(
    "delete from states where key in (select key from states order by expires_at limit ?)",
  );
  const isFull = (error: unknown) => (error as { code?: string }).code === "SQLITE_FULL";
  return {
    get: (key, now) => get.get(key, now)?.text,
    put: (keys, text, expiresAt, now) => {
      for (;;) {
        try {
          exclusively(() => {
            removeExpired.run(now);
            for (const key of keys) put.run(key, text, expiresAt);
          });
          return;
        } catch (error) {
          if (!isFull(error) || exclusively(() => removeFirst.run(goAtOnce).changes) === 0) throw error;
        }
      }
    },
    count: () => database.query<{ count: number }, []>("select count(*) as count from states").get()!.count,
    close: () => database.close(true),
  };
}
