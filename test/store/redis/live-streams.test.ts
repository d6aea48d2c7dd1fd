/** Live streams on a real server: what `src/store/live-streams.ts` promises, also where the server forgets, is paused or is full. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { RedisClient } from "bun";
import { systemClock } from "../../../src/lib/clock.ts";
import { endPart, type LiveEntry, type LiveStreams, liveTimes } from "../../../src/store/live-streams.ts";
import { openRedisStreams } from "../../../src/store/redis/live-streams.ts";
import { hasRedis, RedisServer } from "../../helpers/redis.ts";
import { SwitchedProxy } from "../../helpers/switched-proxy.ts";

const head = { kind: "head", place: [0, 1], headers: '{"a":"b"}' } as const;
const events = (firstId: number, count: number, text: string): LiveEntry => ({
  kind: "events",
  place: [firstId + count, 0],
  firstId,
  text,
});

describe.skipIf(!hasRedis)("live streams in Valkey or Redis", () => {
  let server: RedisServer;
  let streams: LiveStreams;
  let raw: RedisClient;
  beforeAll(async () => {
    server = await RedisServer.start();
    streams = openRedisStreams(server.url(), systemClock);
    raw = new RedisClient(server.url());
  });
  beforeEach(() => raw.send("FLUSHALL", []));
  afterAll(async () => {
    await streams.close();
    raw.close();
    await server[Symbol.asyncDispose]();
  });

  const all = (stream: string) => streams.read(stream, [0, 0]);
  const add = (firstId: number, text: string, floor = 0, count = 1) =>
    streams.append("s", { firstId, count, text }, floor);

  test("a stream takes the event that is next, and says which one that is", async () => {
    expect(await add(0, "a")).toBeUndefined();
    await streams.begin("s", 1, head.headers);
    expect(await add(0, "é\u001e\r\n", 0, 2)).toBe(2);
    expect([await add(0, "again", 0, 2), await add(1, "b"), await add(3, "d")]).toEqual([2, 2, 2]);
    expect(await add(2, "c")).toBe(3);
    expect(await streams.append("s", { firstId: 3, count: 0, text: "" }, 0)).toBe(3);
    expect(await all("s")).toEqual([head, events(0, 2, "é\u001e\r\n"), events(2, 1, "c")]);
    expect(await streams.read("s", [2, 0])).toEqual([events(2, 1, "c")]);
    expect(await streams.read("s", [1, 0])).toEqual([events(0, 2, "é\u001e\r\n"), events(2, 1, "c")]);
  });

  test("events that the store has may be left out", async () => {
    await streams.begin("s", 1, undefined);
    expect([await add(0, "a"), await add(1, "b", 5), await add(5, "f", 5)]).toEqual([1, 5, 6]);
    expect((await all("s")).map(({ place }) => place)).toEqual([
      [0, 1],
      [1, 0],
      [6, 0],
    ]);
  });

  test("readers are told of events that only the store has, once", async () => {
    await streams.begin("s", 1, head.headers);
    await add(0, "a");
    const tell = (floor: number) => streams.append("s", { firstId: 1, count: 0, text: "" }, floor);
    expect([await tell(1), await tell(3), await tell(3), await tell(2)]).toEqual([1, 3, 3, 3]);
    expect(await add(3, "d", 3)).toBe(4);
    const place = { kind: "head", place: [3, 0], headers: undefined } as const;
    expect(await all("s")).toEqual([head, events(0, 1, "a"), place, events(3, 1, "d")]);
  });

  test("a generation begins once, and without what an earlier one held", async () => {
    await streams.begin("s", 1, undefined);
    await add(0, "a");
    await streams.begin("s", 1, "{}");
    expect(await all("s")).toHaveLength(2);
    await streams.begin("s", 2, head.headers);
    await streams.begin("s", 1, "{}");
    expect(await all("s")).toEqual([{ ...head, place: [0, 2] }]);
    expect(await add(3, "d", 3)).toBe(4);
    await streams.begin("s", 2, head.headers);
    expect(await all("s")).toHaveLength(2);
  });

  test("a stream ends once, with all of the answer's events or so that the store is looked at", async () => {
    await streams.begin("s", 1, head.headers);
    await add(0, "a");
    await streams.end("s", 1);
    await streams.end("s", undefined);
    expect(await add(1, "b")).toBe(2);
    expect((await all("s")).slice(1)).toEqual([events(0, 1, "a"), { kind: "finished", place: [1, endPart] }]);
    await streams.begin("t", 1, undefined);
    await streams.end("t", undefined);
    expect((await all("t")).slice(1)).toEqual([{ kind: "look", place: [0, endPart] }]);
    await streams.end("nothing", 1);
    expect(await all("nothing")).toEqual([]);
  });

  test("a node is asked under the name that it holds calls by, and wakes with what it waits for", async () => {
    expect(await streams.ask("s", "owner")).toBeUndefined();
    await streams.listen("one", "owner");
    const first = await streams.wait("one", "", new Map());
    expect(first).toMatchObject({ messages: 1, asked: [] });
    const waiting = streams.wait("one", first.inbox, new Map([["s", [0, 0]]]));
    expect(await streams.ask("s", "owner", "two")).toEqual({});
    const second = await waiting;
    expect(second.asked).toEqual(["s"]);
    // Who asks is woken.
    expect(await streams.wait("two", "", new Map())).toMatchObject({ messages: 1, asked: [] });
    await streams.begin("s", 1, head.headers);
    expect(await streams.ask("s", "owner")).toEqual({ head });
    const third = await streams.wait("one", second.inbox, new Map([["s", [0, 0]]]));
    expect(third.asked).toEqual(["s"]);
    expect(third.entries).toEqual(new Map([["s", [head]]]));
    const live = streams.wait("one", third.inbox, new Map([["s", [0, 1]]]));
    await add(0, "a");
    expect((await live).entries).toEqual(new Map([["s", [events(0, 1, "a")]]]));
    const ended = streams.wait("one", third.inbox, new Map([["s", [1, 0]]]));
    await streams.end("s", 1);
    expect((await ended).entries).toEqual(new Map([["s", [{ kind: "finished", place: [1, endPart] }]]]));
  });

  test("a reader that waits goes on when the stream begins anew", async () => {
    await streams.begin("s", 1, head.headers);
    await add(0, "a", 0, 3);
    const waiting = streams.wait("one", "", new Map([["s", [3, 0]]]));
    await streams.begin("s", 2, head.headers);
    expect(await add(2, "c", 2)).toBe(3);
    expect(await add(3, "d", 2)).toBe(4);
    expect((await waiting).entries.get("s")).toEqual([events(3, 1, "d")]);
  });

  test("without news it says so in time", async () => {
    expect(await streams.wait("one", "", new Map())).toEqual({ inbox: "", messages: 0, asked: [], entries: new Map() });
  });

  test("every key goes by itself", async () => {
    await streams.listen("one", "owner");
    await streams.begin("s", 1, head.headers);
    await streams.ask("s", "owner", "two");
    await add(0, "a");
    const keys = (await raw.send("KEYS", ["*"])) as string[];
    expect(keys.toSorted()).toEqual(
      ["at:owner", "inbox:one", "inbox:two", "run:s"].map((name) => `troupe:{live}:${name}`),
    );
    for (const key of keys) expect(await raw.send("PTTL", [key])).toBeWithin(1, liveTimes.keptMs + 1);
    await streams.end("s", 1);
    expect(await raw.send("PTTL", ["troupe:{live}:run:s"])).toBeWithin(1, liveTimes.endedMs + 1);
  });

  test("an inbox that nobody reads stays small", async () => {
    await streams.listen("one", "owner");
    for (let at = 0; at < 120; at += 1) {
      await Promise.all(Array.from({ length: 100 }, (_, more) => streams.ask(`s${100 * at + more}`, "owner")));
    }
    expect(Number(await raw.send("XLEN", ["troupe:{live}:inbox:one"]))).toBeLessThan(10_200);
  });

  test("a server that is full takes no events, and those that it has stay", async () => {
    await streams.begin("s", 1, head.headers);
    await add(0, "a");
    await raw.send("CONFIG", ["SET", "maxmemory", "1"]);
    try {
      await expect(add(1, "b")).rejects.toThrow(/OOM/);
    } finally {
      await raw.send("CONFIG", ["SET", "maxmemory", "0"]);
    }
    expect(await add(1, "b")).toBe(2);
  });

  test("no stream begins where half of the server's memory is used", async () => {
    const used = Number(/used_memory:(\d+)/.exec(String(await raw.send("INFO", ["memory"])))![1]);
    await raw.send("CONFIG", ["SET", "maxmemory", String(Math.round(used * 1.5))]);
    try {
      await expect(streams.begin("s", 1, head.headers)).rejects.toThrow(/^FULL/);
      await raw.send("CONFIG", ["SET", "maxmemory", String(used * 4)]);
      await streams.begin("s", 1, head.headers);
    } finally {
      await raw.send("CONFIG", ["SET", "maxmemory", "0"]);
    }
    expect(await all("s")).toEqual([head]);
  });

  test("a user who may do what is needed, with keys of this prefix alone, is enough", async () => {
    const commands = "eval evalsha info get set del pexpire xadd xread xrange xrevrange".split(" ");
    const rights = ["~troupe:*", ...commands.map((command) => `+${command}`)];
    await raw.send("ACL", ["SETUSER", "node", "reset", "on", ">secret", ...rights]);
    const own = openRedisStreams(server.url().replace("//", "//node:secret@"), systemClock);
    await own.listen("one", "owner");
    expect(await own.ask("s", "owner", "two")).toEqual({});
    await own.begin("s", 1, head.headers);
    expect(await own.append("s", { firstId: 0, count: 1, text: "a" }, 0)).toBe(1);
    await own.end("s", 1);
    expect(await own.read("s", [0, 1])).toHaveLength(2);
    expect((await own.wait("one", "", new Map())).asked).toEqual(["s"]);
    await own.close();
  });

  test("a silent way is given up in time, both for what is answered at once and for what waits", async () => {
    using proxy = new SwitchedProxy(server.port);
    const far = openRedisStreams(server.url(0, proxy.port), systemClock);
    await far.begin("s", 1, head.headers);
    const inbox = (await far.wait("one", "", new Map([["s", [0, 0]]]))).inbox;
    proxy.orphan();
    const waiting = far.wait("one", inbox, new Map([["s", [0, 1]]]));
    await expect(far.append("s", { firstId: 0, count: 1, text: "a" }, 0)).rejects.toThrow(/no answer within/);
    await expect(waiting).rejects.toThrow(/no answer within/);
    expect(await far.append("s", { firstId: 0, count: 1, text: "a" }, 0)).toBe(1);
    expect((await far.wait("one", inbox, new Map([["s", [0, 1]]]))).entries.get("s")).toEqual([events(0, 1, "a")]);
    await far.close();
  });
});
