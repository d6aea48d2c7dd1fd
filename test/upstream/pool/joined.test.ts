import { expect, test } from "bun:test";
import { joinPools } from "../../../src/upstream/pool/joined.ts";
import type { MemberView, PoolView } from "../../../src/upstream/pool/pools.ts";
import { poolState } from "../../../src/upstream/pool/state.ts";

const closed: MemberView["breaker"] = {
  ...{ state: "closed", reason: undefined, until: undefined, failures: 0, workers: 1 },
};
const open = (until: number, failures: number): MemberView["breaker"] => ({
  ...{ state: "open", reason: "server_error", until, failures, workers: 1 },
});

function pool(...members: readonly Partial<MemberView>[]): PoolView {
  return {
    provider: "openai",
    strategy: "first",
    members: members.map((one, at) => ({
      ...{ fingerprint: `key-${at}`, name: undefined, endpoint: "http://a", weight: 1, callsUnderWay: 0 },
      ...{ firstTokenMs: undefined, cooldowns: [], breaker: closed, cooldownsByReason: {} },
      ...one,
    })),
  };
}
const joined = (...views: readonly PoolView[]) =>
  joinPools(
    [views[0]!],
    views.map((view) => [view]),
  )[0]!;
const rest = (reason: "quota" | "rate_limit", until: number) => ({ reason, until, workers: 1 });

test("calls are added, first tokens averaged over those that know them, and rests end with the last", () => {
  const one = pool({ callsUnderWay: 2, firstTokenMs: 100, cooldowns: [rest("quota", 20), rest("rate_limit", 5)] });
  const two = pool({ callsUnderWay: 3, firstTokenMs: 300, cooldowns: [rest("quota", 30)] });
  const three = pool({ callsUnderWay: 1, cooldowns: [{ ...rest("quota", 7), model: "gpt-5.5" }] });
  expect(joined(one, two, three).members[0]).toMatchObject({
    callsUnderWay: 6,
    firstTokenMs: 200,
    cooldowns: [
      { reason: "quota", until: 30, workers: 2 },
      { reason: "quota", model: "gpt-5.5", until: 7, workers: 1 },
      { reason: "rate_limit", until: 5, workers: 1 },
    ],
    breaker: { ...closed, workers: 3 },
  });
});

test("a breaker is shown in the worst state that it is in anywhere, with the number of those", () => {
  const half: MemberView["breaker"] = { ...open(1, 9), state: "half_open" };
  const all = joined(pool({ breaker: open(50, 3) }), pool({ breaker: open(70, 2) }), pool({ breaker: half }));
  expect(all.members[0]!.breaker).toEqual({ ...open(70, 3), workers: 2 });
});

test("all of a provider rests where it does in every process, and is degraded where one can still call it", () => {
  const resting = pool({ cooldowns: [rest("quota", 9)] }, { breaker: open(9, 3) });
  const well = pool({}, {});
  expect(poolState(joined(resting, resting), 2)).toBe("resting");
  expect(poolState(joined(resting, well), 2)).toBe("degraded");
  expect(poolState(joined(well, well), 2)).toBe("ok");
  expect(poolState(resting)).toBe("resting");
});

test("a key that the other process does not have, as during a reload, is as its own process knows it", () => {
  const [own, other] = [pool({ callsUnderWay: 4 }, { callsUnderWay: 5 }), pool({ callsUnderWay: 1 })];
  expect(joinPools([own], [[own], [other], []])[0]!.members.map(({ callsUnderWay }) => callsUnderWay)).toEqual([5, 5]);
  expect(joinPools([own], [])).toEqual([own]);
});
