import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { KeyError } from "../../src/auth/key-lookup.ts";
import { isWellFormed, newSecret } from "../../src/auth/key-secret.ts";
import type { KeySpec } from "../../src/auth/key-spec.ts";
import { type Caller, Keys, mayUseModel } from "../../src/auth/keys.ts";
import { type ChangedKeys, changeModulus, type KeyRow } from "../../src/store/contract/store.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite/store.ts";
import { runScript } from "../helpers/child-process.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const plans = { free: 10, pro: 100 };
const pro: KeySpec = { name: "someone", tier: "pro" };

/** What a database with these rows gives. */
const changesIn = (rows: readonly (KeyRow & { readonly change: number })[], since: number): ChangedKeys => ({
  rows: rows.filter(({ change }) => change > since),
  digest: `${rows.length} ${rows.reduce((sum, { change }) => sum + (change % changeModulus), 0)}`,
});

type House = { folder: TempFolder; store: SqliteStore; keys: Keys; clock: ManualClock } & Disposable;

function makeHouse(): House {
  const folder = new TempFolder();
  const store = openStore(folder.path);
  const clock = new ManualClock();
  const keys = new Keys(store.keys, clock, plans);
  return {
    folder,
    store,
    keys,
    clock,
    [Symbol.dispose]() {
      void store.close();
      folder[Symbol.dispose]();
    },
  };
}

/** What a call with that key finds. */
async function find({ keys }: House, secret: string | undefined): Promise<Caller | undefined> {
  await keys.refresh();
  return keys.find(secret);
}

describe("keys that have changed and can't be read", () => {
  test("one that is not known may be new, and gets 503; not what is no key, and not once they are read", async () => {
    await using troupe = await Troupe.start();
    const { keys, store } = troupe.server.services;
    const statusOf = async (key: string) => (await troupe.fetch("/v1/models", { key })).status;
    expect(await statusOf(troupe.key)).toBe(200);
    const changes = store.keys.changes.bind(store.keys);
    Object.assign(store.keys, { changes: () => Promise.reject(new Error("broken")) });
    const { secret } = await keys.create(pro);
    expect([await statusOf(secret), await statusOf(newSecret())]).toEqual([503, 503]);
    expect([await statusOf("trp_x"), await statusOf(troupe.key)]).toEqual([401, 200]);
    Object.assign(store.keys, { changes });
    expect([await statusOf(secret), await statusOf(newSecret())]).toEqual([200, 401]);
  });
});

describe("the form of a key", () => {
  test("is trp_, 40 characters, and 6 check digits that are the CRC-32 of the 40 in base 62", async () => {
    // Worked out with another CRC-32 (zlib's): 0x963fbb8e.
    expect(isWellFormed(`trp_${"0".repeat(40)}2kaqcA`)).toBe(true);
    expect(newSecret()).toMatch(/^trp_[0-9A-Za-z]{46}$/);
    expect(isWellFormed(newSecret())).toBe(true);
  });

  test("any one changed character is noticed", async () => {
    const secret = newSecret();
    fc.assert(
      fc.property(fc.integer({ min: 0, max: secret.length - 1 }), fc.constantFrom(..."0Aa9Zz_-"), (at, other) => {
        fc.pre(secret[at] !== other);
        expect(isWellFormed(secret.slice(0, at) + other + secret.slice(at + 1))).toBe(false);
      }),
    );
    for (const wrong of ["", secret.slice(1), `${secret}0`, secret.slice(0, -1)])
      expect(isWellFormed(wrong)).toBe(false);
  });

  test("all 62 characters occur, none more often than chance allows", async () => {
    const counts = new Map<string, number>();
    for (let round = 0; round < 1550; round += 1) {
      for (const character of newSecret().slice(4, 44)) counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    // 62,000 characters: 1,000 of each expected, with a standard deviation of 31.4; 6 of those leave room for luck.
    expect(counts.size).toBe(62);
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(190);
  });
});

describe("find", () => {
  test("gives the caller with what the key may do", async () => {
    using house = makeHouse();
    const { secret, key } = await house.keys.create({
      name: "a team",
      tier: "enterprise",
      perMinute: 5000,
      surfaces: ["gateway"],
      models: ["openai/*", "xai/grok-4"],
    });
    const caller = (await find(house, secret)) as Caller;
    expect(caller).toEqual({
      keyId: key.id,
      name: "a team",
      tier: "enterprise",
      perMinute: 5000,
      ownPerMinute: 5000,
      surfaces: new Set(["gateway"] as const),
      models: ["openai/*", "xai/grok-4"],
      tags: [],
      buckets: { orchestrator: `orchestrator ${key.id}`, gateway: `gateway ${key.id}`, admin: `admin ${key.id}` },
    });
    expect(["openai/gpt-5", "xai/grok-4", "xai/grok-4-fast", "mistral/x"].map((id) => mayUseModel(caller, id))).toEqual(
      [true, true, false, false],
    );
  });

  test("a plan's number applies where the key has none of its own", async () => {
    using house = makeHouse();
    const findMade = async (spec: KeySpec) => find(house, (await house.keys.create(spec)).secret);
    expect(await findMade({ name: "a", tier: "free" })).toMatchObject({ perMinute: 10, ownPerMinute: undefined });
    expect(await findMade({ name: "b", tier: "pro" })).toMatchObject({ perMinute: 100, ownPerMinute: undefined });
    expect(await findMade({ name: "c", tier: "free", perMinute: 3 })).toMatchObject({ perMinute: 3, ownPerMinute: 3 });
    expect(await findMade(pro)).toMatchObject({ surfaces: new Set(["orchestrator", "gateway"]), models: ["*"] });
  });

  test("nothing but a whole, known, living key is let in", async () => {
    using house = makeHouse();
    const { secret } = await house.keys.create(pro);
    expect(await find(house, secret)).toBeDefined();
    for (const wrong of [undefined, "", newSecret(), secret.toLowerCase(), ` ${secret}`, `${secret}\u00e9`]) {
      expect(await find(house, wrong)).toBeUndefined();
    }
  });

  test("a key ends on its millisecond", async () => {
    using house = makeHouse();
    const { secret, key } = await house.keys.create({ ...pro, expiresAt: house.clock.now() + 1000 });
    house.clock.advance(999);
    expect(await find(house, secret)).toBeDefined();
    expect((await house.keys.show(key.id)).state).toBe("active");
    house.clock.advance(1);
    expect(await find(house, secret)).toBeUndefined();
    expect((await house.keys.show(key.id)).state).toBe("expired");
  });

  test("the file holds no key, only its hash", async () => {
    using house = makeHouse();
    const { secret } = await house.keys.create(pro);
    await house.store.close();
    const bytes = readFileSync(house.store.path).toString("latin1");
    expect(bytes).not.toContain(secret);
    expect(bytes).not.toContain(secret.slice(4, 44));
    expect(bytes).toContain(new Bun.CryptoHasher("sha256").update(secret).digest("hex"));
  });

  test("goes on from memory when the database is damaged under it", async () => {
    using house = makeHouse();
    const { secret } = await house.keys.create(pro);
    expect(await find(house, secret)).toBeDefined();
    const { version } = house.store.keys;
    Object.assign(house.store.keys, {
      version: () => {
        throw new Error("the disk is gone");
      },
    });
    expect(await find(house, secret)).toBeDefined();
    expect(await find(house, newSecret())).toBeUndefined();
    Object.assign(house.store.keys, { version });
    await house.keys.revoke(secret.slice(0, 12));
    expect(await find(house, secret)).toBeUndefined();
  });
});

describe("changes", () => {
  test("revoking and rotating count from the next call on", async () => {
    using house = makeHouse();
    const first = await house.keys.create({ ...pro, perMinute: 7 });
    const second = await house.keys.rotate(first.key.id);
    expect(second.key).toEqual({ ...first.key, prefix: second.secret.slice(0, 12) });
    expect(await find(house, first.secret)).toBeUndefined();
    expect(await find(house, second.secret)).toMatchObject({ keyId: first.key.id, perMinute: 7 });
    expect(await house.keys.revoke(second.key.prefix)).toMatchObject({
      state: "revoked",
      revokedAt: house.clock.now(),
    });
    expect(await find(house, second.secret)).toBeUndefined();
    await expect(house.keys.revoke(first.key.id)).rejects.toThrow("was revoked before");
    await expect(house.keys.rotate(first.key.id)).rejects.toThrow("is revoked");
  });

  test("a rotated key's old secret is taken until its grace is over, or the key is", async () => {
    using house = makeHouse();
    const first = await house.keys.create(pro);
    const second = await house.keys.rotate(first.key.id, 3_600_000);
    expect(second.key.oldSecretUntil).toBe(house.clock.now() + 3_600_000);
    const caller = { keyId: first.key.id };
    for (const { secret } of [first, second]) expect(await find(house, secret)).toMatchObject(caller);
    house.clock.advance(3_599_999);
    expect(await find(house, first.secret)).toMatchObject(caller);
    house.clock.advance(1);
    expect(await find(house, first.secret)).toBeUndefined();
    expect(await find(house, second.secret)).toMatchObject(caller);
    expect((await house.keys.show(first.key.id)).oldSecretUntil).toBeUndefined();
    // Of two old ones the older is refused; without a grace both are, and a revoked key has none.
    const third = await house.keys.rotate(first.key.id, 60_000);
    const fourth = await house.keys.rotate(first.key.id, 60_000);
    expect(await find(house, second.secret)).toBeUndefined();
    for (const { secret } of [third, fourth]) expect(await find(house, secret)).toMatchObject(caller);
    const fifth = await house.keys.rotate(first.key.id);
    for (const { secret } of [third, fourth]) expect(await find(house, secret)).toBeUndefined();
    const sixth = await house.keys.rotate(first.key.id, 60_000);
    // Who finds the old secret in the wrong hands names the key by it.
    expect(await house.keys.revoke(fifth.secret)).toMatchObject({ id: first.key.id, state: "revoked" });
    for (const { secret } of [fifth, sixth]) expect(await find(house, secret)).toBeUndefined();
    await expect(house.keys.rotate(first.key.id, 30 * 86_400_000 + 1)).rejects.toThrow("at most 30 days");
  });

  test("an old secret ends with its key", async () => {
    using house = makeHouse();
    const first = await house.keys.create({ ...pro, expiresAt: house.clock.now() + 1000 });
    const second = await house.keys.rotate(first.key.id, 60_000);
    house.clock.advance(1000);
    for (const { secret } of [first, second]) expect(await find(house, secret)).toBeUndefined();
  });

  test("another process's changes count from the next call on", async () => {
    using house = makeHouse();
    const { secret, key } = await house.keys.create(pro);
    expect(await find(house, secret)).toBeDefined();
    const inOtherProcess = async (statement: string) => {
      const { lines, errors } = await runScript(`
        const { openStore } = await import(SRC + "/store/sqlite/store.ts");
        const { systemClock } = await import(SRC + "/lib/time/clock.ts");
        const { Keys } = await import(SRC + "/auth/keys.ts");
        const store = openStore(${JSON.stringify(house.folder.path)});
        const keys = new Keys(store.keys, systemClock, { free: 10, pro: 100 });
        console.log(JSON.stringify(await ${statement}));
        await store.close();`);
      expect(errors).toBe("");
      return lines[0] as { secret: string };
    };
    const rotated = await inOtherProcess(`keys.rotate(${JSON.stringify(key.id)})`);
    expect(await find(house, secret)).toBeUndefined();
    expect(await find(house, rotated.secret)).toMatchObject({ keyId: key.id });
    const other = await inOtherProcess(`keys.create({ name: "other", tier: "free" })`);
    expect(await find(house, other.secret)).toMatchObject({ name: "other" });
    await inOtherProcess(`keys.revoke(${JSON.stringify(key.id)})`);
    expect(await find(house, rotated.secret)).toBeUndefined();
    expect(await find(house, other.secret)).toBeDefined();
  });

  /** A repository whose database goes back to what it was before. */
  test("a database that lost its last moments is believed: what it has is known, and what changes then", async () => {
    using house = makeHouse();
    const { secret, key } = await house.keys.create(pro);
    const [row] = await house.store.keys.list();
    const state = { version: 10, rows: [{ ...row!, change: 10 }] };
    const changes = async (since: number) => changesIn(state.rows, since);
    const rows = { ...house.store.keys, version: () => state.version, changes };
    const node = { ...house, keys: new Keys(rows, house.clock, plans) };
    expect((await find(node, secret))?.keyId).toBe(key.id);
    Object.assign(state, { version: 8, rows: [] });
    expect(await find(node, secret)).toBeUndefined();
    Object.assign(state, { version: 9, rows: [{ ...row!, change: 9 }] });
    expect((await find(node, secret))?.keyId).toBe(key.id);
    const revoked = { ...row!, revokedAt: 1, change: 10 };
    Object.assign(state, { version: 10, rows: [revoked] });
    expect(await find(node, secret)).toBeUndefined();
    // It lost that, and another key was made since.
    const other = { ...row!, id: "key_other", hash: "other", change: 11 };
    Object.assign(state, { version: 11, rows: [{ ...row!, change: 9 }, other] });
    expect((await find(node, secret))?.keyId).toBe(key.id);
    Object.assign(state, { version: 12, rows: [revoked, other] });
    expect(await find(node, secret)).toBeUndefined();
  });

  test("of two readings the one that began last is known, whichever ends first", async () => {
    using house = makeHouse();
    const { secret } = await house.keys.create(pro);
    const [row] = await house.store.keys.list();
    let version = 10;
    const readings: PromiseWithResolvers<ChangedKeys>[] = [];
    const changes = () => {
      readings.push(Promise.withResolvers<ChangedKeys>());
      return readings.at(-1)!.promise;
    };
    const node = {
      ...house,
      keys: new Keys({ ...house.store.keys, version: () => version, changes }, house.clock, plans),
    };
    const first = find(node, secret);
    version = 9;
    const second = find(node, secret);
    readings[1]!.resolve(changesIn([], -1));
    expect(await second).toBeUndefined();
    readings[0]!.resolve(changesIn([{ ...row!, change: 1 }], -1));
    expect(await first).toBeUndefined();
  });

  test("a change of one has that one read alone, also while it is rotated, revoked, or made by hand", async () => {
    using house = makeHouse();
    for (let at = 0; at < 20; at += 1) await house.keys.create({ ...pro, name: `key ${at}` });
    const read: number[] = [];
    const changes = async (since: number) => {
      const changed = await house.store.keys.changes(since);
      read.push(changed.rows.length);
      return changed;
    };
    const node = { ...house, keys: new Keys({ ...house.store.keys, changes }, house.clock, plans) };
    const { secret, key } = await house.keys.create(pro);
    expect(await find(node, secret)).toBeDefined();
    await house.keys.update(key.id, { tokensPerMinute: 7 });
    expect((await find(node, secret)) && node.keys.tokensPerMinute(key.id)).toBe(7);
    const rotated = await house.keys.rotate(key.id, 1_000);
    expect([await find(node, rotated.secret), await find(node, secret)].map((one) => one?.keyId)).toEqual([
      key.id,
      key.id,
    ]);
    const again = await house.keys.rotate(key.id);
    expect(await find(node, again.secret)).toBeDefined();
    expect([await find(node, rotated.secret), await find(node, secret)]).toEqual([undefined, undefined]);
    await house.keys.revoke(key.id);
    expect([await find(node, again.secret), node.keys.tokensPerMinute(key.id)]).toEqual([undefined, undefined]);
    expect(read).toEqual([21, 1, 1, 1, 1]);
    using other = new Database(house.store.path);
    other.run("delete from keys where id = ?", [key.id]);
    await find(node, secret);
    expect(read.slice(5)).toEqual([0, 20]);
    expect(node.keys.ids).toHaveLength(20);
  });

  test("even one made by hand in the database", async () => {
    using house = makeHouse();
    const { secret, key } = await house.keys.create(pro);
    expect(await find(house, secret)).toBeDefined();
    using other = new Database(house.store.path);
    other.run("update keys set revoked_at = 1 where id = ?", [key.id]);
    expect(await find(house, secret)).toBeUndefined();
  });

  test("show finds by id, by what is shown, and by a beginning that fits one key only", async () => {
    using house = makeHouse();
    const a = (await house.keys.create(pro)).key;
    const b = (await house.keys.create(pro)).key;
    expect((await house.keys.list()).map((key) => key.id)).toEqual([a.id, b.id]);
    expect(await house.keys.show(a.id)).toEqual(a);
    expect(await house.keys.show(b.prefix)).toEqual(b);
    await expect(house.keys.show("key_000")).rejects.toThrow("fits 2 keys");
    await expect(house.keys.show("trp_nope")).rejects.toThrow("There is no key 'trp_nope'.");
    await expect(house.keys.show("")).rejects.toThrow(KeyError);
  });

  test("a wrong specification is refused in words", async () => {
    using house = makeHouse();
    const wrong: [Partial<KeySpec> & object, string][] = [
      [{ name: "" }, "1 to 100 characters"],
      [{ name: "a\nb" }, "without control characters"],
      [{ tier: "gold" as never }, "free, pro, enterprise"],
      [{ tier: "enterprise" }, "needs its number"],
      [{ perMinute: 0 }, "whole number from 1"],
      [{ perMinute: 1.5 }, "whole number from 1"],
      [{ surfaces: [] }, "orchestrator, gateway"],
      [{ surfaces: ["ops" as never] }, "orchestrator, gateway, admin, raw"],
      [{ tokensPerMinute: 0 }, "tokens per minute must be a whole number"],
      [{ tags: ["a b"] }, "tags must be at most 16"],
      [{ tags: Array.from({ length: 17 }, (_, at) => `t${at}`) }, "tags must be at most 16"],
      [{ models: [] }, "one or more patterns"],
      [{ expiresAt: house.clock.now() }, "future"],
      [{ expiresAt: Number.NaN }, "future"],
    ];
    for (const [change, message] of wrong)
      await expect(house.keys.create({ ...pro, ...change })).rejects.toThrow(message);
    expect(await house.keys.list()).toEqual([]);
  });
});

describe("last use", () => {
  test("is written at most once a minute, and not by the call itself", async () => {
    using house = makeHouse();
    const { secret, key } = await house.keys.create(pro);
    let writes = 0;
    const { touch } = house.store.keys;
    Object.assign(house.store.keys, {
      touch: (uses: ReadonlyMap<string, number>) => {
        writes += 1;
        return touch(uses);
      },
    });
    const stored = async () => (await house.store.keys.list())[0]?.lastUsedAt;
    await find(house, secret);
    house.clock.advance(59_999);
    await find(house, secret);
    const last = house.clock.now();
    expect([writes, await stored(), (await house.keys.show(key.id)).lastUsedAt]).toEqual([0, null, last]);
    house.clock.advance(1);
    expect([writes, await stored()]).toEqual([1, last]);
    house.clock.advance(600_000);
    expect(writes).toBe(1);
    await find(house, secret);
    await house.keys.flush();
    expect([writes, await stored()]).toEqual([2, house.clock.now()]);
    await house.keys.flush();
    house.clock.advance(600_000);
    expect(writes).toBe(2);
  });

  test("is not lost when storage fails once", async () => {
    using house = makeHouse();
    const { secret } = await house.keys.create(pro);
    const { touch } = house.store.keys;
    Object.assign(house.store.keys, {
      touch: () => {
        throw new Error("full");
      },
    });
    await find(house, secret);
    const used = house.clock.now();
    house.clock.advance(60_000);
    Object.assign(house.store.keys, { touch });
    await house.keys.flush();
    expect((await house.store.keys.list())[0]?.lastUsedAt).toBe(used);
  });
});

describe("the first key", () => {
  test("is made once, written for this user only, and works", async () => {
    using house = makeHouse();
    const file = house.folder.file("first-key");
    const first = (await house.keys.ensureFirstKey(file))!;
    expect(first.key).toMatchObject({ name: "first", tier: "pro", state: "active" });
    expect(readFileSync(file, "utf8")).toBe(`${first.secret}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(existsSync(`${file}.new`)).toBe(false);
    expect(await find(house, first.secret)).toMatchObject({ name: "first", perMinute: 100 });
    expect(await house.keys.ensureFirstKey(file)).toBeUndefined();
    await house.keys.revoke(first.key.id);
    expect(await house.keys.ensureFirstKey(file)).toBeUndefined();
    expect(readFileSync(file, "utf8")).toBe(`${first.secret}\n`);
  });

  test("is not made when its file can't be written, so that the next start makes it", async () => {
    using house = makeHouse();
    const file = house.folder.file("first-key");
    mkdirSync(file);
    writeFileSync(house.folder.file("first-key/occupied"), "");
    await expect(house.keys.ensureFirstKey(file)).rejects.toThrow();
    expect(await house.keys.list()).toEqual([]);
    expect(await house.keys.ensureFirstKey(house.folder.file("elsewhere"))).toBeDefined();
  });

  test("is one, also when several processes start at once", async () => {
    using folder = new TempFolder();
    chmodSync(folder.path, 0o700);
    const script = `
      const { openStore } = await import(SRC + "/store/sqlite/store.ts");
      const { systemClock } = await import(SRC + "/lib/time/clock.ts");
      const { Keys } = await import(SRC + "/auth/keys.ts");
      const store = openStore(${JSON.stringify(folder.path)});
      const keys = new Keys(store.keys, systemClock, { free: 10, pro: 100 });
      console.log(JSON.stringify((await keys.ensureFirstKey(${JSON.stringify(folder.file("first-key"))}))?.secret ?? null));
      await store.close();`;
    const children = await Promise.all(Array.from({ length: 4 }, () => runScript(script)));
    expect(children.map((child) => child.errors).join("")).toBe("");
    const made = children.map((child) => child.lines[0]).filter((secret) => secret !== null);
    expect(made).toHaveLength(1);
    expect(readFileSync(folder.file("first-key"), "utf8")).toBe(`${made[0]}\n`);
  });
});
