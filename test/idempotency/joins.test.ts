/** Joins and resumes on other nodes, with a real database: what readers get, and what a database that is away for a while does to them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { JoiningNode } from "../helpers/joining-node.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";

const event = (number: number, more = "") => `data: ${number}${more}\n\n`;

describe.skipIf(!hasPostgres)("joins of calls on other nodes", () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres[Symbol.asyncDispose]());

  /** Three nodes on one database, and a stream that the first one makes. */
  async function started(id: string, terms?: Parameters<typeof JoiningNode.open>[2]) {
    const url = await postgres.createDatabase();
    const stack = new AsyncDisposableStack();
    const open = async () => stack.use(await JoiningNode.open(postgres, url, terms));
    const nodes = [await open(), await open(), await open()] as const;
    const rows = async () =>
      Number((await postgres.ask<{ n: number }>(url, "select count(*)::int as n from troupe.kept_events"))[0]!.n);
    const [one] = nodes;
    const first = one.ask(id);
    await one.upstream.called(1);
    const call = one.upstream.last.stream({ "x-a": "é" });
    return { nodes, rows, first, call, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  }

  test("two nodes read a third one's call: every event once, in order, with its headers and its end", async () => {
    await using opened = await started("a");
    const { first, call } = opened;
    const [, two, three] = opened.nodes;
    call.push(event(0), event(1));
    await first.has(2);
    const joined = [two.ask("a"), three.ask("a"), three.ask("a")];
    for (const reader of joined) await reader.has(2);
    expect([two.idempotency.joined, three.idempotency.joined]).toEqual([1, 2]);
    for (let at = 2; at < 12; at += 1) {
      call.push(event(at));
      for (const reader of joined) await reader.has(at + 1);
    }
    expect(await opened.rows()).toBeGreaterThan(0);
    call.push("[DONE]").end("finished");
    for (const reader of [first, ...joined]) {
      await reader.ended;
      expect(reader.end).toBe("finished");
      expect(reader.events).toEqual(first.events);
      expect(reader.answer!.answer).toMatchObject({ kind: "stream", headers: { "x-a": "é" } });
    }
    expect(first.events.map((one) => one.replace(/^id: .*\n/, ""))).toEqual([
      ...Array.from({ length: 12 }, (_, at) => event(at)),
      "[DONE]",
    ]);
    expect(opened.nodes.map(({ idempotency }) => idempotency.joined)).toEqual([0, 0, 0]);
  });

  test("a reader resumes on another node after any event, also one that has been spilled", async () => {
    await using opened = await started("r");
    const { first, call } = opened;
    const [, two] = opened.nodes;
    const long = "x".repeat(1_000);
    for (let at = 0; at < 150; at += 1) call.push(event(at, long));
    await first.has(150);
    const from = [0, 1, 60, 66, 120, 148, 149];
    const readers = from.map((number) => two.ask("r", { lastEventId: first.idOf(number) }));
    await readers[0]!.has(149);
    call.push(event(150), event(151));
    for (const [at, reader] of readers.entries()) await reader.has(151 - from[at]!);
    const late = two.ask("r");
    await late.has(152);
    call.push("[DONE]").end("finished");
    await first.ended;
    await late.ended;
    expect(late.events).toEqual(first.events);
    for (const [at, reader] of readers.entries()) {
      await reader.ended;
      expect(reader.end).toBe("finished");
      expect(reader.events).toEqual(first.events.slice(from[at]! + 1));
    }
  });

  test("a reader that leaves while it waits is gone, and the call goes on", async () => {
    await using opened = await started("l");
    const { first, call } = opened;
    const [, two] = opened.nodes;
    call.push(event(0));
    const joined = two.ask("l");
    await joined.has(1);
    joined.leave();
    await joined.ended;
    expect(two.idempotency.joined).toBe(0);
    call.push("[DONE]").end("finished");
    await first.ended;
    expect(first.end).toBe("finished");
  });

  test("who waits for a whole answer gets it once it is stored", async () => {
    const url = await postgres.createDatabase();
    await using one = await JoiningNode.open(postgres, url);
    await using two = await JoiningNode.open(postgres, url);
    const first = one.ask("w");
    await one.upstream.called(1);
    const joined = two.ask("w");
    while (two.idempotency.joined === 0) await Bun.sleep(5);
    one.upstream.last.whole("answer");
    await first.ended;
    await joined.ended;
    expect(joined.answer).toMatchObject({ joined: true, answer: { kind: "whole", status: 200 } });
    expect(Buffer.from((joined.answer!.answer as { body: Uint8Array }).body).toString()).toBe("answer");
  });

  test.each(["silent", "cut"])(
    "readers wait for a database that is %s for longer than a statement may take: none is cut",
    async (what) => {
      // Nobody else may take the call over while this lasts.
      await using opened = await started("p", { statementSeconds: 1, leaseSeconds: 600 });
      const { first, call } = opened;
      const [, two] = opened.nodes;
      call.push(event(0));
      const joined = Array.from({ length: 16 }, () => two.ask("p"));
      for (const reader of joined) await reader.has(1);
      const before = two.store.database!().failed;
      if (what === "silent") two.database.hold();
      else two.database.target = 1;
      if (what === "cut") two.database.cut();
      call.push(event(1));
      while (two.store.database!().failed < before + 3) await Bun.sleep(20);
      if (what === "silent") two.database.release();
      else two.database.target = postgres.port;
      for (const reader of joined) await reader.has(2);
      call.push("[DONE]").end("finished");
      for (const reader of [first, ...joined]) {
        await reader.ended;
        expect({ error: reader.error, end: reader.end }).toEqual({ error: undefined, end: "finished" });
        expect(reader.events).toEqual(first.events);
      }
    },
  );

  test("a reader whose database stays away for longer than the lease gets an error", async () => {
    await using opened = await started("e", { statementSeconds: 1, leaseSeconds: 3 });
    const { first, call } = opened;
    const [, two] = opened.nodes;
    call.push(event(0));
    const joined = two.ask("e");
    await joined.has(1);
    two.database.target = 1;
    two.database.cut();
    await joined.ended;
    expect(joined.error).toMatchObject({ code: "storage_unavailable", status: 503 });
    expect(joined.events).toEqual(first.events.slice(0, 1));
    two.database.target = postgres.port;
    call.push("[DONE]").end("finished");
    await first.ended;
    expect(first.end).toBe("finished");
  });
});
