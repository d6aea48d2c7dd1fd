import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { newSecret } from "../../../src/auth/key-secret.ts";
import { Keys } from "../../../src/auth/keys.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const form = /^trp_[0-9A-Za-z]{46}$/;

/** What a server would find. */
async function findIn(folder: TempFolder, secret: string) {
  const store = openStore(folder.file("data"));
  const keys = new Keys(store.keys, systemClock, { free: 10, pro: 100 });
  await keys.load();
  const found = keys.find(secret);
  await store.close();
  return found;
}

/** Makes the folder's only key. */
async function aloneIn(folder: TempFolder): Promise<void> {
  const store = openStore(folder.file("data"));
  await new Keys(store.keys, systemClock, { free: 10, pro: 100 }).create({ name: "alice", tier: "pro" });
  await store.close();
}

describe("keys create", () => {
  test("gives the key alone on stdout and says what it is on stderr", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    expect((await shell.run("keys create bob")).code).toBe(0);
    const { code, out, err } = await shell.run("keys create alice");
    expect(out.trimEnd()).toMatch(form);
    expect(err).toMatch(/^key_[0-9a-f]{32} \(alice, pro\)\. This is the only time that the key is shown\.\n$/);
    expect(code).toBe(0);
    expect(await findIn(folder, out.trim())).toMatchObject({
      name: "alice",
      tier: "pro",
      perMinute: 100,
      models: ["*"],
    });
  });

  test("before the first start leaves a first key, as that would", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    const { out, err } = await shell.run("keys create alice");
    expect(out.trimEnd()).toMatch(form);
    const file = folder.file("data/first-key");
    expect(err).toStartWith(`The first key, which opens every surface, is in ${file}.\n`);
    const first = await findIn(folder, readFileSync(file, "utf8").trim());
    expect([first?.name, [...(first?.surfaces ?? [])]]).toEqual(["first", ["orchestrator", "gateway", "admin"]]);
    await shell.run(`keys revoke ${first!.keyId}`);
    rmSync(file);
    expect((await shell.run("keys create bob")).err).not.toContain("first key");
    expect(existsSync(file)).toBe(false);
  });

  test("takes every right from its flags", async () => {
    using folder = new TempFolder();
    const flags =
      "--tier enterprise --per-minute 5000 --surfaces gateway --models openai/*,xai/grok-5 --expires 90d --json";
    const from = Date.now();
    const { out } = await new Console(folder.path).run(`keys create ci ${flags}`);
    const made = JSON.parse(out);
    expect(made).toMatchObject({
      name: "ci",
      state: "active",
      tier: "enterprise",
      per_minute: 5000,
      surfaces: ["gateway"],
      models: ["openai/*", "xai/grok-5"],
      last_used_at: null,
      revoked_at: null,
    });
    expect(made.key).toMatch(form);
    expect(made.key).toStartWith(made.prefix);
    // The span is counted from when the flag is read, a moment before the key is made.
    expect(Date.parse(made.expires_at) - 90 * 86_400_000).toBeWithin(from, Date.parse(made.created_at) + 1);
    expect(made.created_at).toMatch(/\.\d{3}Z$/);
    expect(await findIn(folder, made.key)).toMatchObject({ name: "ci", ownPerMinute: 5000 });
  });

  test("says what a key lacks, and makes neither it nor a data folder", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    expect(await shell.run("keys create big --tier enterprise")).toEqual({
      code: 2,
      out: "",
      err: expect.stringMatching(/^error: An enterprise key needs its number of requests per minute\.\n/),
    });
    for (const line of ["old --expires 2020-01-01", "fast --per-minute 0"])
      expect(await shell.run(`keys create ${line}`)).toMatchObject({ code: 2, out: "" });
    expect(await shell.run(["keys", "create", ""])).toMatchObject({ code: 2, out: "" });
    expect(existsSync(folder.file("data"))).toBe(false);
  });

  test.each([
    [
      "openai",
      "'openai' fits no model, as models are named <provider>/<model> and personas <namespace>/<name>; did you mean 'openai/*'?",
    ],
    [
      "troupe",
      "'troupe' fits no model, as models are named <provider>/<model> and personas <namespace>/<name>; did you mean 'troupe/*'?",
    ],
    [
      "openai/*,opnai/*",
      "'opnai/*' fits no model, as models are named <provider>/<model> and personas <namespace>/<name>; did you mean 'openai/*'?",
    ],
    ["gpt-5.4", "'gpt-5.4' fits no model, as models are named <provider>/<model> and personas <namespace>/<name>."],
  ])("refuses models that are none: %s", async (models, problem) => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    expect(await shell.run(`keys create a --models ${models}`)).toEqual({
      code: 2,
      out: "",
      err: expect.stringContaining(`error: --models: ${problem}\n`),
    });
    expect(existsSync(folder.file("data"))).toBe(false);
    writeFileSync(folder.file("troupe.yaml"), "aliases: {'gpt-*': 'openai/gpt-*'}\n");
    for (const good of ["gpt-5.4", "*", "*/x", "openai/*", "troupe/guide,builtin/*", "open*"])
      expect((await shell.run(`keys create a --models ${good}`)).code).toBe(0);
    expect(await shell.run("keys update first --models nothing")).toMatchObject({ code: 2 });
  });

  test("takes the models that its help gives for an example, whatever personas there are", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    const [, example] = /--models <globs> [^']*e\.g\.\s+'([^']+)'/.exec((await shell.run("keys create --help")).out)!;
    expect(await shell.run(`keys create a --models ${example}`)).toMatchObject({ code: 0 });
    mkdirSync(folder.file("personas/mine"), { recursive: true });
    writeFileSync(folder.file("personas/mine/one.yaml"), "description: x\nmodel: builtin/eliza\nsystem: Hi.\n");
    expect(await shell.run(`keys create b --models ${example},mine/*`)).toMatchObject({ code: 0 });
  });

  test("takes a time as --json gives it, to the millisecond", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    const expires = "2199-01-31T10:00:00.123Z";
    const { out } = await shell.run(`keys create a --expires ${expires} --json`);
    expect(JSON.parse(out).expires_at).toBe(expires);
  });

  test("uses the data folder of flag, variable and file", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "data: by-file\n");
    const shell = new Console(folder.path);
    await shell.run("keys create a");
    await shell.run("keys create b --data by-flag");
    shell.env["TROUPE_DATA"] = "by-variable";
    await shell.run("keys create c");
    const namesIn = async (data: string) =>
      JSON.parse((await shell.run(`--data ${data} keys list --json`)).out).map((key: { name: string }) => key.name);
    expect(await namesIn("by-file")).toEqual(["first", "a"]);
    expect(await namesIn("by-flag")).toEqual(["first", "b"]);
    expect(await namesIn("by-variable")).toEqual(["first", "c"]);
  });
});

describe("a key that there is", () => {
  test("is changed by what is named, and by nothing else", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    await shell.run("keys create alice --tags team-a,batch --tokens-per-minute 5000 --per-minute 7");
    const shown = async () => JSON.parse((await shell.run("keys show alice --json")).out);
    expect(await shown()).toMatchObject({ tags: ["team-a", "batch"], tokens_per_minute: 5000, per_minute: 7 });
    const changed = await shell.run(
      "keys update alice --tags team-b --per-minute none --surfaces admin,gateway --json",
    );
    expect(JSON.parse(changed.out)).toMatchObject({
      name: "alice",
      tier: "pro",
      tags: ["team-b"],
      per_minute: null,
      tokens_per_minute: 5000,
      surfaces: ["admin", "gateway"],
    });
    await shell.run("keys update alice --tokens-per-minute none --expires 2099-01-31 --name bob");
    const [, bob] = JSON.parse((await shell.run("keys list --json")).out);
    expect(bob).toMatchObject({ name: "bob", tokens_per_minute: null, expires_at: "2099-01-31T00:00:00.000Z" });
    expect(await shell.run("keys update bob")).toMatchObject({
      code: 2,
      err: expect.stringContaining("Nothing to change"),
    });
    expect(await shell.run("keys update bob --tier enterprise")).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^error: An enterprise key needs its number of requests per minute\.\n/),
    });
    await shell.run("keys revoke bob");
    expect(await shell.run("keys update bob --tags x")).toMatchObject({
      code: 1,
      err: expect.stringContaining("revoked"),
    });
  });

  test("is listed and shown without its secret, revoked, and rotated", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    const first = (await shell.run("keys create alice")).out.trim();
    const second = (await shell.run("keys create bob --tier free")).out.trim();

    const list = await shell.run("keys list");
    const lines = list.out.trimEnd().split("\n");
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatch(
      /^ID {2,}KEY {2,}NAME {2,}STATE {2,}TIER {2,}PER MINUTE {2,}SURFACES {2,}TAGS {2,}LAST USED {2,}EXPIRES$/,
    );
    expect(lines[2]).toMatch(/^key_\w+ {2}trp_\w{8}… {2}alice {2}active {2}pro {3}- /);
    expect(lines[3]!.indexOf("bob")).toBe(lines[2]!.indexOf("alice"));
    expect(list.out + list.err).not.toContain(first);

    const prefix = first.slice(0, 12);
    const shown = await shell.run(`keys show ${prefix}`);
    expect(shown.out).toMatch(/^name +alice$/m);
    expect(shown.out).toMatch(/^state +active$/m);
    expect(shown.out).not.toContain(first);
    const { id } = JSON.parse((await shell.run(`keys show ${prefix} --json`)).out);

    const rotated = (await shell.run(`keys rotate ${id}`)).out.trim();
    expect(await findIn(folder, first)).toBeUndefined();
    expect(await findIn(folder, rotated)).toMatchObject({ keyId: id, name: "alice" });

    const replaced = (await shell.run(`keys rotate ${id} --grace 1h`)).out.trim();
    for (const secret of [rotated, replaced]) expect(await findIn(folder, secret)).toMatchObject({ keyId: id });
    expect((await shell.run(`keys show ${id}`)).out).toMatch(/^old key until +20\d\d-/m);
    for (const span of ["1", "31d", "-1h"])
      expect(await shell.run(`keys rotate ${id} --grace=${span}`)).toMatchObject({ code: 2 });

    expect((await shell.run(`keys revoke ${id}`)).out).toMatch(/^state +revoked$/m);
    for (const secret of [rotated, replaced]) expect(await findIn(folder, secret)).toBeUndefined();
    expect(await findIn(folder, second)).toMatchObject({ name: "bob" });
    expect(await shell.run(`keys revoke ${id}`)).toEqual({
      code: 1,
      out: "",
      err: `error: The key '${id}' was revoked before.\n`,
    });
  });

  test("is found by the whole key, by more of it than is shown, and by its name", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    for (const part of [
      (key: string) => key,
      (key: string) => key.slice(0, 30),
      () => "alice",
      (key: string) => ` ${key}\n`,
    ]) {
      const key = (await shell.run("keys create alice")).out.trim();
      const shown = await shell.run(["keys", "show", part(key), "--json"]);
      expect(JSON.parse(shown.out)).toMatchObject({ name: "alice", prefix: key.slice(0, 12), state: "active" });
      const rotated = (await shell.run(["keys", "rotate", part(key)])).out.trim();
      expect(rotated).toMatch(form);
      expect(await shell.run(["keys", "revoke", part(rotated)])).toMatchObject({ code: 0, err: "" });
      expect([await findIn(folder, key), await findIn(folder, rotated)]).toEqual([undefined, undefined]);
      // Or the next one would share the name with it.
      rmSync(folder.file("data"), { recursive: true });
    }
  });

  test("errors never repeat a key, and tell a typing error", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    const key = (await shell.run("keys create alice")).out.trim();
    const typo = key.slice(0, -1) + (key.endsWith("0") ? "1" : "0");
    const gone = newSecret();
    for (const command of ["show", "revoke", "rotate"]) {
      const wrong = await shell.run(["keys", command, typo]);
      expect(wrong).toMatchObject({ code: 1, out: "" });
      expect(wrong.err).toContain(`'${key.slice(0, 12)}…' has a typing error: the check digits`);
      expect((await shell.run(["keys", command, gone])).err).toContain(`There is no key '${gone.slice(0, 12)}…'`);
      for (const line of [
        [command, `${key}0`],
        [command, key.slice(2)],
        [key],
        [command, key, gone],
        [command, `--${key}`],
      ]) {
        const { code, out, err } = await shell.run(["keys", ...line]);
        expect([code > 0, out]).toEqual([true, ""]);
        for (const secret of [key, gone]) expect(err).not.toContain(secret.slice(4, 20));
      }
    }
    expect((await shell.run(key)).err).toContain(`unknown command '${key.slice(0, 12)}…'`);
    expect(await findIn(folder, key)).toBeDefined();
  });

  test("is not changed by a very short beginning, unless someone says yes", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    await aloneIn(folder);
    for (const line of ["revoke k", "rotate trp_", "revoke key_0"]) {
      const { code, out, err } = await shell.run(`keys ${line}`);
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(err).toMatch(/fits key_\w+ \(alice, trp_\w{8}…\), but is very short: give more of it, or --yes\.\n/);
    }
    expect((await shell.run("keys show k")).code).toBe(0);
    shell.answers = [false];
    expect(await shell.run("keys revoke k")).toMatchObject({ code: 1, err: "error: Nothing was changed.\n" });
    expect(shell.asked).toMatch(/^'k' fits key_\w+ \(alice, .*\)\. Is this the key\?$/);
    shell.answers = [true];
    expect((await shell.run("keys rotate k")).code).toBe(0);
    shell.answers = undefined;
    expect((await shell.run("keys revoke k --yes")).out).toMatch(/^state +revoked$/m);
  });

  test("frees its name once it is revoked", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    await shell.run("keys create ci");
    await shell.run("keys revoke ci");
    expect((await shell.run("keys show ci")).out).toMatch(/^state +revoked$/m);
    await shell.run("keys create ci");
    expect((await shell.run("keys show ci")).out).toMatch(/^state +active$/m);
    expect((await shell.run("keys rotate ci")).code).toBe(0);
    expect((await shell.run("keys revoke ci")).code).toBe(0);
    expect((await shell.run("keys show ci")).err).toContain("is the name of 2 keys");
  });

  test("is not found by a name that fits none or several", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    await shell.run("keys create a");
    await shell.run("keys create b");
    await shell.run("keys create b");
    expect((await shell.run("keys show b")).err).toMatch(
      /^error: 'b' is the name of 2 keys; give an id: key_\w{32}, key_\w{32}\.\n$/,
    );
    expect((await shell.run(["keys", "show", ""])).code).toBe(2);
    expect(await shell.run("keys show nobody")).toMatchObject({ code: 1, err: "error: There is no key 'nobody'.\n" });
    expect((await shell.run("keys revoke key_")).err).toBe("error: 'key_' fits 4 keys; give more of the id.\n");
  });
});

test.each(["list", "show x", "revoke x", "rotate x"])("keys %s in a wrong folder makes nothing there", async (line) => {
  using folder = new TempFolder();
  const { code, out, err } = await new Console(folder.path).run(`keys ${line} --data elsewhere`);
  expect({ code, out, err }).toEqual({
    code: 1,
    out: "",
    err: `error: There is no data folder ${folder.file("elsewhere")}; --data names another.\n`,
  });
  expect(existsSync(folder.file("elsewhere"))).toBe(false);
});

test("an invalid configuration stops every command, with all its errors", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), "log: {level: loud}\ntires: {}\n");
  const { code, out, err } = await new Console(folder.path).run("keys create a");
  expect(err.trimEnd().split("\n")).toEqual([
    'troupe.yaml:1:14: log.level: must be one of "debug", "info", "warn", "error"',
    "troupe.yaml:2:1: tires: is not a known key; did you mean 'tiers'?",
  ]);
  expect({ code, out }).toEqual({ code: 1, out: "" });
  expect(existsSync(folder.file("data"))).toBe(false);
});

test("a data folder that can't be used is told without a stack", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("data"), "a file");
  const { code, err } = await new Console(folder.path).run("keys create a");
  expect(err).toMatch(/^error: The data folder .*\n$/);
  expect(code).toBe(1);
});
