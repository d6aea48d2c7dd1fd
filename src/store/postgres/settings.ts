/** Where a PostgreSQL store is, and how it is used. */
export type PostgresSettings = {
  /** postgres://user:password@host:port/database */
  readonly url: string;
  /** Connections for calls. */
  readonly pool: number;
  /** How long one statement of a call may take, in milliseconds. */
  readonly statementMs: number;
  /** How long keys that are known go on while the database is away, in milliseconds. */
  readonly keysWithoutDatabaseMs: number;
};

/** The address without user and password, for people. */
export function placeOf(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}
