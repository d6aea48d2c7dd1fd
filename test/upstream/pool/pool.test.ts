/** Pools without sockets: shares, half-open breakers and strategies, by a clock that a test moves. */
import { describe, expect, test } from "bun:test";
import type { FailureVerdict } from "../../../src/upstream/pool/cooldowns.ts";
import { Members } from "../../../src/upstream/pool/members.ts";
import { type Candidate, ordered } from "../../../src/upstream/pool/order.ts";
import { score, seedOf } from "../../../src/upstream/pool/rendezvous.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { Random } from "../../helpers/random.ts";

const seeded = (count: number, weight = (_: number) => 1) =>
  Array.from({ length: count }, (_, at) => ({ seed: seedOf(`member ${at}`), weight: weight(at) }));
type Weighted = ReturnType<typeof seeded>[number];
const best = (key: string, members: readonly Weighted[]) =>
  members.reduce((one, other) => (score(key, other) > score(key, one) ? other : one));

const talks = Array.from({ length: 20_000 }, (_, at) => `conversation ${at * 7919}`);

describe("rendezvous", () => {
  test.each([2, 3, 5, 8])("a %d-th member takes no more than its share, and nothing else moves", (count) => {
    const after = seeded(count);
    const before = after.slice(0, -1);
    const added = after.at(-1)!;
    const moved = talks.filter((key) => best(key, before).seed !== best(key, after).seed);
    for (const key of moved) expect(best(key, after)).toBe(added);
    expect(Math.abs(moved.length / talks.length - 1 / count)).toBeLessThan(0.015);
  });

  test("shares are as the weights", () => {
    const members = seeded(4, (at) => [1, 2, 3, 10][at]!);
    const counts = members.map((member) => talks.filter((key) => best(key, members) === member).length / talks.length);
    for (const [at, share] of [1 / 16, 2 / 16, 3 / 16, 10 / 16].entries())
      expect(Math.abs(counts[at]! - share)).toBeLessThan(0.015);
  });

  test("another weight moves its own share alone", () => {
    const before = seeded(4);
    const after = before.map((member, at) => (at === 0 ? { ...member, weight: 2 } : member));
    const moved = talks.filter((key) => best(key, before).seed !== best(key, after).seed);
    for (const key of moved) expect(best(key, after)).toBe(after[0]!);
    expect(Math.abs(moved.length / talks.length - (2 / 5 - 1 / 4))).toBeLessThan(0.015);
  });
});

const rest = (cools: FailureVerdict["cools"], ms: number): FailureVerdict => ({
  cools: cools!,
  reason: "server_error",
  ms,
  isStated: false,
  mayRepeat: true,
});
const memberOf = (key = "k", url = "http://a") => new Members().of("openai", key, url);

describe("a breaker", () => {
  test("half-opens with one of 200 calls at once, and opens for all once that was answered", () => {
    const clock = new ManualClock();
    const member = memberOf();
    const now = () => clock.monotonic();
    const calls = Array.from({ length: 200 }, () => member.begin("m", now()));
    expect(member.underWay).toBe(200);
    const seen: number[] = [];
    for (const call of calls)
      call.failed(({ endpoint }) => {
        seen.push(endpoint);
        return rest("endpoint", endpoint >= 3 ? 5000 : 0);
      }, now());
    // Those that failed after it had opened count no further.
    expect(seen.slice(0, 4)).toEqual([1, 2, 3, 3]);
    expect(member.endpoint.gate.failures).toBe(3);
    expect(member.underWay).toBe(0);
    const admitted = () =>
      Array.from({ length: 200 }, () => (member.isInCooldown("m", now(), true) ? [] : member.begin("m", now()))).flat();
    clock.advance(4999);
    expect(admitted()).toHaveLength(0);
    clock.advance(1);
    const [trial, ...others] = admitted();
    expect(others).toHaveLength(0);
    expect(member.endpoint.gate.state(now())).toBe("half_open");
    trial!.failed(({ endpoint }) => rest("endpoint", endpoint === 4 ? 10_000 : 0), now());
    clock.advance(9999);
    expect(admitted()).toHaveLength(0);
    clock.advance(1);
    const [second] = admitted();
    // Its client went away: the next one tries.
    second!.over();
    const [third] = admitted();
    third!.answered(now());
    expect(member.endpoint.gate.state(now())).toBe("closed");
    expect(admitted()).toHaveLength(200);
  });

  test("streams that break later count, and one that ends well ends the row", () => {
    const member = memberOf();
    const broken = () => {
      const call = member.begin("m", 0);
      call.answered(0);
      call.failed(({ endpoint }) => rest("endpoint", endpoint >= 3 ? 5000 : 0), 0);
    };
    broken();
    broken();
    member.begin("m", 0).completed(0);
    broken();
    broken();
    expect(member.endpoint.gate.state(0)).toBe("closed");
    broken();
    expect(member.endpoint.gate.state(0)).toBe("open");
  });

  test("a call that began before a rest says nothing about it", () => {
    const member = memberOf();
    const early = member.begin("m", 0);
    member.begin("m", 0).failed(() => rest("key", 1000), 1);
    early.completed(2);
    expect(member.isInCooldown("m", 3, true)).toBe(true);
    expect(member.isInCooldown("m", 1001, true)).toBe(false);
  });

  test("a key rests for one model, and answers for others", () => {
    const member = memberOf();
    member.begin("m", 0).failed(() => ({ ...rest("model", 1000), isStated: true }), 0);
    expect([member.isInCooldown("m", 1, true), member.isInCooldown("other", 1, true)]).toEqual([true, false]);
    expect(member.mayProbe("m", 1)).toBe(false);
    expect(member.view(1)).toEqual([{ model: "m", reason: "server_error", until: 1000 }]);
  });
});

describe("a reload", () => {
  test("keeps what is known of a key that stays, and forgets one that was changed", () => {
    const members = new Members();
    const stays = members.of("openai", "one", "http://a");
    const goes = members.of("openai", "two", "http://a");
    expect(members.of("openai", "one", "http://a")).toBe(stays);
    expect(stays.endpoint).toBe(goes.endpoint);
    members.keep(new Set([stays]));
    expect(members.of("openai", "two", "http://a")).not.toBe(goes);
    expect(members.of("openai", "one", "http://a")).toBe(stays);
    expect(members.of("azure", "one", "http://a")).not.toBe(stays);
    expect(stays.fingerprint).toMatch(/^[0-9a-f]{8}$/);
  });
});

describe("a strategy", () => {
  const members = new Members();
  const candidates: Candidate[] = ["a", "b", "c"].map((key, at) => {
    const member = members.of("openai", key, "http://a");
    return { member, model: "m", weight: at + 1, seed: member.seed };
  });
  const [a, b, c] = candidates as [Candidate, Candidate, Candidate];
  const numbers = new Random(7);
  const random = () => numbers.below(2 ** 30) / 2 ** 30;
  const choosing = { key: "talk", now: 0, random };
  const first = (strategy: Parameters<typeof ordered>[1], more = {}) =>
    ordered(candidates, strategy, { ...choosing, ...more })[0];

  test("first keeps their order", () => expect(ordered(candidates, "first", choosing)).toEqual(candidates));

  test("weighted is at random, by weights", () => {
    const counts = new Map<Candidate, number>();
    for (let at = 0; at < 6000; at += 1) {
      const one = first("weighted")!;
      counts.set(one, (counts.get(one) ?? 0) + 1);
    }
    expect([a, b, c].map((one) => Math.round((counts.get(one)! / 6000) * 6))).toEqual([1, 2, 3]);
  });

  test("least_busy takes the one with the fewest calls for its weight", () => {
    const calls = [a, b, b, c, c].map(({ member }) => member.begin("m", 0));
    expect(first("least_busy")).toBe(c);
    for (const call of calls) call.over();
  });

  test("fastest takes the one with the quickest first token, and tries what it knows nothing of late of", () => {
    a.member.firstToken(300, 0);
    b.member.firstToken(100, 0);
    c.member.firstToken(200, 0);
    const steady = () => 0.99;
    expect(first("fastest", { random: steady })).toBe(b);
    b.member.firstToken(2000, 0);
    expect(b.member.firstTokenMs(0)).toBe(480);
    expect(first("fastest", { random: steady })).toBe(c);
    a.member.firstToken(300, 6 * 60_000);
    b.member.firstToken(300, 6 * 60_000);
    expect(first("fastest", { random: steady, now: 6 * 60_000 })).toBe(c);
  });
});

test("conversations stay where they are over restarts and workers, while nothing fails", () => {
  const moved = talks.filter((key) => {
    const fresh = () => {
      const members = new Members();
      return ["a", "b", "c", "d"].map((one) => {
        const member = members.of("openai", one, "http://a");
        return { member, model: "m", weight: 1, seed: member.seed };
      });
    };
    const choose = () => ordered(fresh(), "sticky", { key, now: 0, random: Math.random })[0]!.member.id;
    const before = choose();
    return choose() !== before;
  });
  expect(moved).toEqual([]);
});
