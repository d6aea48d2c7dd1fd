/** `troupe demo`: what it shows is the ledger's, comes again by its seed, and leaves nothing. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { CommandError } from "../../src/cli/context.ts";
import { Demo } from "../../src/cli/demo/demo.ts";
import { openerOf } from "../../src/cli/demo/open-browser.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

// A place of its own for what demonstrations leave: others may run beside these tests.
const place = new TempFolder();
const { TMPDIR } = process.env;
process.env["TMPDIR"] = place.path;
afterAll(() => {
  if (TMPDIR === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = TMPDIR;
  place[Symbol.dispose]();
});

const leftovers = () => readdirSync(tmpdir()).filter((name) => name.startsWith("troupe-demo-"));
type Json = Record<string, unknown>;

const context = () => ({ io: new Console(tmpdir()).io(), flags: {} });
const asking =
  ({ url, key }: Demo) =>
  async <T = { data: Json[] }>(path: string): Promise<T> => {
    const answer = await fetch(`${url}/admin/v1/${path}`, { headers: { authorization: `Bearer ${key}` } });
    expect(answer.status).toBe(200);
    return (await answer.json()) as T;
  };

describe("a demonstration", () => {
  let demo: Demo;
  let ask: ReturnType<typeof asking>;
  beforeAll(async () => {
    demo = await Demo.start(context(), { lines: 8000, live: false });
    ask = asking(demo);
  });
  afterAll(async () => {
    await demo[Symbol.asyncDispose]();
    expect(existsSync(demo.folder)).toBe(false);
  });

  test("its calls have ends of all kinds, prices of the list, and sums that agree by every group", async () => {
    const { data: days } = await ask("usage?by=day&since=40d");
    expect(days.length).toBeGreaterThan(28);
    const total = (rows: Json[], name: string) => rows.reduce((sum, row) => sum + Number(row[name]), 0);
    for (const by of ["model", "key", "provider", "client", "persona"]) {
      const { data } = await ask(`usage?by=${by}&since=40d`);
      for (const name of ["calls", "cost_micro_dollars", "unknown_cost_calls"])
        expect([by, name, total(data, name)]).toEqual([by, name, total(days, name)]);
    }
    const { data: ends } = await ask("usage?by=ended&since=40d");
    expect(ends.map((row) => row["ended"])).toBeDefined();
    expect(total(days, "unknown_cost_calls")).toBeGreaterThan(0);
    expect(total(days, "calls")).toBeGreaterThanOrEqual(8000);
  });

  test("a budget is nearly used, a canary has stopped, and a provider failed yesterday", async () => {
    const { data: budgets } = await ask("budgets");
    expect(budgets.find(({ name }) => name === "website")).toMatchObject({ state: "low" });
    const { data: variants } = await ask("personas/acme/support/variants");
    expect(variants.find(({ name }) => name === "canary")).toMatchObject({ state: "stopped", reason: "error_rate" });
    const { data: errors } = await ask("calls?since=3d&ended=broken&provider=mistral&limit=100");
    expect(errors.length).toBeGreaterThan(0);
    const { data: acts } = await ask("audit");
    expect(acts.length).toBeGreaterThan(5);
  });

  test("calls are answered, in full and as a stream", async () => {
    for (const [path, model, stream] of [
      ["/v1", "studio/editor", false],
      ["/v1", "acme/triage", true],
      ["/gateway/v1", "openai/gpt-5.5", true],
    ] as const) {
      const answer = await fetch(`${demo.url}${path}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${demo.key}`, "content-type": "application/json" },
        body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "Where is my order?" }] }),
      });
      expect(answer.status).toBe(200);
      expect((await answer.text()).length).toBeGreaterThan(100);
    }
  });

  test("a key of a provider has nothing left, and its calls go to the other", async () => {
    const call = (user: string) =>
      fetch(`${demo.url}/gateway/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${demo.key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "openai/gpt-5.4-mini", messages: [{ role: "user", content: user }] }),
      });
    const openai = async () => (await ask<Json>("providers/openai"))["keys"] as { name: string; rests: Json[] }[];
    for (let at = 0; at < 200 && (await openai()).every(({ rests }) => rests.length === 0); at += 1)
      expect((await call(`question ${at}`)).status).toBe(200);
    expect((await openai()).find(({ name }) => name === "trial")?.rests).toMatchObject([{ reason: "rate_limit" }]);
  });
});

test("the same seed makes the same calls, and another one others", async () => {
  const now = Date.now();
  const totalOf = async (seed: number) => {
    await using demo = await Demo.start(context(), { lines: 500, live: false, seed, now });
    // The few calls that it makes after that moment are real ones.
    const { data } = await asking(demo)(`usage?by=model&since=40d&until=${new Date(now).toISOString()}`);
    return data.map(({ model, calls, tokens }) => ({ model, calls, tokens }));
  };
  const first = await totalOf(1);
  expect(await totalOf(1)).toEqual(first);
  expect(await totalOf(2)).not.toEqual(first);
});

test("a port that is taken ends it without leftovers", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const before = leftovers();
  await expect(Demo.start({ ...context(), flags: { port: String(taken.port) } }, { lines: 1 })).rejects.toThrow(
    CommandError,
  );
  expect(leftovers()).toEqual(before);
  await taken.stop(true);
});

test("the command prints where to look and with which key, and a signal ends it", async () => {
  const shell = new Console(tmpdir(), { OPENAI_API_KEY: "a-key-of-the-user" });
  const ran = shell.run("demo --lines 300 --no-open");
  while (!shell.out.includes("Admin key")) await Bun.sleep(20);
  const [, url] = /Console: +(\S+)/.exec(shell.out)!;
  expect((await fetch(url!)).status).toBe(200);
  expect(shell.out).toMatch(/Admin key: +trp_\w{46}\n/);
  const before = leftovers();
  shell.signal("SIGINT");
  expect(await ran).toMatchObject({ code: 0, err: "Making a server with a month of calls …\n" });
  expect(leftovers()).toHaveLength(before.length - 1);
});

test("a browser is opened where somebody sits before a desktop", () => {
  const io = (env: Record<string, string>, isTerminal = true) => ({
    env,
    stdout: { write: () => {}, flush: () => {}, isTerminal },
  });
  const linux = { platform: "linux", isRoot: false };
  expect(openerOf(io({ DISPLAY: ":0" }), linux)).toEqual(["xdg-open"]);
  expect(openerOf(io({ WAYLAND_DISPLAY: "wayland-0" }), linux)).toEqual(["xdg-open"]);
  expect(openerOf(io({}), { ...linux, platform: "darwin" })).toEqual(["open"]);
  expect(openerOf(io({}), linux)).toBeUndefined();
  expect(openerOf(io({ DISPLAY: ":0", CI: "1" }), linux)).toBeUndefined();
  expect(openerOf(io({ DISPLAY: ":0" }), { ...linux, isRoot: true })).toBeUndefined();
  expect(openerOf(io({ DISPLAY: ":0" }, false), linux)).toBeUndefined();
});
