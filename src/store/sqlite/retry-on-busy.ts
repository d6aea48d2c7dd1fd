/**
 * Runs again what SQLite refuses at once although `busy_timeout` is set: the switch to a write-ahead log, and a first write
 * that another process came before. Only while opening, as it blocks the whole process.
 * Source: https://www.sqlite.org/wal.html#sometimes_queries_return_sqlite_busy_in_wal_mode
 * @param work may run more than once
 * @throws what `work` throws, SQLITE_BUSY once `maxMs` are over
 */
export function retryOnBusy<T>(work: () => T, maxMs: number): T {
  const until = performance.now() + maxMs;
  for (;;) {
    try {
      return work();
    } catch (error) {
      const { code = "" } = error as { code?: string };
      if (!code.startsWith("SQLITE_BUSY") || performance.now() >= until) throw error;
      Bun.sleepSync(2);
    }
  }
}
