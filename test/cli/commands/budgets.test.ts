import { expect, test } from "bun:test";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

test("budgets are set, topped up, listed and removed", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  await shell.run("keys create alice");
  const { id } = JSON.parse((await shell.run("keys show alice --json")).out);
  expect(await shell.run("budgets list")).toMatchObject({
    code: 0,
    out: "",
    err: expect.stringContaining("no budgets yet"),
  });
  const set = await shell.run("budgets set alice prepaid 25.5 --json");
  expect(JSON.parse(set.out)).toEqual([
    {
      id: `key:${id}/prepaid`,
      scope: `key:${id}`,
      name: "alice",
      period: "prepaid",
      origin: "set",
      dollars: 25.5,
      span: "prepaid",
      spent: 0,
      reserved: 0,
      left: 25.5,
      resets_at: null,
      state: "ok",
      runs_out_at: null,
    },
  ]);
  await shell.run("budgets set tag:team-a day 3");
  expect((await shell.run("budgets top-up alice prepaid 0.25")).out).toMatch(
    /^SCOPE .*\nkey:\S+ +alice +prepaid +\$25\.75 +\$0\.00 +\$0\.00 +\$25\.75 +set\n$/,
  );
  expect((await shell.run("budgets list")).out.trimEnd().split("\n")).toHaveLength(3);
  const withDefault = new Console(folder.path, { TROUPE_BUDGETS_KEYS_DAY: "2" });
  expect((await withDefault.run("budgets list")).out).toMatch(/\neach key +day +\$2\.00 +configuration\n$/);
  expect(JSON.parse((await withDefault.run("budgets list --json")).out).at(-1)).toMatchObject({
    ...{ scope: "each key", period: "day", dollars: 2, spent: null },
  });
  expect(await shell.run("budgets remove tag:team-a day")).toMatchObject({
    code: 0,
    err: "tag:team-a day is removed.\n",
  });
  expect(await shell.run("budgets set nobody day 1")).toMatchObject({
    code: 1,
    err: expect.stringContaining("no key"),
  });
});

test("a budget may count the calls of some models alone", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  await shell.run("keys create alice");
  const { id } = JSON.parse((await shell.run("keys show alice --json")).out);
  const scope = `key:${id} model:openai/*`;
  for (const named of ["alice", "key:alice", `key:${id}`])
    expect(JSON.parse((await shell.run(`budgets set ${named} model:openai/* month 5 --json`)).out)).toMatchObject([
      { id: `${scope}/month`, scope, model: "openai/*", name: "alice", dollars: 5 },
    ]);
  await shell.run("budgets set all model:anthropic/claude-opus-* day 3");
  await shell.run("budgets set tag:a model:* prepaid 3");
  await shell.run("budgets set tier:pro model:mistral/* day 3");
  expect((await shell.run("budgets list")).out).toMatch(/\nkey:\S+ model:openai\/\* +alice +month +\$5\.00 /);
  expect((await shell.run("budgets list")).out.trimEnd().split("\n")).toHaveLength(5);
  expect(await shell.run("budgets remove all model:anthropic/claude-opus-* day")).toMatchObject({ code: 0 });
  expect((await shell.run("budgets set all model: day 1")).err).toContain("1 to 200 characters");
  const file =
    "budgets:\n  models:\n    openai/*:\n      all: { month: 9 }\n      keys: { day: 2 }\n      tags: { a: { day: 1 } }\n";
  await Bun.write(`${folder.path}/troupe.yaml`, file);
  const list = (await shell.run("budgets list")).out;
  expect(list).toMatch(/\nall model:openai\/\* +month +\$9\.00 /);
  expect(list).toMatch(/\ntag:a model:openai\/\* +day +\$1\.00 /);
  expect(list).toMatch(/\neach key model:openai\/\* +day +\$2\.00 +configuration\n$/);
});

test.each([
  ["budgets set all week 1", "Allowed choices are day, month, prepaid."],
  ["budgets set all day 1,5", "a sum such as 25 or 0.5"],
  ["budgets set all day -1", "a sum such as 25 or 0.5"],
])("troupe %s is a wrong use", async (line, message) => {
  using folder = new TempFolder();
  expect(await new Console(folder.path).run(line)).toMatchObject({ code: 2, err: expect.stringContaining(message) });
});
