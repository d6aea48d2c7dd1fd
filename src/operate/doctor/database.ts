/** Checks a database server: what is there, whether its clock agrees, and whether it keeps what it confirms. */
import { maxApartMs } from "../../lib/time/clock.ts";
import type { PostgresState } from "../../store/postgres/inspect.ts";
import { type Check, ok, warning } from "./check.ts";

export function examineDatabase({ place, version, known, server }: Omit<PostgresState, "keys">): Check[] {
  return [
    ok("database", `${place}, PostgreSQL ${server.version}, ${schema(version, known)}`),
    ...clock(server.aheadMs),
    ...safety(server.unsafe),
  ];
}

function schema(version: number, known: number): string {
  if (version === 0) return "its tables made at the next start";
  return version < known ? `schema ${version}, brought to ${known} at the next start` : `schema ${version}`;
}

function clock(aheadMs: number): Check[] {
  if (Math.abs(aheadMs) < maxApartMs) return [];
  const found = `the server's is ${Math.round(Math.abs(aheadMs) / 100) / 10} s ${aheadMs > 0 ? "ahead" : "behind"}`;
  return [
    warning(
      "database clock",
      found,
      "Keep all machines on time (chrony, systemd-timesyncd): what expires goes by the nodes' clocks.",
    ),
  ];
}

const losses: Readonly<Record<string, string>> = {
  fsync: "a crash of its machine can damage the database",
  full_page_writes: "a crash of its machine can damage the database",
  synchronous_commit: "a crash loses answers, budgets and revoked keys of the last moments",
};

function safety(unsafe: readonly string[]): Check[] {
  return unsafe.map((name) =>
    warning(
      "database",
      `${name} is off: ${losses[name]}`,
      `Set ${name} to on for this database, see docs/postgres.md.`,
    ),
  );
}
