/** Reservations of many calls in one statement. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { CallAccounts, type CallEntry } from "../../../src/store/postgres/call-accounts.ts";
import { QueryPool } from "../../../src/store/postgres/query-pool.ts";
import { openPostgresStore } from "../../../src/store/postgres/store.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { hasPostgres, PostgresServer } from "../../helpers/postgres.ts";
import { Random } from "../../helpers/random.ts";

const entryOf = (id: string, amount = 1): CallEntry => ({
  ...{ request_id: id, attempt: 1, owner: "n", amount, budgets: [{ scope: "all", span: "prepaid", limit: 1_000 }] },
  ...{ key: undefined, limit: undefined, tokens: 0, now: undefined, line: "{}" },
});

describe("what is asked while statements are under way", () => {
  type Sent = {
    readonly names: readonly string[];
    /** Sends it again. */
    resend(): readonly string[];
    answer(): void;
    fail(error: Error): void;
  };
  /** Statements of which two may be under way, and the calls in them. */
  function model() {
    const clock = new ManualClock();
    const sent: Sent[] = [];
    const run = (_: string, parameters: () => string[]) => {
      const { promise, resolve, reject } = Promise.withResolvers<{ answer: string }[]>();
      const namesOf = () => (JSON.parse(parameters()[1]!) as CallEntry[]).map(({ request_id }) => request_id);
      let names = namesOf();
      sent.push({
        names,
        resend: () => {
          names = namesOf();
          return names;
        },
        answer: () => resolve([{ answer: JSON.stringify(names.map((name) => `${name}!`)) }]),
        fail: reject,
      });
      return promise;
    };
    const accounts = new CallAccounts({
      options: { clock, deadlineMs: 1_000, place: "model" },
      run,
    } as unknown as QueryPool);
    const ask = (name: string) => accounts.reserve(entryOf(name));
    const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
    return { clock, sent, ask, turn, names: () => sent.map(({ names }) => names) };
  }
  const kinds = async (asked: readonly Promise<unknown>[]) =>
    (await Promise.allSettled(asked)).map((one) =>
      one.status === "fulfilled" ? one.value : (one.reason as StorageError).message.replace(/.*\((.*)\).*/, "$1"),
    );

  test("goes with the next one, in the order in which it came, and with what came in the same turn", async () => {
    const { sent, ask, turn, names } = model();
    const answers: unknown[] = [];
    const answered = (name: string) => ask(name).then((answer) => answers.push(answer));
    for (const name of ["a", "b"]) void answered(name);
    await turn();
    void answered("c");
    await turn();
    for (const name of ["d", "e", "f"]) void answered(name);
    await turn();
    expect(names()).toEqual([["a", "b"], ["c"]]);
    sent[1]!.answer();
    await turn();
    expect(names().slice(2)).toEqual([["d", "e", "f"]]);
    for (const { answer } of sent) answer();
    await turn();
    expect(answers).toEqual(["c!", "a!", "b!", "d!", "e!", "f!"]);
  });

  test("has its deadline from when it was asked, whether it was sent or waits, and is not sent once more after it", async () => {
    const { clock, sent, ask, turn, names } = model();
    const first = kinds([ask("a")]);
    await turn();
    const second = kinds([ask("b")]);
    await turn();
    clock.advance(900);
    const third = ask("c");
    await turn();
    clock.advance(150);
    expect([...(await first), ...(await second)]).toEqual(Array(2).fill("no answer within 1000 ms"));
    expect(() => sent[1]!.resend()).toThrow("nobody waits for it");
    sent[0]!.answer();
    await turn();
    expect(names().slice(2)).toEqual([["c"]]);
    expect(sent[2]!.resend()).toEqual(["c"]);
    sent[2]!.answer();
    expect(await third).toBe("c!");
  });

  test("fails together where the server is away, and one by one where it refuses", async () => {
    const { sent, ask, turn, names } = model();
    const refused = kinds([ask("a"), ask("b")]);
    await turn();
    sent[0]!.fail(new StorageError("unusable", "model", "The database failed (22003): too large."));
    await turn();
    expect(sent[1]!.names).toEqual(["a"]);
    sent[1]!.fail(new StorageError("unusable", "model", "The database failed (22003): too large."));
    await turn();
    expect(names().slice(2)).toEqual([["b"]]);
    sent[2]!.answer();
    expect(await refused).toEqual(["22003", "b!"]);
    const lost = [ask("c"), ask("d")];
    await turn();
    sent[3]!.fail(new StorageError("away", "model", "The database can't be reached (57P01)."));
    expect(await kinds(lost)).toEqual(["57P01", "57P01"]);
    expect(sent).toHaveLength(4);
  });

  test("is refused beyond ten thousand", async () => {
    const { ask, turn } = model();
    for (const name of ["a", "b"]) {
      void ask(name).catch(() => {});
      await turn();
    }
    for (let at = 0; at < 10_000; at += 1) void ask(`more ${at}`).catch(() => {});
    await expect(ask("one")).rejects.toThrow("too many wait for a connection");
  });
});

describe.skipIf(!hasPostgres)("with a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const limits = { pool: 4, statementSeconds: 20, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
  /** A database with its schema, and what asks it. */
  async function database() {
    const url = await server.createDatabase();
    const store = await openPostgresStore({ url, ...limits });
    const pool = new QueryPool({
      connect: () => new SQL(url, { max: 2, prepare: false }),
      connections: 2,
      deadlineMs: 20_000,
      place: "test",
      clock: systemClock,
    });
    return {
      url,
      store,
      pool,
      accounts: new CallAccounts(pool),
      async [Symbol.asyncDispose]() {
        await pool.close();
        await store.close();
      },
    };
  }
  const tables = (url: string) =>
    server.ask(
      url,
      `select 'spending' as what, scope || ' ' || span as name, spent, reserved from troupe.spending
       union all select 'reserved', concat_ws(' ', request_id, attempt, owner, tokens_key, tokens_at, scopes, spans, line), amount, tokens
         from troupe.reservations
       union all select 'tokens', key, at, tokens from troupe.token_uses order by 1, 2, 3`,
    );

  /** Reservations of calls as they may come: of few budgets that are near their limits, and of few keys. Some come again. */
  function history(random: Random, count: number): CallEntry[] {
    const spans = ["all", "key:a", "tag:b", "tag: c'"].flatMap((scope) =>
      ["2026-11", "prepaid"].map((span) => ({ scope, span })),
    );
    return Array.from({ length: count }, (_, at) => {
      const budgets = spans
        .filter(() => random.chance(35))
        .map((one) => ({ ...one, limit: 400 + random.below(9_000) }));
      const hasTokens = random.chance(50) || budgets.length === 0;
      return {
        request_id: random.chance(95) ? `c${at}` : `c${random.below(at + 1)}`,
        attempt: 1,
        owner: `n${random.below(3)}`,
        amount: random.below(120),
        budgets: random.chance(50) ? budgets : budgets.reverse(),
        key: hasTokens ? random.pick(["k1", "k2", "k3"]) : undefined,
        limit: hasTokens ? 1_000 : undefined,
        tokens: random.below(300),
        now: hasTokens ? 1_000_000 + at * 400 : undefined,
        line: JSON.stringify({ at }),
      };
    });
  }

  test.each([1, 2, 3])("history %i: many in one statement are decided as one after the other", async (seed) => {
    await using together = await database();
    await using apart = await database();
    const random = new Random(seed);
    const entries = history(random, 400);
    const alone: unknown[] = [];
    for (const entry of entries) alone.push(await apart.accounts.reserve(entry));
    const answers: unknown[] = [];
    for (let left = entries; left.length > 0; ) {
      const ids = left.map(({ request_id }) => request_id);
      // What comes again goes with another statement, which may overtake.
      const again = ids.findIndex((id, at) => ids.indexOf(id) < at);
      const group = left.slice(0, Math.min(1 + random.below(60), again < 0 ? left.length : again));
      left = left.slice(group.length);
      answers.push(...(await Promise.all(group.map((entry) => together.accounts.reserve(entry)))));
    }
    expect(answers).toEqual(alone);
    expect(await tables(together.url)).toEqual(await tables(apart.url));
    expect(apart.pool.counts.statements).toBe(400);
    expect(together.pool.counts.statements).toBeLessThan(120);
    // It has all that may be said.
    const said = JSON.stringify(answers);
    for (const words of [/"refusedBy"/, /"waitMs":0/, /"waitMs":[1-9]/, /\{\}/]) expect(said).toMatch(words);
  });

  test("one that the server can't do fails alone", async () => {
    await using one = await database();
    const budgets = [{ scope: "all", span: "prepaid", limit: 1_000 }];
    const asked = [entryOf("a", 5), entryOf("b", 1e30), entryOf("c", 6)];
    const results = await Promise.allSettled(asked.map((entry) => one.accounts.reserve(entry)));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await one.store.budgets.spending(budgets)).toEqual([
      { scope: "all", span: "prepaid", spent: 0, reserved: 11 },
    ]);
  });
});
