/** What docs/postgres.md says of backups: its very commands, while a node serves, and what comes back. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/store.ts";
import { reservationOf, settle } from "../../helpers/budgeted-call.ts";
import { keyRow } from "../../helpers/key-row.ts";
import { pageBlock } from "../../helpers/page-blocks.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { fill, start } from "../filled.ts";

const hasTools = Bun.which("pg_dump") !== null && Bun.which("pg_restore") !== null;
const [dump, ...restoring] = pageBlock("docs/postgres.md", "Backup", "sh").trim().split("\n") as [string, ...string[]];
const restore = restoring.join(" && ");

describe.skipIf(!hasPostgres || !hasTools)("a backup by pg_dump", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const open = (url: string): Promise<PostgresStore> =>
    openPostgresStore({ url, pool: 2, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 });

  async function run(command: string, folder: TempFolder, url: string): Promise<void> {
    const env = { PATH: process.env["PATH"] ?? "", TROUPE_STORE: url };
    const child = Bun.spawn(["sh", "-c", command], { cwd: folder.path, env, stdout: "ignore", stderr: "pipe" });
    const said = await new Response(child.stderr).text();
    expect({ code: await child.exited, said }).toEqual({ code: 0, said: "" });
  }

  /** Every row of every table, whichever there are; but for leases, which are renewed meanwhile. */
  async function contentOf(url: string): Promise<Record<string, string | null>> {
    const tables = await server.ask<{ name: string }>(
      url,
      "select tablename as name from pg_tables where schemaname = 'troupe' and tablename not in ('lease_owners', 'nodes')",
    );
    const found: Record<string, string | null> = {};
    for (const { name } of tables) {
      const text = `select count(*) || ' rows, ' || md5(string_agg(t::text, e'\\n' order by t::text)) as content from troupe.${name} t`;
      found[name] = (await server.ask<{ content: string | null }>(url, text))[0]!.content;
    }
    return found;
  }

  const call = (requestId: string, run: string) => ({ scope: "s", requestId, fingerprint: "f", run, createdAt: start });

  test("has all of it, over what came after and in an empty database; what ran is called anew", async () => {
    using folder = new TempFolder();
    const url = await server.createDatabase();
    const store = await open(url);
    await fill(store, 300);
    const running = (await store.runs.claim(call("running", "run-a")))!;
    const before = await contentOf(url);
    expect(Object.values(before).filter((content) => content !== null).length).toBeGreaterThan(10);
    await run(dump, folder, url);
    // After it: a key is revoked and one is made, what ran is stored, money is spent, a conversation goes.
    await store.keys.revoke("key_1", start);
    await store.keys.insert(keyRow("key_after"));
    await store.runs.finish(running, {
      ...{ status: 200, headers: "{}", events: null, bodyFrom: null },
      ...{ body: new Uint8Array(1), bytes: 1, expiresAt: start },
    });
    await store.runs.claim(call("after", "run-b"));
    await store.conversations.markDeleted("holder", "turn_7", start);
    await store.refresh();
    const lost = store.keys.version();
    await store.close();
    expect(await contentOf(url)).not.toEqual(before);

    const empty = await server.createDatabase();
    for (const target of [url, empty]) {
      await run(restore, folder, target);
      expect(await contentOf(target)).toEqual(before);
      const back = await open(target);
      try {
        expect(await back.maintenance.damage()).toBeUndefined();
        expect((await back.keys.list()).find(({ id }) => id === "key_1")?.revokedAt).toBeNull();
        expect((await back.runs.find("s", "r3"))?.state).toBe("finished");
        // The node of that time is gone, though its lease may hold for a moment.
        expect((await back.runs.find("s", "running"))?.state).toBe("running");
        await server.ask(target, "update troupe.lease_owners set lapses_at = clock_timestamp() where owner = $1", [
          running.owner,
        ]);
        expect((await back.runs.find("s", "running"))?.heldBy).toBe("gone");
        expect(await back.runs.interruptAbandoned(start)).toBeGreaterThan(0);
        const old = (await back.runs.find("s", "running"))!;
        expect(await back.runs.claim(call("running", "run-c"), old)).toMatchObject({ call: running.call });
        // New numbers go on after the old ones, and the functions and triggers are there.
        expect((await back.runs.claim(call("new", "run-d")))!.call).toBeGreaterThan(running.call);
        const version = back.keys.version();
        await back.keys.insert(keyRow("key_new"));
        await back.refresh();
        expect(back.keys.version()).toBeGreaterThan(version);
        // A node that knows what was lost sees that this is something else.
        expect(back.keys.version()).toBeGreaterThan(lost);
        const budgets = [{ scope: "all", span: "2023-11-14", limit: 1_000_000 }];
        const made = reservationOf("new", { amount: 1, budgets });
        expect(await back.budgets.reserve(made)).toMatchObject({ tightest: { limit: 1_000_000, reserved: 101 } });
        expect(await settle(back, made, 1)).toBe(true);
      } finally {
        await back.close();
      }
    }
  });
});
