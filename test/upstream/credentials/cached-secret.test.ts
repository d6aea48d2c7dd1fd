import { describe, expect, test } from "bun:test";
import { CachedSecret, type Dated } from "../../../src/upstream/credentials/cached-secret.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

const minute = 60_000;
const hour = 60 * minute;

/** A secret whose fetches are answered by the test. */
function open() {
  const clock = new ManualClock(0);
  const fetches: PromiseWithResolvers<Dated<string>>[] = [];
  const secret = new CachedSecret<string>({
    clock,
    fetch: () => {
      const held = Promise.withResolvers<Dated<string>>();
      fetches.push(held);
      return held.promise;
    },
  });
  return {
    clock,
    secret,
    fetches,
    give: (value: string, endsAt?: number) => fetches.at(-1)!.resolve({ value, endsAt, source: "a test" }),
    fail: (message: string) => fetches.at(-1)!.reject(new Error(message)),
  };
}

/** Lets settled promises be seen. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

async function withFirst(endsAt?: number) {
  const at = open();
  const got = at.secret.get();
  at.give("one", endsAt);
  expect(await got).toBe("one");
  return at;
}

describe("a cached secret", () => {
  test("is fetched once for all calls that wait for it, and then is there at once", async () => {
    const at = open();
    const waiting = [at.secret.get(), at.secret.get(), at.secret.get()];
    at.give("one", hour);
    expect(await Promise.all(waiting)).toEqual(["one", "one", "one"]);
    expect(await at.secret.get()).toBe("one");
    expect(at.fetches).toHaveLength(1);
    expect(at.secret.held?.source).toBe("a test");
  });

  test("without an end is never fetched again", async () => {
    const at = await withFirst();
    at.clock.advance(1000 * hour);
    expect(await at.secret.get()).toBe("one");
    expect(at.fetches).toHaveLength(1);
  });

  test("is fetched anew five minutes before its end, while calls go on with it", async () => {
    const at = await withFirst(hour);
    at.clock.advance(55 * minute - 1);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 1]);
    at.clock.advance(1);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 2]);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 2]);
    at.give("two", 2 * hour);
    await settled();
    expect([await at.secret.get(), at.fetches.length]).toEqual(["two", 2]);
  });

  test("of a short life is fetched anew in the last fifth of it", async () => {
    const at = await withFirst(5 * minute);
    at.clock.advance(4 * minute - 1);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 1]);
    at.clock.advance(1);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 2]);
  });

  test("is used until ten seconds before its end where the endpoint is down, which is asked every 15 s", async () => {
    const at = await withFirst(hour);
    at.clock.advance(55 * minute);
    for (let asked = 2; asked <= 20; asked += 1) {
      expect([await at.secret.get(), at.fetches.length]).toEqual(["one", asked]);
      at.fail("down");
      await settled();
      expect([await at.secret.get(), at.fetches.length]).toEqual(["one", asked]);
      at.clock.advance(15_000);
    }
    at.clock.advance(5000);
    const waiting = at.secret.get();
    at.fail("still down");
    await expect(waiting).rejects.toThrow("still down");
  });

  test("calls join a refresh under way once the old one has ended", async () => {
    const at = await withFirst(hour);
    at.clock.advance(55 * minute);
    expect(await at.secret.get()).toBe("one");
    at.clock.advance(5 * minute);
    const waiting = [at.secret.get(), at.secret.get()];
    at.give("two", 2 * hour);
    expect(await Promise.all(waiting)).toEqual(["two", "two"]);
    expect(at.fetches).toHaveLength(2);
  });

  test("that can't be had fails all calls of the next second with one request", async () => {
    const at = open();
    const waiting = [at.secret.get(), at.secret.get()];
    at.fail("500");
    const failures = await Promise.allSettled(waiting);
    expect(failures.map((one) => one.status === "rejected" && one.reason.message)).toEqual(["500", "500"]);
    at.clock.advance(999);
    await expect(at.secret.get()).rejects.toThrow("500");
    expect(at.fetches).toHaveLength(1);
    at.clock.advance(1);
    const again = at.secret.get();
    at.give("one", hour);
    expect(await again).toBe("one");
  });
});

describe("a refused secret", () => {
  const same = (value: string) => value === "one";

  test("is fetched anew before the next call, once", async () => {
    const at = await withFirst(hour);
    at.clock.advance(minute);
    at.secret.refused(same);
    at.secret.refused(same);
    const got = at.secret.get();
    at.give("two", 2 * hour);
    expect(await got).toBe("two");
    // Calls that were made with the old one are refused later: that says nothing of the new one.
    at.clock.advance(minute);
    at.secret.refused(same);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["two", 2]);
  });

  test("stays while it is young: then it is not its age that is wrong", async () => {
    const at = await withFirst(hour);
    at.clock.advance(minute - 1);
    at.secret.refused(same);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 1]);
  });

  test("is better than none where there is no new one, and not asked for again within a minute", async () => {
    const at = await withFirst(hour);
    at.clock.advance(minute);
    at.secret.refused(same);
    const got = at.secret.get();
    at.fail("down");
    expect(await got).toBe("one");
    at.secret.refused(same);
    expect([await at.secret.get(), at.fetches.length]).toEqual(["one", 2]);
  });
});
