/**
 * Streams that are joined and resumed on other nodes while servers, ways and nodes fail, on a model of time, the database and the
 * server of the streams: each reader gets every event once and in order, of one call. A failure prints its seed:
 * LIVE_SEED=… bun test …, and LIVE_SEEDS=20 tries twenty times as many.
 */
import { describe, expect, spyOn, test } from "bun:test";
import { Idempotency } from "../../src/idempotency/idempotency.ts";
import { LiveRuns } from "../../src/idempotency/live-runs.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import type { LiveStreams } from "../../src/store/live-streams.ts";
import type { Producer } from "../../src/upstream/answer.ts";
import { ModelledRuns, modelLeaseMs } from "../helpers/modelled-runs.ts";
import { ModelledStreams } from "../helpers/modelled-streams.ts";
import { keptEvent, ScriptedUpstream } from "../helpers/scripted-upstream.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { Machine } from "../simulation/machine.ts";
import { calm, Network, type Weather } from "../simulation/network.ts";
import { streamClient } from "../simulation/stream-client.ts";
import { World } from "../simulation/world.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1_000_000 };
const weather: Weather = { lostRequest: 10, lostAnswer: 10, silence: 10, late: 10, repeated: 20, slow: 20 };

const operations = ["listen", "ask", "begin", "append", "end", "read", "wait"];
const again = ["again 0", "again 1", "[DONE]"];

/** What happened in one world. */
class Story {
  readonly world: World;
  readonly network: Network;
  readonly server: ModelledStreams;
  readonly runs: ModelledRuns;
  readonly upstream = new ScriptedUpstream();
  readonly machines: Machine[] = [];
  readonly nodes: Idempotency[] = [];
  readonly readers: Reader[] = [];
  /** Of the first call: what the upstream sent, and when. */
  readonly sent: string[] = [];
  readonly sentAt: number[] = [];

  constructor(seed: number, size: number, conditions: Weather) {
    this.world = new World(seed);
    this.network = new Network(this.world, "coordination", conditions);
    this.server = new ModelledStreams(() => this.world.now);
    this.runs = new ModelledRuns(this.world);
    for (let at = 0; at < size; at += 1) {
      const machine = new Machine(this.world, at);
      this.machines.push(machine);
      const runs = this.runs.of(machine);
      this.nodes.push(
        new Idempotency(
          { runs },
          machine,
          () => rules,
          undefined,
          streamClient(this.world, this.network, this.server, machine),
        ),
      );
    }
  }

  /** Calls after the first one answer at once. */
  readonly produce: Producer = (signal) => {
    const answer = this.upstream.produce(signal);
    if (this.upstream.calls.length > 1) {
      const call = this.upstream.last.stream({ "x-a": "b" });
      for (const text of again.slice(0, -1)) call.push(text);
      call.push("[DONE]").end("finished");
    }
    return answer;
  };

  read(node: number, after?: string): Reader {
    const reader = new Reader(this, node, after);
    this.readers.push(reader);
    return reader;
  }
}

class Reader {
  readonly node: number;
  readonly after: string | undefined;
  readonly events: string[] = [];
  readonly times: number[] = [];
  readonly joinedAt: number;
  prefix: string | undefined;
  first: number | undefined;
  end: string | undefined;
  readonly #leaving = new AbortController();

  constructor(story: Story, node: number, after: string | undefined) {
    this.node = node;
    this.after = after;
    this.joinedAt = story.world.now;
    const machine = story.machines[node]!;
    machine.deliver(() => {
      this.#read(story).catch((error) => {
        this.end = error instanceof ApiError ? error.code : String(error);
      });
    });
  }

  leave(): void {
    this.#leaving.abort();
  }

  async #read({ nodes, produce, world }: Story): Promise<void> {
    const claim = { scope: "s", requestId: "id", fingerprint: "f" };
    const options = this.after === undefined ? {} : { lastEventId: this.after };
    const { answer } = await nodes[this.node]!.run(claim, this.#leaving.signal, produce, options);
    if (answer.kind !== "stream") throw new Error("no stream");
    for (;;) {
      const { value, done } = await answer.events.next();
      if (done === true) {
        this.end = value;
        return;
      }
      for (const event of value) {
        const { prefix, number, text } = keptEvent(event);
        this.first ??= number;
        this.prefix ??= prefix;
        // Gaps, repeated events and those of another call are seen here.
        const isNext = prefix === this.prefix && number === this.first + this.events.length;
        if (!isNext)
          throw new Error(`event ${prefix}${number} after ${this.events.length} of ${this.prefix}${this.first}`);
        this.events.push(text);
        this.times.push(world.now);
      }
    }
  }
}

/** @returns the story, after its end */
async function tell(seed: number, conditions: Weather, faults: (story: Story) => void): Promise<Story> {
  const story = new Story(seed, 3, conditions);
  const { world, upstream } = story;
  const first = story.read(0);
  await world.runUntil(50);
  const call = upstream.last.stream({ "x-a": "b" });
  let at = 50;
  const total = 20 + world.random.below(100);
  for (let number = 0; number < total; number += 1) {
    at += world.chance(100) ? world.between(500, 6_000) : world.between(0, 200);
    world.after(at - world.now, () => {
      const text = `data: ${number}\n\n`;
      story.machines[0]!.deliver(() => {
        story.sent.push(text);
        story.sentAt.push(world.now);
        call.push(text);
      });
    });
  }
  for (let reader = 0; reader < 4; reader += 1) {
    world.after(world.between(60, at), () => {
      const known = first.events.length;
      const isResumed = known > 0 && world.chance(500);
      story.read(1 + world.random.below(2), isResumed ? `${first.prefix}${world.random.below(known)}` : undefined);
    });
  }
  faults(story);
  world.after(at, () => story.machines[0]!.deliver(() => call.push("[DONE]").end("finished")));
  await world.runUntil(at + 1);
  story.network.isCalm = true;
  await world.runUntil(at + 30_000);
  return story;
}

const given = process.env["LIVE_SEED"];
const many = Number(process.env["LIVE_SEEDS"] ?? 1);
const seeds = (count: number) =>
  given === undefined ? Array.from({ length: many * count }, (_, at) => at + 1) : [Number(given)];
const limitMs = 60_000 * many;

/** Every reader has the whole rest of the stream. */
function assertWhole({ readers, sent, world: { seed } }: Story): void {
  const all = [...sent, "[DONE]"];
  expect(sent.length).toBeGreaterThan(19);
  for (const { end, first, events, after, node } of readers) {
    const from = after === undefined ? 0 : Number(after.split("-")[1]) + 1;
    expect({ seed, node, end, first, events }).toEqual({
      seed,
      node,
      end: "finished",
      first: from,
      events: all.slice(from),
    });
  }
}

/** How late the latest event came to a reader who had joined before, in milliseconds. */
function latest({ readers, sentAt }: Story): number {
  return Math.max(
    0,
    ...readers.flatMap(({ times, first, joinedAt }) =>
      times.map((at, place) => {
        const sent = sentAt[first! + place];
        return sent === undefined || sent < joinedAt ? 0 : at - sent;
      }),
    ),
  );
}

describe("live streams on a model", () => {
  test(
    "where all is well events come at once, and none is written to the database",
    async () => {
      for (const seed of seeds(10)) {
        const story = await tell(seed, calm, () => {});
        assertWhole(story);
        expect({ seed, appended: story.runs.appended }).toEqual({ seed, appended: 0 });
        expect(latest(story)).toBeLessThan(50);
      }
    },
    limitMs,
  );

  test(
    "a server of streams that loses, repeats, forgets and falls silent costs no event",
    async () => {
      let written = 0;
      const late: number[] = [];
      for (const seed of seeds(60)) {
        const story = await tell(seed, weather, ({ world, server, network, machines }) => {
          for (let count = world.random.below(8); count > 0; count -= 1) {
            world.after(world.between(0, 20_000), () => {
              const machine = world.random.pick(machines);
              world.random.pick([
                () => server.flush(),
                () => server.evict((names) => world.random.pick(names)),
                () => network.restart(world.between(10, 5_000)),
                () => network.fallSilent(world.between(10, 5_000)),
                () => machine.cutOff(["coordination"], world.between(10, 10_000)),
                () => machine.standStill(world.between(10, modelLeaseMs / 3)),
                () => machine.slowDown(world.between(10, 5_000)),
              ])();
            });
          }
        });
        assertWhole(story);
        late.push(latest(story));
        written += story.runs.appended;
      }
      // A silent way is found after 1.5 s, and the record is looked at each second.
      expect(Math.max(...late)).toBeLessThan(8_000);
      if (given === undefined) expect(written).toBeGreaterThan(50);
    },
    limitMs,
  );

  /** A call of the first node that has one event, and a reader at each of those nodes. */
  async function begun(...nodes: number[]) {
    const story = new Story(1, 3, calm);
    const { world, upstream } = story;
    story.read(0);
    await world.runUntil(100);
    const call = upstream.last.stream();
    call.push("0");
    const readers = nodes.map((node) => story.read(node));
    await world.runUntil(1_000);
    return { story, world, call, readers };
  }

  test("a server that refuses from the start, as for a user without rights, is told of once", async () => {
    const told: string[] = [];
    const log = { ...silentLogger, warn: (what: string) => void told.push(what) };
    const world = new World(1);
    const refuses = () => Promise.reject(new Error("NOPERM"));
    const streams = { place: "model", ...Object.fromEntries(operations.map((name) => [name, refuses])) };
    const runs = new LiveRuns({
      streams: { ...(streams as unknown as LiveStreams), close: async () => {} },
      clock: new Machine(world, 0),
      log,
      onAsked: () => {},
    });
    runs.start();
    await world.runUntil(10_000);
    expect(told).toEqual(["streams of other nodes are read from the database until the coordination is back"]);
    expect([runs.isConnected, runs.counts.lost]).toEqual([false, 0]);
    await runs.close();
  });

  test("seconds after a server has forgotten everything, calls are joined live again", async () => {
    const { story, world, call } = await begun();
    story.server.flush();
    await world.runUntil(6_000);
    const reader = story.read(1);
    await world.runUntil(7_000);
    call.push("1");
    await world.runUntil(7_010);
    expect(reader.events).toEqual(["0", "1"]);
    expect(story.runs.appended).toBe(0);
  });

  test("an event that is too long for a stream is read from the store at once, though nothing comes after it", async () => {
    const { story, world, call, readers } = await begun(1, 2);
    // In this thread: the time of the model does not wait for others.
    using _packing = spyOn(Bun, "zstdCompress").mockImplementation(async (...given) => Bun.zstdCompressSync(...given));
    const long = "x".repeat(70_000);
    call.push(long);
    await world.runUntil(1_100);
    for (const { events } of readers) expect(events.map(({ length }) => length)).toEqual([1, 70_000]);
    expect(story.runs.appended).toBe(1);
    // What comes next comes live.
    call.push("2");
    await world.runUntil(1_150);
    for (const { events } of readers) expect(events.at(-1)).toBe("2");
    expect(story.runs.appended).toBe(1);
  });

  test("what a server forgets before it is read is published again, though nothing new comes", async () => {
    const { story, world } = await begun(1);
    story.server.evict(([name]) => name!);
    expect(story.server.size).toBe(0);
    await world.runUntil(8_000);
    expect(story.server.size).toBe(1);
    expect(story.runs.appended).toBe(0);
  });

  test("nothing is published that nobody reads any more", async () => {
    const { story, world, call, readers } = await begun(1);
    readers[0]!.leave();
    await world.runUntil(40_000);
    call.push("1");
    await world.runUntil(41_000);
    expect(story.server.size).toBe(0);
  });

  test(
    "a holder that dies, is paused or is cut off ends its readers in time, and a retry gets one whole answer",
    async () => {
      let interrupted = 0;
      for (const seed of seeds(60)) {
        const story = await tell(seed, weather, ({ world, machines, server }) => {
          const [holder, ...others] = machines;
          for (let count = 1 + world.random.below(2); count > 0; count -= 1) {
            world.after(world.between(100, 5_000), () => {
              world.random.pick([
                () => holder!.die(),
                () => holder!.standStill(world.between(10, 3 * modelLeaseMs)),
                () => holder!.cutOff(["database"], world.between(10, 3 * modelLeaseMs)),
                () => holder!.cutOff(["database", "coordination"], world.between(10, 3 * modelLeaseMs)),
                () => world.random.pick(others).cutOff(["database"], world.between(10, 2 * modelLeaseMs)),
                () => server.flush(),
              ])();
            });
          }
        });
        const { readers, sent, machines, world } = story;
        const all = [...sent, "[DONE]"];
        for (const { node, end, first = 0, events } of readers) {
          if (machines[node]!.isDead) continue;
          const isEnd = ["finished", "upstream_unavailable", "storage_unavailable"].includes(end!);
          expect({ seed, node, end, isEnd }).toMatchObject({ isEnd: true });
          const of = events[0]?.startsWith("again") ? again : all;
          const told = end === "finished" ? of.slice(first) : of.slice(first, first + events.length);
          expect({ seed, node, events }).toEqual({ seed, node, events: told });
          if (end !== "finished") interrupted += 1;
        }
        const [one, two] = [story.read(1), story.read(2)];
        await world.runUntil(world.now + 10_000);
        expect({ seed, end: one.end, events: one.events }).toEqual({ seed, end: "finished", events: two.events });
        expect([all, again]).toContainEqual(one.events);
      }
      expect(interrupted).toBeGreaterThan(20);
    },
    limitMs,
  );
});
