/** A server whose store is PostgreSQL: real calls, real commands, and what becomes of both without the database. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { newSecret } from "../../src/auth/key-secret.ts";
import type { Config } from "../../src/config/config.ts";
import { examineDatabase } from "../../src/operate/doctor/database.ts";
import { ownVersion } from "../../src/store/postgres/migrations.ts";
import { Console } from "../cli/console.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const chat = (text: string) => ({ model: "builtin/echo", messages: [{ role: "user", content: text }] });
const path = "/gateway/v1/chat/completions";

const configOf = (url: string, changes: Partial<Config["store"]> = {}): Partial<Config> => ({
  store: { url, pool: 4, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 600, ...changes },
});

describe.skipIf(!hasPostgres)("a server on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test("two nodes share keys, answers and conversations; a revoked key counts on both within a second", async () => {
    const config = configOf(await server.createDatabase());
    await using one = await Troupe.start({ config });
    await using two = await Troupe.start({ config });
    const headers = { "service-request-id": "r1" };
    const first = await one.post(path, { ...chat("hello"), store: true }, { headers });
    const again = await two.post(path, { ...chat("hello"), store: true }, { headers, key: one.key });
    expect(first.status).toBe(200);
    const body = await first.text();
    expect(await again.text()).toBe(body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const { id } = JSON.parse(body) as { id: string };
    const stored = await two.fetch(`${path}/${id}`, { key: one.key });
    expect(((await stored.json()) as { id: string }).id).toBe(id);

    // Until one was quick: a busy machine may hold up some, and what takes longer by itself holds up all.
    let quickest = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 20 && quickest >= 1_000; round += 1) {
      const { secret, key } = await one.server.services.keys.create({ name: "k", tier: "pro" });
      expect((await two.post(path, chat("x"), { key: secret })).status).toBe(200);
      await one.server.services.keys.revoke(key.id);
      const revokedAt = performance.now();
      let status = 200;
      while (status === 200) status = (await two.post(path, chat("x"), { key: secret })).status;
      expect(status).toBe(401);
      quickest = Math.min(quickest, performance.now() - revokedAt);
    }
    expect(quickest).toBeLessThan(1_000);
  });

  test("a key that one node made or rotated is good on the others at once, and nobody's keys make the database work", async () => {
    const config = configOf(await server.createDatabase());
    await using one = await Troupe.start({ config });
    await using two = await Troupe.start({ config });
    const { keys } = one.server.services;
    const ask = (key: string, from = "/gateway/v1/models") => two.fetch(from, { key });
    for (let round = 0; round < 10; round += 1) {
      const { secret, key } = await keys.create({ name: "k", tier: "pro" });
      const made = await ask(secret);
      expect([made.status, made.headers.get("x-ratelimit-limit")]).toEqual([200, null]);
      expect((await ask((await keys.rotate(key.id)).secret, "/v1/models")).headers.get("x-ratelimit-limit")).toBe(
        "100",
      );
    }
    const statements = () => two.server.services.store.database!().statements;
    const [before, startedAt] = [statements(), performance.now()];
    const answers = await Promise.all(Array.from({ length: 200 }, () => ask(newSecret())));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
    expect(answers[0]!.headers.get("x-ratelimit-limit")).toBe("600");
    // Ten a second, beside what every node asks by itself.
    expect(statements() - before).toBeLessThan(10 + 0.03 * (performance.now() - startedAt));
  });

  test("commands work on it, and say what is done by PostgreSQL's own tools", async () => {
    const url = await server.createDatabase();
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "store: ${DB}\n");
    const shell = new Console(folder.path, { DB: url });
    const place = new URL(url).host + new URL(url).pathname;
    expect((await shell.run("keys list")).err).toContain(`Nothing was ever stored in ${place}`);
    expect((await shell.run("check")).out).toContain(`${folder.file("data")}, and ${place}, made at the first start\n`);
    expect((await shell.run("data migrate --dry-run")).out).toBe(
      `${place}: schema 0 → ${ownVersion()}; nothing was changed\n`,
    );
    expect((await shell.run("data migrate")).out).toBe(`${place}: schema 0 → ${ownVersion()}: done\n`);
    const made = await shell.run("keys create a");
    expect(made.out).toMatch(/^trp_/);
    expect((await shell.run("keys list")).out).toContain(made.out.slice(0, 12));
    expect((await shell.run("check")).out).toContain(`and ${place} (2 of 2 keys active)\n`);
    const apart = new Console(folder.path, { DB: url, TROUPE_COORDINATION: "redis://127.0.0.1:1" });
    expect(await apart.run("check")).toMatchObject({ code: 0, err: expect.stringMatching(/^warning: coordination: /) });
    expect((await shell.run("data stats")).out).toContain(`database       ${place}\n`);
    expect((await shell.run("data prune")).out).toStartWith("Nothing has expired");
    for (const line of ["data backup b.db", "data restore b.db"]) {
      const { code, err } = await shell.run(line);
      expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/in PostgreSQL.*'pg_(dump|restore)/) });
    }
    expect(await shell.run("config print")).toMatchObject({ code: 0, out: expect.not.stringContaining("secret") });
    const doctor = (await shell.run("doctor")).out;
    expect(doctor).toMatch(
      new RegExp(`ok    database: ${RegExp.escape(place)}, PostgreSQL \\d+[^,\\n]*, schema ${ownVersion()}\\n`),
    );
    expect(doctor).toContain("database: fsync is off: a crash of its machine can damage the database\n");
    expect(doctor).not.toContain("synchronous_commit");
    expect(doctor).not.toContain("database clock");
    await server.ask(
      url,
      `alter role troupe in database ${new URL(url).pathname.slice(1)} set synchronous_commit = off`,
    );
    expect((await shell.run("doctor")).out).toContain("database: synchronous_commit is off: a crash loses");
  });

  test("a wrong address is told by the start and by the commands, without the password", async () => {
    using folder = new TempFolder();
    for (const [database, told] of [
      [server.url("none"), "there is no such database"],
      [server.url("none", 1), "can't be reached"],
    ] as const) {
      const { code, out, err } = await new Console(folder.path, { TROUPE_STORE: database }).run("check");
      expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(told) });
      expect(out + err).not.toContain("secret");
    }
  });

  test("doctor warns of a server whose clock is off", () => {
    const told = (aheadMs: number) =>
      examineDatabase({
        place: "db",
        version: 1,
        known: 1,
        isWritable: true,
        server: { version: "17", aheadMs, unsafe: [] },
      })
        .slice(1)
        .map(({ found }) => found);
    expect(told(-1_999)).toEqual([]);
    expect(told(2_500)).toEqual(["the server's is 2.5 s ahead"]);
    expect(told(-90_000)).toEqual(["the server's is 90 s behind"]);
  });

  test("/health names what fails of the database, and stays 200 while plain calls go on", async () => {
    const url = await server.createDatabase();
    await using troupe = await Troupe.start({ config: configOf(url) });
    const storage = async () => {
      const response = await troupe.fetch("/health");
      const { checks } = (await response.json()) as { checks: { storage: { message?: string } } };
      return { code: response.status, message: checks.storage.message };
    };
    expect(await storage()).toEqual({ code: 200, message: undefined });
    // A lease that can't be written, by the server's own word for each cause.
    for (const [state, message] of [
      ["53100", "The database's disk is full."],
      ["42501", "The database takes no writes."],
      ["57014", "The database did not answer in time."],
      ["XX001", "The database fails; the log says how."],
    ] as const) {
      const body = `begin raise exception 'no' using errcode = '${state}'; end`;
      await server.ask(url, `create or replace function public.fail() returns trigger language plpgsql as $$${body}$$`);
      await server.ask(
        url,
        "create or replace trigger fails before insert or update on troupe.lease_owners execute function public.fail()",
      );
      expect(await storage()).toEqual({ code: 200, message });
      expect((await troupe.post(path, chat("plain"))).status).toBe(200);
    }
    await server.ask(url, "drop trigger fails on troupe.lease_owners");
    expect(await storage()).toEqual({ code: 200, message: undefined });
    // A lease needs no room on a full disk, an answer does.
    for (const [state, message] of [
      ["53100", "The database's disk is full."],
      ["25006", "The database takes no writes."],
    ] as const) {
      const withId = async () =>
        (await troupe.post(path, chat("x"), { headers: { "service-request-id": state } })).status;
      const body = `begin raise exception 'no' using errcode = '${state}'; end`;
      await server.ask(url, `create or replace function public.fail() returns trigger language plpgsql as $$${body}$$`);
      await server.ask(url, "create trigger fails before insert on troupe.kept_calls execute function public.fail()");
      expect(await withId()).toBe(503);
      expect(await storage()).toEqual({ code: 200, message });
      await server.ask(url, "drop trigger fails on troupe.kept_calls");
      expect(await withId()).toBe(200);
      expect(await storage()).toEqual({ code: 200, message: undefined });
    }
  });

  test("while the server is away plain calls go on, what needs it is 503, and it comes back without a restart", async () => {
    const own = await PostgresServer.start();
    const config = configOf(await own.createDatabase(), { keysWithoutDatabaseSeconds: 4 });
    await using troupe = await Troupe.start({ config });
    const withId = (id: string) => troupe.post(path, chat(id), { headers: { "service-request-id": id } });
    const health = async () => {
      const response = await troupe.fetch("/health");
      const { status, checks } = (await response.json()) as { status: string; checks: { storage: { status: string } } };
      return { code: response.status, status, storage: checks.storage.status };
    };
    const kept = await withId("before");
    expect(await health()).toEqual({ code: 200, status: "ok", storage: "ok" });
    await own.stop();
    const refused = await withId("during");
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^[1-9]/);
    expect(((await refused.json()) as { error: { code: string } }).error.code).toBe("storage_unavailable");
    expect((await troupe.post(path, chat("plain"))).status).toBe(200);
    // Another node may have made it.
    expect((await troupe.post(path, chat("plain"), { key: newSecret() })).status).toBe(503);
    expect((await troupe.post(path, chat("plain"), { key: "trp_typo" })).status).toBe(401);
    expect(await health()).toEqual({ code: 200, status: "degraded", storage: "failing" });
    // Until keys are too old to be trusted.
    let plain = await troupe.post(path, chat("plain"));
    while (plain.status === 200) {
      await Bun.sleep(50);
      plain = await troupe.post(path, chat("plain"));
    }
    expect(((await plain.json()) as { error: { code: string } }).error.code).toBe("storage_unavailable");
    expect((await health()).code).toBe(503);
    await own.run();
    while ((await troupe.post(path, chat("plain"))).status !== 200) await Bun.sleep(50);
    while ((await health()).code !== 200) await Bun.sleep(50);
    const again = await withId("before");
    expect(await again.text()).toBe(await kept.text());
    expect((await withId("during")).status).toBe(200);
    await own[Symbol.asyncDispose]();
  });
});
