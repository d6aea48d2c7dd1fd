/** The schema, as the steps that made it. From the first tag on it is appended to, never edited: files of every released version exist. */
import type { Database } from "bun:sqlite";
import { damaged, StorageError } from "../contract/storage-error.ts";
import { checkTexts, type SchemaText, schemaTexts, stepsBehind, versionAfter } from "../sql/schema-version.ts";
import { firstSchema } from "./schema.ts";

/** Each brings a file to the next version, which SQLite keeps in `user_version`. */
export const migrations: readonly string[] = [firstSchema];

/** The schema's number that this program works with. */
export const ownVersion: number = versionAfter(migrations.length);

/** "trpe": distinguishes our files from any other SQLite database. */
const applicationId = 0x74727065;

/**
 * Runs the missing migrations. Of several processes that start at once one migrates, the others find it done.
 * @throws StorageError for a file of a newer version, or of another program
 */
export function migrate(database: Database, path: string, steps: readonly string[] = migrations): void {
  // Read first, so that opening an up-to-date file takes no write lock.
  const to = versionAfter(steps.length);
  // In one transaction, or another process could make the tables between one question and the next.
  if (database.transaction(() => schemaVersionOf(database, path, steps))() === to) return;
  database
    .transaction(() => {
      const from = stepsBehind(schemaVersionOf(database, path, steps), path);
      database.run("create table if not exists schema_texts (version integer primary key, hash text not null)");
      for (const step of steps.slice(from)) database.run(step);
      for (const { version, hash } of schemaTexts(steps).slice(from))
        database.run("insert into schema_texts values (?, ?)", [version, hash]);
      database.run(`pragma application_id = ${applicationId}`);
      database.run(`pragma user_version = ${to}`);
    })
    .immediate();
}

/**
 * The file's version; 0 is an empty file.
 * @param steps that this program knows
 * @throws StorageError for a file of a newer version, of one before the first, of another text by the same number, or of another program
 */
export function schemaVersionOf(database: Database, path: string, steps: readonly string[] = migrations): number {
  const known = versionAfter(steps.length);
  const read = (sql: string) => Object.values(database.query<Record<string, number>, []>(sql).get() ?? {})[0] ?? 0;
  const version = read("pragma user_version");
  const owner = read("pragma application_id");
  const foreign = owner !== applicationId && (owner !== 0 || read("select count(*) from sqlite_schema") > 0);
  if (foreign) throw new StorageError("foreign", path, `${path} is a database of another program; move it away.`);
  if (version > known) {
    throw new StorageError(
      "newer",
      path,
      `${path} was written by a newer Troupe (schema ${version}, this one knows ${known}); run that version, or restore an older backup.`,
    );
  }
  if (version < 0) throw damaged(path, `schema ${version}`);
  if (stepsBehind(version, path) > 0) {
    const keepsTexts = read("select count(*) from sqlite_schema where name = 'schema_texts'") > 0;
    const texts = keepsTexts ? database.query<SchemaText, []>("select version, hash from schema_texts").all() : [];
    checkTexts(texts, version, steps, path);
  }
  return version;
}
