/**
 * The schema, as the steps that made it. From the first tag on it is appended to, never edited.
 *
 * While nodes are upgraded one by one, programs of two versions serve from one database. So a step only *expands*: new tables,
 * new columns that may be null or have a default, new indexes; a program of the version before goes on as if nothing were.
 * Anything that a step makes superfluous is dropped by a later step, a *contraction*, once no program that needs it is left: it says by
 * `servesFrom` which schema a program must know at least, and older programs then refuse to start.
 */
import { type Clock, systemClock } from "../../lib/time/clock.ts";
import { StorageError } from "../contract/storage-error.ts";
import {
  checkTexts,
  firstVersion,
  type SchemaText,
  schemaTexts,
  stepsBehind,
  versionAfter,
} from "../sql/schema-version.ts";
import type { QueryPool } from "./query-pool.ts";
import { firstSchema } from "./schema.ts";

export type Step = {
  readonly sql: string;
  /** For a contraction: the oldest schema that a program must know to serve on. */
  readonly servesFrom?: number;
};

export const steps: readonly Step[] = [{ sql: firstSchema }];

/** The schema's number that this program works with. */
export const ownVersion = (): number => versionAfter(steps.length);

/** One number for all programs, so that of several that start at once one migrates. "trpe" */
const migrationLock = 0x74727065;

/** Schema in which the target of a move is filled, until it takes the place of the one that servers know. */
export const staging = "troupe_moving";

export const hasSchema = async (pool: QueryPool, name: string): Promise<boolean> =>
  (await pool.run("select 1 where to_regnamespace($1::text) is not null", [name])).length > 0;

type Version = { readonly version: number; readonly servesFrom: number };

export type MigrationOptions = {
  readonly known?: readonly Step[];
  readonly clock?: Clock;
  /** Is given how far it is, in words. */
  readonly report?: (words: string) => void;
  /** Longest wait of a step for a table. Whoever asks for that table meanwhile waits behind it, so it is below a call's own deadline. */
  readonly lockMs?: number;
  /** For how long it is tried again where others hold a table. */
  readonly goOnMs?: number;
};

/** Between two tries, so that those who waited behind the first are answered. */
const pauseMs = 1_000;

/**
 * Brings the schema forward, in one transaction. The lock ends with it, so a pooler that shares connections may be in between.
 * A dump reads tables for minutes: no step waits behind it for long, as all nodes' statements would wait behind the step.
 * @throws StorageError: `newer` where this program is too old for the database, `busy` where others held a table all the time
 */
export async function migrate(pool: QueryPool, place: string, options: MigrationOptions = {}): Promise<void> {
  const { known = steps, clock = systemClock, report = () => {}, lockMs = 1_000, goOnMs = 300_000 } = options;
  const to = versionAfter(known.length);
  if (await isCurrent(pool, place, known)) return;
  const beganAt = clock.monotonic();
  for (;;) {
    try {
      return await runSteps(pool, place, known, lockMs, report);
    } catch (error) {
      if (!(error instanceof StorageError && error.kind === "busy")) throw error;
      const leftMs = goOnMs - (clock.monotonic() - beganAt);
      if (leftMs <= 0) throw heldUp(place, to, goOnMs);
      report(`others hold a table (a dump, say): tried again for ${Math.ceil(leftMs / 1000)} s`);
      await new Promise<void>((resolve) => void clock.setTimer(Math.min(pauseMs, leftMs), resolve));
    }
  }
}

/** True if the schema is this program's, or a newer one that it can serve from. @throws StorageError */
export async function isCurrent(pool: QueryPool, place: string, known = steps): Promise<boolean> {
  return ((await readVersion(pool, place, known))?.version ?? 0) >= versionAfter(known.length);
}

function heldUp(place: string, to: number, goOnMs: number): StorageError {
  const message = `The database ${place} could not be brought to schema ${to} within ${goOnMs / 1000} s, as others hold its tables (a dump, a report): let them end, and start again.`;
  return new StorageError("busy", place, message);
}

function runSteps(
  pool: QueryPool,
  place: string,
  known: readonly Step[],
  lockMs: number,
  report: (words: string) => void,
): Promise<void> {
  return pool.transaction(async (ask) => {
    await ask("set local statement_timeout = 0");
    // Timeout for a node that died without a word; between two statements pass milliseconds.
    await ask("set local idle_in_transaction_session_timeout = '60s'");
    const lock = [migrationLock];
    const [own] = await ask<{ isFree: boolean }>('select pg_try_advisory_xact_lock($1::bigint) as "isFree"', lock);
    if (!own!.isFree) {
      report("another process brings the schema forward: waiting for it");
      await ask("select pg_advisory_xact_lock($1::bigint)", lock);
    }
    await ask(`set local lock_timeout = ${lockMs}`);
    await ask("create schema if not exists troupe");
    await ask("create table if not exists troupe.schema (version integer not null, serves_from integer not null)");
    const [found] = await ask<{ version: number }>("select version from troupe.schema");
    const from = stepsBehind(found?.version ?? 0, place);
    await ask("create table if not exists troupe.schema_texts (version integer primary key, hash text not null)");
    for (const [at, { sql }] of known.entries()) {
      if (at < from) continue;
      report(`step ${at + 1} of ${known.length}`);
      await ask(sql);
    }
    if (from >= known.length) return;
    const servesFrom = Math.max(firstVersion, ...known.map((step) => step.servesFrom ?? firstVersion));
    for (const { version, hash } of schemaTexts(known.map(({ sql }) => sql)).slice(from))
      await ask("insert into troupe.schema_texts values ($1::int, $2)", [version, hash]);
    await ask("delete from troupe.schema");
    await ask("insert into troupe.schema values ($1::int, $2::int)", [versionAfter(known.length), servesFrom]);
  });
}

/** @returns undefined where there is no schema yet. @throws StorageError for one that a program which knows `known` can't serve from */
export async function readVersion(pool: QueryPool, place: string, known = steps): Promise<Version | undefined> {
  const own = versionAfter(known.length);
  const [{ there, keepsTexts } = { there: false, keepsTexts: false }] = await pool.run<Record<string, boolean>>(
    `select to_regclass('troupe.schema') is not null as there, to_regclass('troupe.schema_texts') is not null as "keepsTexts"`,
  );
  if (!there) return undefined;
  const [found] = await pool.run<Version>('select version, serves_from as "servesFrom" from troupe.schema');
  if (found === undefined) return undefined;
  stepsBehind(found.version, place);
  if (found.servesFrom > own) {
    const message = `The database ${place} was brought to schema ${found.version} by a newer Troupe, and serves programs from schema ${found.servesFrom} on (this one knows ${own}); run that version.`;
    throw new StorageError("newer", place, message);
  }
  const texts = keepsTexts ? await pool.run<SchemaText>("select version, hash from troupe.schema_texts") : [];
  checkTexts(
    texts,
    found.version,
    known.map(({ sql }) => sql),
    place,
  );
  return found;
}
