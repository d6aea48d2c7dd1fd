import { beforeEach, expect, test } from "bun:test";
import packaged from "gpt-tokenizer/bpeRanks/o200k_base";
import { packagedFile } from "../../../src/lib/files/packaged-file.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { tokenRanks } from "../../../src/usage/tokens/token-ranks.ts";
import { type ThreadEvents, Tokenizer } from "../../../src/usage/tokens/tokenizer.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";

/** Threads that answer when the test says so. */
class Threads {
  readonly started: { events: ThreadEvents; sent: (readonly string[])[]; hasEnded: boolean }[] = [];
  readonly start = (events: ThreadEvents) => {
    const thread = { events, sent: [] as (readonly string[])[], hasEnded: false };
    this.started.push(thread);
    return {
      send: (texts: readonly string[]) => void thread.sent.push(texts),
      end: () => {
        thread.hasEnded = true;
      },
    };
  };
  get last() {
    return this.started.at(-1)!;
  }
}

let clock: ManualClock;
let threads: Threads;
let tokenizer: Tokenizer;

beforeEach(() => {
  clock = new ManualClock();
  threads = new Threads();
  tokenizer = new Tokenizer(clock, silentLogger, threads.start);
});

test("a thread starts for the first text, and counts one after the other", async () => {
  expect(tokenizer.isLoaded).toBe(false);
  const [first, second] = [tokenizer.count(["a"], 1000), tokenizer.count(["b", "c"], 1000)];
  expect(threads.last.sent).toEqual([["a"]]);
  threads.last.events.counted(1);
  expect(await first).toBe(1);
  expect(threads.last.sent).toEqual([["a"], ["b", "c"]]);
  threads.last.events.counted(2);
  expect(await second).toBe(2);
  expect(threads.started).toHaveLength(1);
});

test("who waits too long has no count, and his text is never sent", async () => {
  const [first, second] = [tokenizer.count(["a"], 500), tokenizer.count(["b"], 500)];
  clock.advance(500);
  expect(await first).toBeUndefined();
  expect(await second).toBeUndefined();
  const third = tokenizer.count(["c"], 500);
  // The answer to the first one, which nobody waits for.
  threads.last.events.counted(1);
  expect(threads.last.sent).toEqual([["a"], ["c"]]);
  threads.last.events.counted(3);
  expect(await third).toBe(3);
});

test("as many texts wait as are bounded, and what comes beyond has no count", async () => {
  const counts = Array.from({ length: 257 }, () => tokenizer.count(["a"], 60_000));
  expect(await tokenizer.count(["b"], 60_000)).toBeUndefined();
  for (const count of counts) {
    threads.last.events.counted(1);
    expect(await count).toBe(1);
  }
});

test("an idle thread ends after five minutes, and a new one starts for the next text", async () => {
  const first = tokenizer.count(["a"], 1000);
  threads.last.events.counted(1);
  await first;
  clock.advance(299_000);
  expect(threads.last.hasEnded).toBe(false);
  clock.advance(1000);
  expect(threads.last.hasEnded).toBe(true);
  expect(tokenizer.isLoaded).toBe(false);
  const second = tokenizer.count(["b"], 1000);
  expect(threads.started).toHaveLength(2);
  threads.last.events.counted(2);
  expect(await second).toBe(2);
});

test.each([
  ["dies", (thread: Threads["last"]) => thread.events.died("out of memory")],
  ["hangs", () => clock.advance(20_000)],
])("a thread that %s fails nobody, and is replaced after a while", async (_, end) => {
  const [first, second] = [tokenizer.count(["a"], 60_000), tokenizer.count(["b"], 60_000)];
  const dead = threads.last;
  end(dead);
  expect(await first).toBeUndefined();
  expect(await second).toBeUndefined();
  expect(dead.hasEnded).toBe(true);
  expect(await tokenizer.count(["c"], 60_000)).toBeUndefined();
  clock.advance(10_000);
  const next = tokenizer.count(["d"], 60_000);
  expect(threads.started).toHaveLength(2);
  // What the dead one still says is not heard.
  dead.events.counted(99);
  dead.events.died("again");
  threads.last.events.counted(4);
  expect(await next).toBe(4);
});

test("closed, it counts nothing, and leaves nothing behind", async () => {
  const first = tokenizer.count(["a"], 1000);
  tokenizer.close();
  expect(await first).toBeUndefined();
  expect(threads.last.hasEnded).toBe(true);
  expect(await tokenizer.count(["b"], 1000)).toBeUndefined();
});

test("the thread itself counts, while this one turns on", async () => {
  using real = { tokenizer: new Tokenizer(systemClock, silentLogger), [Symbol.dispose]: () => real.tokenizer.close() };
  const counting = real.tokenizer.count(["Hello, world!", "<|endoftext|>"], 30_000);
  let turns = 0;
  let isCounting = true;
  void counting.then(() => {
    isCounting = false;
  });
  while (isCounting) {
    turns += 1;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect(await counting).toBe(11);
  // Reading the tables takes hundreds of milliseconds, in which this thread stands still only if it does the work.
  expect(turns).toBeGreaterThan(20);
});

test("the table's file is read as the package reads it", async () => {
  const ranks = tokenRanks(packagedFile("gpt-tokenizer/data/o200k_base.tiktoken").toString("latin1"));
  expect(ranks).toHaveLength(packaged.length);
  expect(packaged.findIndex((token, rank) => !Bun.deepEquals(token, ranks[rank]))).toBe(-1);
});
