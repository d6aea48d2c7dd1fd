/** What the store does when the way to the server breaks, or goes silent. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { type Clock, systemClock } from "../../../src/lib/time/clock.ts";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import type { NewCall } from "../../../src/store/contract/store.ts";
import type { LeaseOwner } from "../../../src/store/postgres/lease-owner.ts";
import { QueryPool } from "../../../src/store/postgres/query-pool.ts";
import { runRepository } from "../../../src/store/postgres/run-repository.ts";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/store.ts";
import { reservationOf, settle } from "../../helpers/budgeted-call.ts";
import { keyRow } from "../../helpers/key-row.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { hasPgBouncer, PgBouncer } from "../../helpers/pgbouncer.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { SwitchedProxy } from "../../helpers/switched-proxy.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const call = (requestId: string, run = requestId.padStart(8, "0")): NewCall => ({
  scope: "s",
  requestId,
  fingerprint: "f",
  run,
  createdAt: 0,
});

/** @returns the kind of the StorageError that it ended in, if it did: "away" where its deadline passed */
const failure = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    (error: { kind?: string }) => error.kind ?? String(error),
  );

test("a claim that was never sent leaves nothing to be removed; one that was is removed", async () => {
  const clock = new ManualClock();
  const removed: string[] = [];
  const away = new StorageError("away", "model", "it did not answer before");
  let isSent = false;
  const path = {
    run: (_: string, parameters: () => unknown[]) => {
      if (isSent) parameters();
      return Promise.reject(away);
    },
  } as unknown as QueryPool;
  const background = {
    options: { clock },
    run: async (text: string, parameters: string[]) => {
      if (text.startsWith("select")) return [{ call: 1, run: "carried out" }];
      return void removed.push(parameters[1]!);
    },
  } as unknown as QueryPool;
  const leaseOwner = {
    ...{ id: "me", current: () => "me", holds: () => true },
    ...{ lapseMs: 15_000, onRenewed: new Set() },
  } as unknown as LeaseOwner;
  const runs = runRepository({ path, background }, leaseOwner);
  await expect(runs.claim(call("a"))).rejects.toBe(away);
  await clock.advanceSlowly(1_000);
  expect(removed).toEqual([]);
  isSent = true;
  await expect(runs.claim(call("b"))).rejects.toBe(away);
  await clock.advanceSlowly(1_000);
  expect(removed).toEqual(["carried out"]);
});

/** One for all; without PostgreSQL whoever uses it is skipped. */
let server: PostgresServer;
beforeAll(async () => {
  if (hasPostgres) server = await PostgresServer.start();
});
afterAll(() => server?.[Symbol.asyncDispose]());

describe.skipIf(!hasPostgres)("between the store and PostgreSQL", () => {
  /** The schema alone, as nobody has written anything yet. */
  let empty: string;
  beforeAll(async () => {
    empty = await server.createDatabase();
    const limits = { statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
    await (await openPostgresStore({ url: empty, pool: 1, ...limits })).close();
  });

  type House = { readonly store: PostgresStore; readonly proxy: SwitchedProxy; readonly url: string };
  const on = (
    what: string,
    work: (house: House) => Promise<void>,
    options: { pool?: number; leaseSeconds?: number; clock?: Clock } = {},
  ) =>
    test(what, async () => {
      const url = await server.copyDatabase(empty);
      using proxy = new SwitchedProxy(server.port);
      const settings = {
        url: server.url(new URL(url).pathname.slice(1), proxy.port),
        pool: options.pool ?? 2,
        statementSeconds: 0.5,
        leaseSeconds: options.leaseSeconds ?? 15,
        keysWithoutDatabaseSeconds: 1,
      };
      const store = await openPostgresStore(settings, options.clock);
      try {
        await work({ store, proxy, url });
      } finally {
        const closing = store.close();
        // What is asked on a silent connection ends by its deadline alone.
        if (options.clock instanceof ManualClock) await options.clock.advanceSlowly(15_000);
        await closing;
      }
    });

  /** The same, by a clock that the test moves: no poll comes in between, and deadlines pass when it says. */
  const byClock = (what: string, work: (house: House & { readonly clock: ManualClock }) => Promise<void>) => {
    const clock = new ManualClock();
    on(what, (house) => work({ ...house, clock }), { clock });
  };

  byClock("a silent connection costs one deadline, and its pool: the next query works", async (house) => {
    const { store, proxy, clock } = house;
    expect(await store.runs.claim(call("a"))).toBeDefined();
    const before = proxy.connections;
    proxy.orphan();
    // More than there are connections: each would be given a dead one.
    const late: Promise<string | undefined>[] = [];
    for (let at = 0; at < 4; at += 1) {
      late.push(failure(store.runs.find("s", `${at}`)));
      await clock.advanceSlowly(1);
    }
    await clock.advanceSlowly(500);
    expect(await Promise.all(late)).toContain("away");
    // On a dead connection it would wait for the next deadline.
    expect(await failure(store.runs.find("s", "a"))).toBeUndefined();
    expect(proxy.connections).toBeGreaterThan(before);
  });

  on("what the server does not take is named by table and row", async ({ store }) => {
    const failed = (work: Promise<unknown>) =>
      work.then(
        () => "",
        ({ message }: Error) => message,
      );
    expect(await failed(store.keys.insert(keyRow("a\0")))).toEndWith(
      ' At fault is the row "a\\u0000" of the table keys.',
    );
    expect(await failed(store.conversations.find("a\0", "b", 0))).toMatch(
      / At fault is the row "b" of the table turns\.$/,
    );
  });

  byClock("one poll that is late has nobody refused unasked", async ({ store, proxy, clock }) => {
    proxy.orphan();
    const failed: string[] = [];
    // The poll is asked after half a second, and late after another.
    for (let at = 0; at < 20; at += 1) {
      store.runs.find("s", "a").catch((error: Error) => failed.push(error.message));
      await clock.advanceSlowly(50);
    }
    expect(store.database!().late).toBeGreaterThan(0);
    expect(await failure(store.runs.find("s", "a"))).toBeUndefined();
    expect(failed.filter((message) => message.includes("it did not answer before"))).toEqual([]);
  });

  on("answers that are held up end in time, and what they did is found afterwards", async ({ store, proxy }) => {
    await store.runs.claim(call("warm"));
    proxy.hold();
    expect(await failure(store.runs.claim(call("a")))).toBe("away");
    proxy.release();
    // Claimed again, as a retry does: whether the first try counted or not, it is held once, by us.
    let lease = await store.runs.claim(call("a", "again")).catch(() => undefined);
    while (lease === undefined) {
      await Bun.sleep(5);
      lease = await store.runs.claim(call("a", "again")).catch(() => undefined);
    }
    expect(await store.runs.find("s", "a")).toMatchObject({ state: "running", heldBy: "self", run: lease.run });
  });

  on(
    "a claim that is carried out after its removal found nothing is removed too",
    async ({ store, proxy, url }) => {
      await store.runs.claim(call("held"));
      const owner = store.leaseOwner;
      proxy.hold();
      expect(await failure(store.runs.claim(call("a")))).toBe("away");
      proxy.release();
      const two = await openPostgresStore({
        url,
        pool: 1,
        statementSeconds: 2,
        leaseSeconds: 15,
        keysWithoutDatabaseSeconds: 9,
      });
      try {
        // As the server does it, when the statement gets there at last; the second time after a removal that worked.
        for (let time = 0; time < 2; time += 1) {
          await server.ask(
            url,
            `insert into troupe.kept_calls (scope, request_id, fingerprint, run, state, owner, created_at)
           values ('s', 'a', 'f', $1, 'running', $2, 0) on conflict do nothing`,
            [call("a").run, owner],
          );
          while ((await two.runs.find("s", "a")) !== undefined) await Bun.sleep(5);
        }
        // What is held stays.
        expect(store.leaseOwner).toBe(owner);
        expect(await two.runs.find("s", "held")).toMatchObject({ state: "running", heldBy: "other" });
      } finally {
        await two.close();
      }
    },
    { leaseSeconds: 6 },
  );

  byClock("checks of the same moment are one write, and each later one another", async ({ store, proxy, clock }) => {
    await store.maintenance.check();
    const before = store.database!().statements;
    await Promise.all(Array.from({ length: 50 }, () => store.maintenance.check()));
    expect(store.database!().statements - before).toBe(1);
    proxy.hold();
    const held = failure(store.maintenance.check());
    await Bun.sleep(0);
    clock.advance(500);
    expect(await held).toBe("away");
    proxy.release();
    expect(await failure(store.maintenance.check())).toBeUndefined();
  });

  on(
    "a row that it owns and does not know is released whenever it comes; what it knows, and what others have, stays",
    async ({ store, url }) => {
      const two = await openPostgresStore({
        url,
        pool: 1,
        statementSeconds: 2,
        leaseSeconds: 60,
        keysWithoutDatabaseSeconds: 9,
      });
      try {
        await store.runs.claim(call("held"));
        await two.runs.claim(call("theirs"));
        const done = (await store.runs.claim(call("done")))!;
        await store.runs.finish(done, {
          ...{ status: 200, headers: "{}", events: null, bodyFrom: null },
          ...{ body: bytes("x"), bytes: 1, expiresAt: Date.now() + 60_000 },
        });
        const late = (id: string, owner: string) =>
          server.ask(
            url,
            `insert into troupe.kept_calls (scope, request_id, fingerprint, run, state, owner, created_at)
             values ('s', $1, 'f', $2, 'running', $3, 0)`,
            [id, call(id).run, owner],
          );
        // One whose first copy comes after all is over: its id was given back.
        const over = (await store.runs.claim(call("over")))!;
        await store.runs.release(over);
        for (const id of ["late", "over"]) {
          await late(id, store.leaseOwner);
          await late(`${id} too`, two.leaseOwner);
          while ((await two.runs.find("s", id)) !== undefined) await Bun.sleep(5);
        }
        expect(await two.runs.find("s", "held")).toMatchObject({ state: "running", heldBy: "other" });
        expect(await store.runs.find("s", "theirs")).toMatchObject({ state: "running", heldBy: "other" });
        expect(await store.runs.find("s", "late too")).toMatchObject({ state: "running", heldBy: "other" });
        expect(await store.runs.find("s", "done")).toMatchObject({ state: "finished" });
      } finally {
        await two.close();
      }
    },
    { leaseSeconds: 1.5 },
  );

  on(
    "a reservation that is carried out after it was given up goes, with its tokens",
    async ({ store, proxy, url }) => {
      const budgets = [{ scope: "all", span: "prepaid", limit: 100 }];
      const reservation = (id: string) =>
        reservationOf(id, { at: 0, amount: 10, budgets, tokens: { key: "k", now: 0, limit: 1_000, tokens: 300 } });
      await store.budgets.reserve(reservation("kept"));
      proxy.hold();
      // Alone, and with others in one statement.
      const lost = ["a", "b", "c", "d", "e"].map((id) => failure(store.budgets.reserve(reservation(id))));
      expect(new Set(await Promise.all(lost))).toEqual(new Set(["away"]));
      proxy.release();
      const found = async () => {
        const [row] = await server.ask<{ reserved: number; tokens: number; reservations: string }>(
          url,
          `select (select sum(reserved)::float8 from troupe.spending) as reserved,
           (select sum(tokens)::float8 from troupe.token_uses) as tokens,
           (select string_agg(request_id, ',' order by request_id) from troupe.reservations) as reservations`,
        );
        return row!;
      };
      while ((await found()).reservations !== "kept") await Bun.sleep(5);
      // As the server does it, when the statement gets there at last; the second time after an end that found nothing.
      for (let time = 0; time < 2; time += 1) {
        const entry = { request_id: "a", attempt: 1, owner: store.leaseOwner, amount: 10, places: [1], limits: [100] };
        await server.ask(url, "select troupe.reserve_calls($1::text::jsonb, $2::text::jsonb)", [
          JSON.stringify(budgets),
          JSON.stringify([{ ...entry, key: "k", limit: 1_000, tokens: 300, line: "{}" }]),
        ]);
        while ((await found()).reservations !== "kept") await Bun.sleep(5);
      }
      expect(await found()).toEqual({ reserved: 10, tokens: 300, reservations: "kept" });
      // The other goes on as if nothing were.
      expect(await settle(store, reservation("kept"), 4, 100)).toBe(true);
      expect(await store.budgets.spending(budgets)).toEqual([{ scope: "all", span: "prepaid", spent: 4, reserved: 0 }]);
    },
    { leaseSeconds: 6 },
  );

  on(
    "a settlement whose first try was lost on its way counts by the second",
    async ({ store, proxy }) => {
      const budgets = [{ scope: "all", span: "prepaid", limit: 100 }];
      const made = reservationOf("a", { amount: 10, budgets });
      await store.budgets.reserve(made);
      proxy.hold();
      // As the ledger's writer does, which never gives up.
      const settling = settle(store, made, 4).catch(() => settle(store, made, 4));
      await Bun.sleep(20);
      proxy.cut();
      proxy.release();
      expect(await settling).toBe(true);
      expect(await store.budgets.spending(budgets)).toEqual([{ scope: "all", span: "prepaid", spent: 4, reserved: 0 }]);
      expect(await settle(store, made, 4)).toBe(false);
    },
    { pool: 1 },
  );

  on(
    "while connections are cut all the time every write counts once",
    async ({ store, proxy, url }) => {
      proxy.cutEvery(30);
      const written: string[] = [];
      try {
        await Promise.all(
          Array.from({ length: 8 }, async (_, worker) => {
            for (let at = 0; at < 6; at += 1) {
              const id = `${worker}-${at}`;
              for (let isDone = false; !isDone; ) {
                isDone = await writeWhole(store, id).catch(() => false);
                if (!isDone) await Bun.sleep(2);
              }
              written.push(id);
            }
          }),
        );
      } finally {
        proxy.stopCutting();
      }
      expect(written).toHaveLength(48);
      const rows = await server.ask<{ id: string; events: number }>(
        url,
        `select k.request_id as id, count(e.first_id)::int as events from troupe.kept_calls k
       left join troupe.kept_events e using (call, run) where k.state = 'finished' group by 1`,
      );
      expect(rows.map(({ id }) => id).sort()).toEqual(written.sort());
      expect(rows.every(({ events }) => events === 2)).toBe(true);
      const idle = await server.ask<{ count: number }>(
        url,
        "select count(*)::int as count from pg_stat_activity where state = 'idle in transaction' and datname = current_database()",
      );
      expect(idle[0]!.count).toBe(0);
    },
    { pool: 4 },
  );

  on("a change of keys that was cut off is told as it was", async ({ store, proxy }) => {
    await store.keys.insert(keyRow("a"));
    // Each piece that goes on to the server is the last of its connection: what it does is not told.
    proxy.cutEvery(1);
    let isRevoked = await store.keys.revoke("a", 5).catch(() => undefined);
    proxy.stopCutting();
    expect(isRevoked).toBeUndefined();
    while (isRevoked === undefined) isRevoked = await store.keys.revoke("a", 5).catch(() => undefined);
    // A try that was rejected may have done it: then this one finds it done.
    const [row] = await store.keys.list();
    expect(row!.revokedAt).toBe(5);
  });

  byClock("keys are trusted for the stated time, and at once when the server is back", async (house) => {
    const { store, proxy, clock } = house;
    const version = store.keys.version();
    proxy.hold();
    await clock.advanceSlowly(1_000);
    expect(trusted(store)).toBe(true);
    await clock.advanceSlowly(1);
    expect(trusted(store)).toBe(false);
    await clock.advanceSlowly(1_000);
    // Nobody waits for what is known to be away: nothing is asked.
    const before = store.database!().statements;
    expect(await failure(store.runs.find("s", "a"))).toBe("away");
    expect(store.database!().statements).toBe(before);
    proxy.release();
    await store.refresh();
    expect(store.keys.version()).toBe(version);
    expect(await store.runs.find("s", "a")).toBeUndefined();
  });

  on(
    "a lease that could not be renewed is lost, and what it wrote of another's call is refused",
    async ({ store, proxy, url }) => {
      const lease = await claimed(store, "a");
      proxy.hold();
      while (store.runs.holds(lease)) await Bun.sleep(5);
      const two = await openPostgresStore({
        url,
        pool: 2,
        statementSeconds: 2,
        leaseSeconds: 15,
        keysWithoutDatabaseSeconds: 9,
      });
      const { requestId } = lease;
      let found = await two.runs.find("s", requestId);
      while (found!.heldBy !== "gone") {
        await Bun.sleep(10);
        found = await two.runs.find("s", requestId);
      }
      expect(await two.runs.interruptAbandoned(7)).toBeGreaterThan(0);
      const anew = (await two.runs.claim(call(requestId, "anew"), (await two.runs.find("s", requestId))!))!;
      proxy.release();
      while ((await store.runs.get(lease).catch(() => null)) !== undefined) await Bun.sleep(5);
      expect(await inTime(() => store.runs.append(lease, "{}", { firstId: 0, data: bytes("late") }))).toBe(false);
      expect(await inTime(() => store.runs.finish(lease, finished))).toBe(false);
      await inTime(() => store.runs.release(lease));
      expect(await two.runs.get(anew)).toMatchObject({ state: "running", heldBy: "self", headers: null });
      // It goes on under a new name.
      const next = await claimed(store, "b");
      expect(next.owner).not.toBe(lease.owner);
      expect(store.runs.holds(lease)).toBe(false);
      await two.close();
    },
    { leaseSeconds: 0.9 },
  );

  on(
    "a call with an id costs two round trips before the upstream is called",
    async ({ store, proxy }) => {
      await store.runs.claim(call("warm"));
      const exchanges: number[] = [];
      // A poll or a renewal may come in between, but not each time.
      for (const id of ["a", "b", "c", "d", "e"]) {
        const before = proxy.exchanges;
        expect(await store.runs.find("s", id)).toBeUndefined();
        expect(await store.runs.claim(call(id))).toBeDefined();
        exchanges.push(proxy.exchanges - before);
      }
      expect(Math.min(...exchanges)).toBe(2);
    },
    { pool: 1 },
  );
});

describe.skipIf(!hasPostgres || !hasPgBouncer)("behind PgBouncer", () => {
  test("a statement whose connection to the server breaks is sent again", async () => {
    using proxy = new SwitchedProxy(server.port);
    await using bouncer = await PgBouncer.start(server, { port: proxy.port });
    const connect = () =>
      new SQL(server.url("postgres", bouncer.port), { max: 1, prepare: false, connectionTimeout: 3 });
    const pool = new QueryPool({ connect, connections: 1, deadlineMs: 10_000, place: "x", clock: systemClock });
    await pool.run("select 1");
    const underWay = "select 1 from pg_stat_activity where query like '%pg_sleep%' and pid <> pg_backend_pid()";
    const cutOff = async <T>(asked: Promise<T>) => {
      while ((await server.ask("postgres", underWay)).length === 0) await Bun.sleep(5);
      proxy.cut();
      return asked;
    };
    expect([...(await cutOff(pool.run("select 7 as id from pg_sleep(0.3)")))]).toEqual([{ id: 7 }]);
    // What can't be sent again is told as what it is.
    await expect(cutOff(pool.transaction((ask) => ask("select pg_sleep(0.3)")))).rejects.toMatchObject({
      kind: "away",
      message: expect.stringContaining("server conn crashed?"),
    });
    await pool.close();
  });
});

describe.skipIf(!hasPostgres)("a process that stood still", () => {
  test("takes the answer that came meanwhile, though its deadline has passed", async () => {
    const connect = () => new SQL(server.url("postgres"), { max: 1, prepare: false, connectionTimeout: 3 });
    const pool = new QueryPool({ connect, connections: 1, deadlineMs: 1_000, place: "x", clock: systemClock });
    await pool.run("select 1");
    const asked = pool.run("select 7 as id");
    Bun.sleepSync(1_100);
    expect([...(await asked)]).toEqual([{ id: 7 }]);
    expect(pool.counts).toMatchObject({ late: 0, replaced: 0 });
    await pool.close();
  });
});

describe.skipIf(!hasPostgres)("Bun's client behind the query pool", () => {
  test("32 callers on 2 connections that are cut all the time get their own rows, and no half of a transaction", async () => {
    using proxy = new SwitchedProxy(server.port);
    const connect = () => new SQL(server.url("postgres", proxy.port), { max: 2, prepare: false, connectionTimeout: 3 });
    const pool = new QueryPool({ connect, connections: 2, deadlineMs: 3_000, place: "x", clock: systemClock });
    await server.ask("postgres", "create table pairs (id int, half int)");
    proxy.cutEvery(60);
    const counts = { right: 0, failed: 0 };
    const rows = async (id: number) => {
      const [row, ...more] = await pool.run<{ id: number; text: string }>(
        "select $1::int as id, repeat($2::text, 300) as text",
        [id, `${id};`],
      );
      expect(more).toEqual([]);
      expect(row).toEqual({ id, text: `${id};`.repeat(300) });
    };
    const pair = (id: number) =>
      pool.transaction(async (ask) => {
        for (const half of [0, 1]) await ask("insert into pairs values ($1::int, $2::int)", [id, half]);
      });
    await Promise.all(
      Array.from({ length: 32 }, async (_, caller) => {
        for (let at = 0; at < 16; at += 1) {
          const id = caller * 1000 + at;
          const asked = at % 4 === 0 ? pair(id) : rows(id);
          await asked.then(
            () => {
              counts.right += 1;
            },
            (error: unknown) => {
              if (!(error instanceof StorageError)) throw error;
              counts.failed += 1;
            },
          );
        }
      }),
    );
    proxy.stopCutting();
    expect(counts.right).toBeGreaterThan(200);
    const halves = await server.ask("postgres", "select id from pairs group by id having count(*) <> 2");
    expect(halves).toEqual([]);
    const open = await server.ask(
      "postgres",
      "select 1 from pg_stat_activity where state like 'idle in transaction%' and pid <> pg_backend_pid()",
    );
    expect(open).toEqual([]);
    // No place in the pool is lost.
    const pids = await Promise.all(
      [1, 2].map(() => pool.run<{ pid: number }>("select pg_backend_pid() as pid from pg_sleep(0.2)")),
    );
    expect(new Set(pids.map(([row]) => row!.pid)).size).toBe(2);
    await pool.close();
  });
});

const finished = {
  status: 200,
  headers: "{}",
  events: null,
  bodyFrom: null,
  body: bytes("body"),
  bytes: 4,
  expiresAt: 1,
};

/** Does it again until it ends within its deadline, which on a busy machine may take some tries. */
async function inTime<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StorageError && error.kind === "away")) throw error;
    }
  }
}

/** A claim whose lease holds: on a busy machine a short one may lapse before its claim is answered. */
async function claimed({ runs }: PostgresStore, name: string) {
  for (let time = 0; ; time += 1) {
    const requestId = `${name}${time}`;
    const lease = await runs.claim(call(requestId)).catch(() => undefined);
    if (lease !== undefined && runs.holds(lease)) return { ...lease, requestId };
  }
}

async function writeWhole({ runs }: PostgresStore, id: string): Promise<boolean> {
  const found = await runs.find("s", id);
  if (found?.state === "finished") return true;
  const lease = (await runs.claim(call(id))) ?? found;
  if (lease === undefined) return false;
  for (const firstId of [0, 1]) await runs.append(lease, "{}", { firstId, data: bytes(`${firstId}`) });
  return runs.finish(lease, finished);
}

function trusted({ keys }: PostgresStore): boolean {
  try {
    keys.version();
    return true;
  } catch {
    return false;
  }
}
