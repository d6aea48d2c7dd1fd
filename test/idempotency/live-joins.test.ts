/** Joins and resumes on other nodes by live streams, with real servers: what readers get, how soon, and what the database does for it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { RedisClient } from "bun";
import { LiveNode } from "../helpers/live-node.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";

const event = (number: number, more = "") => `data: ${number}${more}\n\n`;

describe.skipIf(!hasPostgres || !hasRedis)("joins of calls on other nodes", () => {
  let postgres: PostgresServer;
  let redis: RedisServer;
  let raw: RedisClient;
  beforeAll(async () => {
    [postgres, redis] = await Promise.all([PostgresServer.start(), RedisServer.start()]);
    raw = new RedisClient(redis.url());
  }, 60_000);
  beforeEach(() => raw.send("FLUSHALL", []));
  afterAll(async () => {
    raw.close();
    await Promise.all([postgres[Symbol.asyncDispose](), redis[Symbol.asyncDispose]()]);
  });

  /** Three nodes on one database. @param without those that have no coordination */
  async function house(without: readonly number[] = [], server = redis) {
    const url = await postgres.createDatabase();
    const stack = new AsyncDisposableStack();
    const open = async (at: number) =>
      stack.use(await LiveNode.open(postgres, url, without.includes(at) ? undefined : server));
    const nodes = [await open(0), await open(1), await open(2)] as const;
    const rows = async () =>
      Number((await postgres.ask<{ n: number }>(url, "select count(*)::int as n from troupe.kept_events"))[0]!.n);
    return { nodes, rows, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  }

  const streams = async () => (await raw.send("KEYS", ["troupe:{live}:run:*"])) as string[];

  test("two nodes read a third one's call as it comes, no event is written to the database, and little is asked of it", async () => {
    await using opened = await house();
    const [one, two, three] = opened.nodes;
    const first = one.ask("a");
    await one.upstream.called(1);
    const call = one.upstream.last.stream({ "x-a": "é" });
    call.push(event(0), event(1));
    await first.has(2);
    const joined = [two.ask("a"), three.ask("a"), three.ask("a")];
    for (const reader of joined) await reader.has(2);
    const before = [one, two, three].map(({ statements }) => statements);
    for (let at = 2; at < 102; at += 1) {
      call.push(event(at));
      for (const reader of joined) await reader.has(at + 1);
    }
    const spent = [one, two, three].map(({ statements }, at) => statements - before[at]!);
    expect(await opened.rows()).toBe(0);
    // By the database an event takes three statements or more. Some are asked each second, which is longer on a busy machine.
    expect(spent[1]! + spent[2]!).toBeLessThan(100);
    call.push("[DONE]").end("finished");
    for (const reader of [first, ...joined]) {
      await reader.ended;
      expect(reader.end).toBe("finished");
      expect(reader.events).toEqual(first.events);
      expect(reader.answer!.answer).toMatchObject({ kind: "stream", headers: { "x-a": "é" } });
    }
    expect(first.events.map((one) => one.replace(/^id: .*\n/, ""))).toEqual([
      ...Array.from({ length: 102 }, (_, at) => event(at)),
      "[DONE]",
    ]);
  }, 60_000);

  /** Starts a stream on the first node. */
  async function started(opened: Awaited<ReturnType<typeof house>>, id: string) {
    const [one] = opened.nodes;
    const first = one.ask(id);
    await one.upstream.called(1);
    return { first, call: one.upstream.last.stream() };
  }

  test("a reader resumes on another node after any event, also one that has been spilled to the database", async () => {
    await using opened = await house();
    const [, two] = opened.nodes;
    const { first, call } = await started(opened, "r");
    const long = "x".repeat(1_000);
    for (let at = 0; at < 150; at += 1) call.push(event(at, long));
    await first.has(150);
    expect(await opened.rows()).toBeGreaterThan(0);
    const from = [0, 1, 60, 66, 120, 148, 149];
    const readers = from.map((number) => two.ask("r", { lastEventId: first.idOf(number) }));
    await readers[0]!.has(149);
    call.push(event(150), event(151));
    await first.has(152);
    for (const [at, reader] of readers.entries()) await reader.has(151 - from[at]!);
    // What is in the database anyway is read there, and the rest live.
    const late = two.ask("r");
    await late.has(152);
    expect(two.idempotency.live!.counts.fellBack).toBe(0);
    call.push("[DONE]").end("finished");
    await first.ended;
    await late.ended;
    expect(late.events).toEqual(first.events);
    for (const [at, reader] of readers.entries()) {
      await reader.ended;
      expect(reader.end).toBe("finished");
      expect(reader.events).toEqual(first.events.slice(from[at]! + 1));
    }
  }, 60_000);

  test("a stream that is long, with an event that is, keeps within its bounds on the server", async () => {
    await using opened = await house();
    const [, two] = opened.nodes;
    const { first, call } = await started(opened, "l");
    call.push(event(0));
    const joined = two.ask("l");
    await joined.has(1);
    const long = "x".repeat(2_000);
    let most = 0;
    for (let at = 1; at < 400; at += 1) {
      call.push(event(at, at === 200 ? "y".repeat(100_000) : long));
      await joined.has(at + 1);
      if (at % 20 === 0)
        most = Math.max(most, Number(await raw.send("MEMORY", ["USAGE", (await streams())[0]!, "SAMPLES", "0"])));
    }
    expect(most).toBeWithin(200_000, 700_000);
    call.push("[DONE]").end("finished");
    await Promise.all([first.ended, joined.ended]);
    expect(joined.end).toBe("finished");
    expect(joined.events).toEqual(first.events);
  }, 60_000);

  test("a reader that is slow gets what has gone by from the server of the streams", async () => {
    await using opened = await house();
    const [, two] = opened.nodes;
    const { first, call } = await started(opened, "slow");
    const claim = { scope: "s", requestId: "slow", fingerprint: "f" };
    const { signal } = new AbortController();
    call.push(event(0));
    const joined = two.ask("slow");
    await joined.has(1);
    const { answer } = await two.idempotency.run(claim, signal, two.upstream.produce);
    if (answer.kind !== "stream") throw new Error("no stream");
    // More than a node keeps for its readers, and less than a call spills to the database.
    for (let at = 1; at < 40; at += 1) {
      call.push(event(at, "x".repeat(1_500)));
      await joined.has(at + 1);
    }
    const events: string[] = [];
    while (events.length < 40) events.push(...((await answer.events.next()).value as readonly string[]));
    expect(events).toEqual(first.events);
    expect(await opened.rows()).toBe(0);
    call.push("[DONE]").end("finished");
    await Promise.all([first.ended, joined.ended]);
    for (let next = await answer.events.next(); next.done !== true; next = await answer.events.next()) {
      events.push(...next.value);
    }
    expect(events).toEqual(first.events);
  }, 60_000);

  test("who waits for a whole answer is told as soon as it is stored", async () => {
    await using opened = await house();
    const [one, two] = opened.nodes;
    const first = one.ask("w");
    await one.upstream.called(1);
    const joined = two.ask("w");
    while ((await streams()).length === 0) await Bun.sleep(5);
    one.upstream.last.whole("answer");
    await first.ended;
    await joined.ended;
    expect(joined.answer).toMatchObject({ joined: true, answer: { kind: "whole", status: 200 } });
    expect(Buffer.from((joined.answer!.answer as { body: Uint8Array }).body).toString()).toBe("answer");
  }, 60_000);

  test.each([
    ["whose holder has no coordination", [0]],
    ["by a node that has none", [1]],
  ])(
    "a call %s is read from the database",
    async (_, without) => {
      await using opened = await house(without);
      const [, two, three] = opened.nodes;
      const { first, call } = await started(opened, "m");
      call.push(event(0));
      const joined = [two.ask("m"), three.ask("m")];
      for (const reader of joined) await reader.has(1);
      call.push(event(1));
      for (const reader of joined) await reader.has(2);
      expect(await opened.rows()).toBeGreaterThan(0);
      call.push("[DONE]").end("finished");
      for (const reader of [first, ...joined]) {
        await reader.ended;
        expect(reader.events).toEqual(first.events);
      }
    },
    30_000,
  );

  type Opened = Awaited<ReturnType<typeof house>>;
  type Fault = {
    readonly what: string;
    readonly begin: (opened: Opened) => unknown;
    readonly end?: (opened: Opened) => unknown;
    /** Default: the one of all tests. */
    readonly server?: RedisServer;
  };

  /** Three readers on two nodes while the fault begins, lasts and ends, and one that comes late. */
  async function holds({ what, begin, end, server }: Fault): Promise<void> {
    await using opened = await house([], server);
    const [, two, three] = opened.nodes;
    const { first, call } = await started(opened, "f");
    call.push(event(0));
    const joined = [two.ask("f"), three.ask("f"), two.ask("f")];
    for (const reader of joined) await reader.has(1);
    let sent = 1;
    const step = async () => {
      call.push(event(sent), event(sent + 1));
      sent += 2;
      const startedAt = performance.now();
      for (const reader of joined) await reader.has(sent);
      return performance.now() - startedAt;
    };
    const took = [await step()];
    await begin(opened);
    took.push(await step(), await step());
    await end?.(opened);
    took.push(await step());
    joined.push(three.ask("f", { lastEventId: first.idOf(2) }));
    call.push("[DONE]").end("finished");
    for (const reader of [first, ...joined]) await reader.ended;
    for (const [at, { events }] of joined.entries()) {
      expect({ what, at, events }).toEqual({ what, at, events: first.events.slice(at < 3 ? 0 : 3) });
    }
    expect(first.events).toHaveLength(sent + 1);
    // A silent way is found after 1.5 s, and the record is looked at each second; a busy machine takes some times longer.
    expect({ what, soon: Math.max(...took) < 25_000 }).toEqual({ what, soon: true });
    expect(opened.nodes.map(({ idempotency }) => idempotency.joined)).toEqual(Array(3).fill({ live: 0, stored: 0 }));
  }

  test("cut, silent and held ways of the holder and of a reader: every event comes once, in order, and soon", async () => {
    const ways = [0, 1].flatMap((at): Fault[] => [
      { what: `cut ${at}`, begin: ({ nodes }) => nodes[at]!.server!.cut() },
      { what: `silent ${at}`, begin: ({ nodes }) => nodes[at]!.server!.orphan() },
      {
        what: `held ${at}`,
        begin: ({ nodes }) => nodes[at]!.server!.hold(),
        end: ({ nodes }) => nodes[at]!.server!.release(),
      },
    ]);
    await Promise.all(ways.map(holds));
  }, 60_000);

  test("a server that forgets, is full, evicts, stands still or starts anew: every event comes once, in order, and soon", async () => {
    await using stack = new AsyncDisposableStack();
    const on = async (what: string, begin: (own: Own) => unknown, end?: (own: Own) => unknown): Promise<Fault> => {
      const server = stack.use(await RedisServer.start());
      const client = new RedisClient(server.url());
      stack.defer(() => client.close());
      const own = { server, send: (...command: string[]) => client.send(command[0]!, command.slice(1)) };
      return { what, server, begin: () => begin(own), end: () => end?.(own) };
    };
    const restart = async ({ server }: Own) => {
      await server.stop();
      await server.run();
    };
    const faults = await Promise.all([
      on("forgets", ({ send }) => send("FLUSHALL")),
      on(
        "is full",
        ({ send }) => send("CONFIG", "SET", "maxmemory", "1"),
        ({ send }) => send("CONFIG", "SET", "maxmemory", "0"),
      ),
      on("evicts", async ({ send }) => send("DEL", ...((await send("KEYS", "troupe:{live}:run:*")) as string[]))),
      on(
        "stands still",
        ({ server }) => server.signal("SIGSTOP"),
        ({ server }) => server.signal("SIGCONT"),
      ),
      on("starts anew", restart),
    ]);
    await Promise.all(faults.map(holds));
  }, 60_000);
});

type Own = { readonly server: RedisServer; readonly send: (...command: string[]) => Promise<unknown> };
