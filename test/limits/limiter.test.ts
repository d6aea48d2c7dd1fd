import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { anonymousCaller, MemoryLimiter, Window } from "../../src/limits/limiter.ts";
import { runs } from "../helpers/long-form.ts";
import { ManualClock } from "../helpers/manual-clock.ts";

const startMs = 1_700_000_000_000;

describe("hit", () => {
  test("the window slides: each request makes room a minute after it was taken", () => {
    const clock = new ManualClock(startMs);
    const limiter = new MemoryLimiter(clock);
    const hit = () => limiter.hit("a", 2);
    expect(hit()).toEqual({
      allowed: true,
      limit: 2,
      remaining: 1,
      resetAt: startMs / 1000 + 60,
      retryAfterSeconds: 0,
    });
    clock.advance(20_500);
    expect(hit()).toMatchObject({ allowed: true, remaining: 0, resetAt: startMs / 1000 + 60 });
    expect(hit()).toEqual({
      allowed: false,
      limit: 2,
      remaining: 0,
      resetAt: startMs / 1000 + 60,
      retryAfterSeconds: 40,
    });
    clock.advance(39_499);
    expect(hit()).toMatchObject({ allowed: false, retryAfterSeconds: 1 });
    clock.advance(1);
    expect(hit()).toMatchObject({ allowed: true, remaining: 0, resetAt: Math.ceil(startMs / 1000 + 80.5) });
    expect(hit()).toMatchObject({ allowed: false, retryAfterSeconds: 21 });
  });

  test("callers do not share a window", () => {
    const limiter = new MemoryLimiter(new ManualClock());
    expect(limiter.hit("a", 1).allowed).toBe(true);
    expect(limiter.hit("b", 1).allowed).toBe(true);
    expect(limiter.hit("a", 1).allowed).toBe(false);
  });

  test("peek takes nothing; an empty window resets now", () => {
    const clock = new ManualClock(startMs + 1);
    const limiter = new MemoryLimiter(clock);
    const empty = { allowed: true, limit: 3, remaining: 3, resetAt: startMs / 1000 + 1, retryAfterSeconds: 0 };
    expect(limiter.peek("a", 3)).toEqual(empty);
    expect(limiter.size).toBe(0);
    limiter.hit("a", 3);
    expect(limiter.peek("a", 3)).toMatchObject({ remaining: 2, resetAt: startMs / 1000 + 61 });
    expect(limiter.peek("a", 3)).toMatchObject({ remaining: 2 });
    expect(limiter.peek("a", 1)).toMatchObject({ allowed: false, remaining: 0, retryAfterSeconds: 60 });
    clock.advance(60_000);
    expect(limiter.peek("a", 3)).toEqual({ ...empty, resetAt: startMs / 1000 + 61 });
  });

  test("the wall clock may jump, the window stays", () => {
    const clock = {
      ...new ManualClock(),
      now: () => wall,
      monotonic: () => steady,
      newId: () => "",
      setTimer: () => () => {},
    };
    let wall = startMs;
    let steady = 5;
    const limiter = new MemoryLimiter(clock);
    limiter.hit("a", 1);
    for (const jump of [-86_400_000, 86_400_000, 3_600_000]) {
      wall += jump;
      steady += 10_000;
      const decision = limiter.hit("a", 1);
      expect(decision.allowed).toBe(false);
      expect(decision.resetAt).toBe(Math.ceil((wall + 60_000 - (steady - 5)) / 1000));
    }
    steady = 60_005;
    expect(limiter.hit("a", 1).allowed).toBe(true);
  });

  test("agrees with a plain list of times, whatever the limit changes to", () => {
    const step = fc.record({
      wait: fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.constantFrom(0, 30_000, 59_999, 60_000, 60_001)),
      caller: fc.constantFrom("a", "b"),
      limit: fc.constantFrom(1, 2, 5, 9, 40),
      peek: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 120 }), (steps) => {
        const clock = new ManualClock(startMs + 123);
        const limiter = new MemoryLimiter(clock);
        const taken: Record<string, number[]> = { a: [], b: [] };
        for (const { wait, caller, limit, peek } of steps) {
          clock.advance(wait);
          const now = clock.now();
          const live = taken[caller]!.filter((time) => time > now - 60_000);
          const allowed = live.length < limit;
          if (allowed && !peek) {
            live.push(now);
            taken[caller]!.push(now);
          }
          // When enough of them are gone that one more fits than now.
          const grows = live.length === 0 ? now : live[Math.max(0, live.length - limit)]! + 60_000;
          expect(peek ? limiter.peek(caller, limit) : limiter.hit(caller, limit)).toEqual({
            allowed,
            limit,
            remaining: Math.max(0, limit - live.length),
            resetAt: Math.ceil(grows / 1000),
            retryAfterSeconds: allowed ? 0 : Math.ceil((grows - now) / 1000),
          });
        }
        for (const times of Object.values(taken)) {
          for (const time of times) {
            const inMinute = times.filter((other) => other >= time && other < time + 60_000);
            expect(inMinute.length).toBeLessThanOrEqual(40);
          }
        }
      }),
      { numRuns: runs(300) },
    );
  });

  test("whoever waits as long as told is let in; remaining grows by the moment told", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 5, maxLength: 40 }), (waits) => {
        const clock = new ManualClock(startMs + 777);
        const limiter = new MemoryLimiter(clock);
        for (const wait of waits) {
          clock.advance(wait);
          const decision = limiter.hit("a", 3);
          const before = limiter.peek("a", 3);
          if (decision.allowed) continue;
          clock.advance(decision.retryAfterSeconds * 1000);
          expect(limiter.peek("a", 3).remaining).toBeGreaterThan(0);
          clock.advance(Math.max(0, before.resetAt * 1000 - clock.now()));
          expect(limiter.peek("a", 3).remaining).toBeGreaterThan(before.remaining);
        }
      }),
      { numRuns: runs(200) },
    );
  });
});

describe("memory", () => {
  test("callers that were idle for a minute are forgotten", () => {
    const clock = new ManualClock();
    const limiter = new MemoryLimiter(clock);
    for (let at = 0; at < 500; at += 1) limiter.hit(`key-${at}`, 5);
    expect(limiter.size).toBe(500);
    clock.advance(59_999);
    limiter.hit("key-0", 5);
    expect(limiter.size).toBe(500);
    clock.advance(1);
    limiter.hit("key-1", 5);
    expect(limiter.size).toBe(2);
    expect(limiter.peek("key-0", 5).remaining).toBe(4);
  });

  test("many addresses can't grow it: the one seen longest ago goes first", () => {
    const limiter = new MemoryLimiter(new ManualClock(), 100);
    limiter.hit("early", 1);
    for (let at = 0; at < 5000; at += 1) {
      limiter.hit(`address-${at}`, 1);
      expect(limiter.hit("busy", 2).allowed).toBe(at < 2);
    }
    expect(limiter.size).toBe(100);
    expect(limiter.peek("early", 1).remaining).toBe(1);
    expect(limiter.peek("address-4999", 1).remaining).toBe(0);
    expect(limiter.peek("address-4901", 1).remaining).toBe(0);
    expect(limiter.peek("address-4900", 1).remaining).toBe(1);
  });

  test("a large window holds every request", () => {
    const limiter = new MemoryLimiter(new ManualClock());
    for (let at = 0; at < 10_000; at += 1) expect(limiter.hit("a", 10_000).remaining).toBe(9_999 - at);
    expect(limiter.hit("a", 10_000).allowed).toBe(false);
  });
});

describe("a window", () => {
  test("of many requests keeps a bounded number of times, none of them too early, none late by more than 120 ms", () => {
    const window = new Window();
    const taken: number[] = [];
    let seed = 7;
    for (let hits = 0; hits < 20_000; hits += 1) {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      const now = (taken.at(-1) ?? 5_000) + (seed >>> 24) / 20;
      window.expire(now - 60_000);
      window.push(now);
      taken.push(now);
      if (hits % 500 > 0) continue;
      const least = taken.filter((time) => time > now - 60_000).length;
      const most = taken.filter((time) => time > now - 60_120).length;
      expect(window.count).toBeWithin(least, most + 1);
      const first = window.at(0)!;
      expect(first).toBeWithin(taken[hits + 1 - window.count]!, taken[hits + 1 - window.count]! + 120);
      expect(window.at(window.count - 1)).toBe(now);
    }
    expect(window.entries).toBeLessThanOrEqual(1024);
    window.expire(taken.at(-1)!);
    expect([window.count, window.at(0)]).toEqual([0, undefined]);
  });
});

test("an IPv6 caller is its /64 network", () => {
  const names: [string, string][] = [
    ["192.0.2.7", "192.0.2.7"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::9", "2001:db8:1:2::/64"],
    ["2001:0db8:0001:0002:ffff::", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["64:ff9b::192.0.2.33", "64:ff9b:0:0::/64"],
    ["1:2:3:4:5:6:192.0.2.33", "1:2:3:4::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["", ""],
    ["unix", "unix"],
  ];
  for (const [address, name] of names) expect([address, anonymousCaller(address)]).toEqual([address, name]);
});
