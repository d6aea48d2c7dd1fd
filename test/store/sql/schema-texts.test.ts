import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { steps } from "../../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../../src/store/postgres/store.ts";
import { firstVersion, schemaTexts } from "../../../src/store/sql/schema-version.ts";
import { migrations } from "../../../src/store/sqlite/migrations.ts";
import { databaseName, openStore } from "../../../src/store/sqlite/store.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

/**
 * Each schema's number with the hashes of its texts. Until the first release an edited text takes the next `firstVersion`, and its row replaces
 * the one here; from then on rows are added, and none is ever changed.
 */
const known = [{ version: 31, sqlite: "6bada7f35b5c", postgres: "1d03fdbe5dc3" }];

test("a schema's text is edited only with its number", () => {
  const postgres = schemaTexts(steps.map(({ sql }) => sql));
  const made = schemaTexts(migrations).map(({ version, hash }, at) => ({
    version,
    sqlite: hash,
    postgres: postgres[at]?.hash,
  }));
  expect(made).toEqual(known);
});

test("white space is no part of a schema's text, anything else is", () => {
  const hashOf = (text: string) => schemaTexts([text])[0]!.hash;
  expect(hashOf("create table a (b text)\n")).toBe(hashOf("\n create   table a\n(b text)"));
  expect(hashOf("create table a (b text)")).not.toBe(hashOf("create table a (b int)"));
});

const words = new RegExp(
  `schema ${firstVersion} of another build of Troupe, whose tables differ .* run the build that made it, or start with an empty one`,
);

describe("a schema that another build made under the same number", () => {
  test.each(["update schema_texts set hash = 'another'", "drop table schema_texts"])(
    "is refused in a folder: %s",
    async (edit) => {
      using folder = new TempFolder();
      await openStore(folder.path).close();
      const database = new Database(join(folder.path, databaseName));
      database.run(edit);
      database.close();
      expect(() => openStore(folder.path)).toThrow(words);
    },
  );

  test.skipIf(!hasPostgres)("is refused in PostgreSQL", async () => {
    await using server = await PostgresServer.start();
    for (const edit of ["update troupe.schema_texts set hash = 'another'", "drop table troupe.schema_texts"]) {
      const url = await server.createDatabase();
      const settings = { url, pool: 2, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
      await (await openPostgresStore(settings, systemClock, true)).close();
      await server.ask(url, edit);
      const opening = openPostgresStore(settings, systemClock, true);
      await expect(opening).rejects.toThrow(words);
    }
  });
});
