/** Stores expiring texts that running processes share. They need not survive them, so writes do not wait for the disk. */
import { Database } from "bun:sqlite";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { retryOnBusy } from "./retry-on-busy.ts";

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

/** Number of states that go at once where room is needed. */
const goAtOnce = 100;
/** Longest waits: of processes that start at once for each other, and of a write for another process' write of some ten microseconds. */
const openingBusyMs = 10_000;
const busyMs = 250;

/** Makes the file for this user only. @param maxBytes of the file. @throws SQLite's errors, as every method does, and the file system's */
export function openStateRepository(path: string, maxBytes: number): StateRepository {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  const database = new Database(path, { strict: true, readwrite: true, create: true });
  database.run(`pragma busy_timeout = ${openingBusyMs}`);
  retryOnBusy(() => database.run("pragma journal_mode = wal"), openingBusyMs);
  database.run("pragma synchronous = off");
  database.run("pragma journal_size_limit = 4194304");
  retryOnBusy(() => database.run(schema), openingBusyMs);
  database.run(`pragma max_page_count = ${Math.floor(maxBytes / 4096)}`);
  database.run(`pragma busy_timeout = ${busyMs}`);
  const get = database.prepare<{ text: string }, [string, number]>(
    "select text from states where key = ? and expires_at > ?",
  );
  const put = database.prepare("insert or replace into states (key, text, expires_at) values (?, ?, ?)");
  const removeExpired = database.prepare("delete from states where expires_at <= ?");
  const removeFirst = database.prepare(
    "delete from states where key in (select key from states order by expires_at limit ?)",
  );
  const putAll = database.transaction((keys: readonly string[], text: string, expiresAt: number, now: number) => {
    removeExpired.run(now);
    for (const key of keys) put.run(key, text, expiresAt);
  });
  const isFull = (error: unknown) => (error as { code?: string }).code === "SQLITE_FULL";
  return {
    get: (key, now) => get.get(key, now)?.text,
    put: (keys, text, expiresAt, now) => {
      for (;;) {
        try {
          putAll.immediate(keys, text, expiresAt, now);
          return;
        } catch (error) {
          if (!isFull(error) || removeFirst.run(goAtOnce).changes === 0) throw error;
        }
      }
    },
    count: () => database.query<{ count: number }, []>("select count(*) as count from states").get()!.count,
    close: () => database.close(true),
  };
}
