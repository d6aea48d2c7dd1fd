import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { KeyError } from "../../src/auth/key-lookup.ts";
import { isWellFormed, newSecret } from "../../src/auth/key-secret.ts";
import { type Caller, type KeySpec, Keys, mayUseModel } from "../../src/auth/keys.ts";
import { openStore, type Store } from "../../src/store/sqlite/store.ts";
import { runScript } from "../helpers/child-process.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const plans = { free: 10, pro: 100 };
const pro: KeySpec = { name: "someone", tier: "pro" };

type House = { folder: TempFolder; store: Store; keys: Keys; clock: ManualClock } & Disposable;

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
      store.close();
      folder[Symbol.dispose]();
    },
  };
}

const bearer = (secret: string) => `Bearer ${secret}`;

describe("the form of a key", () => {
  test("is trp_, 40 characters, and 6 check digits that are the CRC-32 of the 40 in base 62", () => {
    // Worked out with another CRC-32 (zlib's): 0x963fbb8e.
    expect(isWellFormed(`trp_${"0".repeat(40)}2kaqcA`)).toBe(true);
    expect(newSecret()).toMatch(/^trp_[0-9A-Za-z]{46}$/);
    expect(isWellFormed(newSecret())).toBe(true);
  });

  test("any one changed character is noticed", () => {
    const secret = newSecret();
    fc.assert(
      fc.property(fc.integer({ min: 0, max: secret.length - 1 }), fc.constantFrom(..."0Aa9Zz_-"), (at, other) => {
        fc.pre(secret[at] !== other);
        expect(isWellFormed(secret.slice(0, at) + other + secret.slice(at + 1))).toBe(false);
      }),
    );
    for (const wrong of ["", secret.slice(1), `${secret}0`, secret.slice(0, -1)])
      expect(isWellFormed(wrong)).toBe(false);
  }, 60_000);

  test("all 62 characters occur, none more often than chance allows", () => {
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
  test("gives the caller with what the key may do", () => {
    using house = makeHouse();
    const { secret, key } = house.keys.create({
      name: "a team",
      tier: "enterprise",
      perMinute: 5000,
      surfaces: ["gateway"],
      models: ["openai/*", "xai/grok-4"],
    });
    const caller = house.keys.find(bearer(secret)) as Caller;
    expect(caller).toEqual({
      keyId: key.id,
      name: "a team",
      tier: "enterprise",
      perMinute: 5000,
      ownPerMinute: 5000,
      surfaces: new Set(["gateway"] as const),
      models: ["openai/*", "xai/grok-4"],
      buckets: { orchestrator: `orchestrator ${key.id}`, gateway: `gateway ${key.id}` },
    });
    expect(["openai/gpt-5", "xai/grok-4", "xai/grok-4-fast", "mistral/x"].map((id) => mayUseModel(caller, id))).toEqual(
      [true, true, false, false],
    );
  });

  test("a plan's number applies where the key has none of its own", () => {
    using house = makeHouse();
    const find = (spec: KeySpec) => house.keys.find(bearer(house.keys.create(spec).secret));
    expect(find({ name: "a", tier: "free" })).toMatchObject({ perMinute: 10, ownPerMinute: undefined });
    expect(find({ name: "b", tier: "pro" })).toMatchObject({ perMinute: 100, ownPerMinute: undefined });
    expect(find({ name: "c", tier: "free", perMinute: 3 })).toMatchObject({ perMinute: 3, ownPerMinute: 3 });
    expect(find(pro)).toMatchObject({ surfaces: new Set(["orchestrator", "gateway"]), models: ["*"] });
  });

  test("nothing but a whole, known, living key is let in", () => {
    using house = makeHouse();
    const { secret } = house.keys.create(pro);
    for (const good of [bearer(secret), `bearer ${secret}`, `BEARER   ${secret} `]) {
      expect(house.keys.find(good)).toBeDefined();
    }
    const bad = [null, "", secret, `Basic ${secret}`, "Bearer", "Bearer ", `Bearer ${secret} x`, `Bearer${secret}`];
    for (const wrong of [...bad, bearer(newSecret()), bearer(secret.toLowerCase()), `Bearer ${secret}\u00e9`]) {
      expect(house.keys.find(wrong)).toBeUndefined();
    }
  });

  test("a key ends on its millisecond", () => {
    using house = makeHouse();
    const { secret, key } = house.keys.create({ ...pro, expiresAt: house.clock.now() + 1000 });
    house.clock.advance(999);
    expect(house.keys.find(bearer(secret))).toBeDefined();
    expect(house.keys.show(key.id).state).toBe("active");
    house.clock.advance(1);
    expect(house.keys.find(bearer(secret))).toBeUndefined();
    expect(house.keys.show(key.id).state).toBe("expired");
  });

  test("the file holds no key, only its hash", () => {
    using house = makeHouse();
    const { secret } = house.keys.create(pro);
    house.store.close();
    const bytes = readFileSync(house.store.path).toString("latin1");
    expect(bytes).not.toContain(secret);
    expect(bytes).not.toContain(secret.slice(4, 44));
    expect(bytes).toContain(new Bun.CryptoHasher("sha256").update(secret).digest("hex"));
  });

  test("goes on from memory when the database is damaged under it", () => {
    using house = makeHouse();
    const { secret } = house.keys.create(pro);
    expect(house.keys.find(bearer(secret))).toBeDefined();
    const generation = house.store.keys.generation;
    Object.assign(house.store.keys, {
      generation: () => {
        throw new Error("the disk is gone");
      },
    });
    expect(house.keys.find(bearer(secret))).toBeDefined();
    expect(house.keys.find(bearer(newSecret()))).toBeUndefined();
    Object.assign(house.store.keys, { generation });
    house.keys.revoke(secret.slice(0, 12));
    expect(house.keys.find(bearer(secret))).toBeUndefined();
  });
});

describe("changes", () => {
  test("revoking and rotating count from the next call on", () => {
    using house = makeHouse();
    const first = house.keys.create({ ...pro, perMinute: 7 });
    const second = house.keys.rotate(first.key.id);
    expect(second.key).toEqual({ ...first.key, prefix: second.secret.slice(0, 12) });
    expect(house.keys.find(bearer(first.secret))).toBeUndefined();
    expect(house.keys.find(bearer(second.secret))).toMatchObject({ keyId: first.key.id, perMinute: 7 });
    expect(house.keys.revoke(second.key.prefix)).toMatchObject({ state: "revoked", revokedAt: house.clock.now() });
    expect(house.keys.find(bearer(second.secret))).toBeUndefined();
    expect(() => house.keys.revoke(first.key.id)).toThrow("was revoked before");
    expect(() => house.keys.rotate(first.key.id)).toThrow("is revoked");
  });

  test("another process's changes count from the next call on", async () => {
    using house = makeHouse();
    const { secret, key } = house.keys.create(pro);
    expect(house.keys.find(bearer(secret))).toBeDefined();
    const inOtherProcess = async (statement: string) => {
      const { lines, errors } = await runScript(`
        const { openStore } = await import(SRC + "/store/sqlite/store.ts");
        const { systemClock } = await import(SRC + "/lib/clock.ts");
        const { Keys } = await import(SRC + "/auth/keys.ts");
        const store = openStore(${JSON.stringify(house.folder.path)});
        const keys = new Keys(store.keys, systemClock, { free: 10, pro: 100 });
        console.log(JSON.stringify(${statement}));
        store.close();`);
      expect(errors).toBe("");
      return lines[0] as { secret: string };
    };
    const rotated = await inOtherProcess(`keys.rotate(${JSON.stringify(key.id)})`);
    expect(house.keys.find(bearer(secret))).toBeUndefined();
    expect(house.keys.find(bearer(rotated.secret))).toMatchObject({ keyId: key.id });
    const other = await inOtherProcess(`keys.create({ name: "other", tier: "free" })`);
    expect(house.keys.find(bearer(other.secret))).toMatchObject({ name: "other" });
    await inOtherProcess(`keys.revoke(${JSON.stringify(key.id)})`);
    expect(house.keys.find(bearer(rotated.secret))).toBeUndefined();
    expect(house.keys.find(bearer(other.secret))).toBeDefined();
  }, 60_000);

  test("even one made by hand in the database", () => {
    using house = makeHouse();
    const { secret, key } = house.keys.create(pro);
    expect(house.keys.find(bearer(secret))).toBeDefined();
    using other = new Database(house.store.path);
    other.run("update keys set revoked_at = 1 where id = ?", [key.id]);
    expect(house.keys.find(bearer(secret))).toBeUndefined();
  });

  test("show finds by id, by what is shown, and by a beginning that fits one key only", () => {
    using house = makeHouse();
    const a = house.keys.create(pro).key;
    const b = house.keys.create(pro).key;
    expect(house.keys.list().map((key) => key.id)).toEqual([a.id, b.id]);
    expect(house.keys.show(a.id)).toEqual(a);
    expect(house.keys.show(b.prefix)).toEqual(b);
    expect(() => house.keys.show("key_000")).toThrow("fits 2 keys");
    expect(() => house.keys.show("trp_nope")).toThrow("There is no key 'trp_nope'.");
    expect(() => house.keys.show("")).toThrow(KeyError);
  });

  test("a wrong specification is refused in words", () => {
    using house = makeHouse();
    const wrong: [Partial<KeySpec> & object, string][] = [
      [{ name: "" }, "1 to 100 characters"],
      [{ name: "a\nb" }, "without control characters"],
      [{ tier: "gold" as never }, "free, pro, enterprise"],
      [{ tier: "enterprise" }, "needs its number"],
      [{ perMinute: 0 }, "whole number from 1"],
      [{ perMinute: 1.5 }, "whole number from 1"],
      [{ surfaces: [] }, "orchestrator, gateway"],
      [{ surfaces: ["admin" as never] }, "orchestrator, gateway"],
      [{ models: [] }, "one or more patterns"],
      [{ expiresAt: house.clock.now() }, "future"],
      [{ expiresAt: Number.NaN }, "future"],
    ];
    for (const [change, message] of wrong) expect(() => house.keys.create({ ...pro, ...change })).toThrow(message);
    expect(house.keys.list()).toEqual([]);
  });
});

describe("last use", () => {
  test("is written at most once a minute, and not by the call itself", () => {
    using house = makeHouse();
    const { secret, key } = house.keys.create(pro);
    let writes = 0;
    const { touch } = house.store.keys;
    Object.assign(house.store.keys, {
      touch: (uses: ReadonlyMap<string, number>) => {
        writes += 1;
        touch(uses);
      },
    });
    const stored = () => house.store.keys.list()[0]?.lastUsedAt;
    house.keys.find(bearer(secret));
    house.clock.advance(59_999);
    house.keys.find(bearer(secret));
    const last = house.clock.now();
    expect([writes, stored(), house.keys.show(key.id).lastUsedAt]).toEqual([0, null, last]);
    house.clock.advance(1);
    expect([writes, stored()]).toEqual([1, last]);
    house.clock.advance(600_000);
    expect(writes).toBe(1);
    house.keys.find(bearer(secret));
    house.keys.flush();
    expect([writes, stored()]).toEqual([2, house.clock.now()]);
    house.keys.flush();
    house.clock.advance(600_000);
    expect(writes).toBe(2);
  });

  test("is not lost when storage fails once", () => {
    using house = makeHouse();
    const { secret } = house.keys.create(pro);
    const { touch } = house.store.keys;
    Object.assign(house.store.keys, {
      touch: () => {
        throw new Error("full");
      },
    });
    house.keys.find(bearer(secret));
    const used = house.clock.now();
    house.clock.advance(60_000);
    Object.assign(house.store.keys, { touch });
    house.keys.flush();
    expect(house.store.keys.list()[0]?.lastUsedAt).toBe(used);
  });
});

describe("the first key", () => {
  test("is made once, written for this user only, and works", () => {
    using house = makeHouse();
    const file = house.folder.file("first-key");
    const first = house.keys.ensureFirstKey(file)!;
    expect(first.key).toMatchObject({ name: "first", tier: "pro", state: "active" });
    expect(readFileSync(file, "utf8")).toBe(`${first.secret}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(existsSync(`${file}.new`)).toBe(false);
    expect(house.keys.find(bearer(first.secret))).toMatchObject({ name: "first", perMinute: 100 });
    expect(house.keys.ensureFirstKey(file)).toBeUndefined();
    house.keys.revoke(first.key.id);
    expect(house.keys.ensureFirstKey(file)).toBeUndefined();
    expect(readFileSync(file, "utf8")).toBe(`${first.secret}\n`);
  });

  test("is not made when its file can't be written, so that the next start makes it", () => {
    using house = makeHouse();
    const file = house.folder.file("first-key");
    mkdirSync(file);
    writeFileSync(house.folder.file("first-key/occupied"), "");
    expect(() => house.keys.ensureFirstKey(file)).toThrow();
    expect(house.keys.list()).toEqual([]);
    expect(house.keys.ensureFirstKey(house.folder.file("elsewhere"))).toBeDefined();
  });

  test("is one, also when several processes start at once", async () => {
    using folder = new TempFolder();
    chmodSync(folder.path, 0o700);
    const script = `
      const { openStore } = await import(SRC + "/store/sqlite/store.ts");
      const { systemClock } = await import(SRC + "/lib/clock.ts");
      const { Keys } = await import(SRC + "/auth/keys.ts");
      const store = openStore(${JSON.stringify(folder.path)});
      const keys = new Keys(store.keys, systemClock, { free: 10, pro: 100 });
      console.log(JSON.stringify(keys.ensureFirstKey(${JSON.stringify(folder.file("first-key"))})?.secret ?? null));
      store.close();`;
    const children = await Promise.all(Array.from({ length: 4 }, () => runScript(script)));
    expect(children.map((child) => child.errors).join("")).toBe("");
    const made = children.map((child) => child.lines[0]).filter((secret) => secret !== null);
    expect(made).toHaveLength(1);
    expect(readFileSync(folder.file("first-key"), "utf8")).toBe(`${made[0]}\n`);
  }, 60_000);
});
