import { afterAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { compiledList } from "../../../src/facts/prices/list.ts";
import { parsePriceList } from "../../../src/facts/prices/list-format.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { listInUse, storedListPath } from "../../../src/usage/prices/stored-list.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

const folder = new TempFolder();
const shell = new Console(folder.path);
const data = folder.file("data");
mkdirSync(data);
afterAll(() => folder[Symbol.dispose]());

/** A list of that day is not older than the one in the executable. */
const { asOf } = compiledList;

const hashOf = (text: string) => createHash("sha256").update(text).digest("hex");

/** One provider, as genai-prices publishes it: without its day. */
const published = (input: number, model = "gpt-4o") => [
  {
    id: "openai",
    name: "OpenAI",
    api_pattern: "https://api\\.openai\\.com",
    extractors: [{ root: "usage" }],
    models: [
      {
        id: model,
        match: { equals: model },
        context_window: 1,
        prices: [
          { prices: { input_mtok: 1 } },
          { constraint: { start_date: "2026-01-01" }, prices: { input_mtok: input, output_mtok: 9 } },
        ],
      },
    ],
  },
];

/** A folder of its own, whose ledger has a call of openai/gpt-4o, and OpenAI is set up. */
async function usedFolder() {
  const own = new TempFolder();
  const shell = new Console(own.path, { OPENAI_API_KEY: "sk-none" });
  mkdirSync(own.file("data"));
  const store = openStore(own.file("data"));
  await store.ledger.append([
    ledgerLine("req_1", { at: Date.now() - 1000, provider: "openai", model: "m", upstreamModel: "gpt-4o" }),
  ]);
  await store.close();
  return { folder: own, data: own.file("data"), shell, [Symbol.asyncDispose]: async () => own[Symbol.dispose]() };
}

describe("troupe prices update", () => {
  test("shows what a list changes, and changes nothing until its hash is given", async () => {
    const text = JSON.stringify(published(7));
    writeFileSync(folder.file("new.json"), text);
    const shown = await shell.run(`prices update new.json --as-of ${asOf}`);
    expect(shown.code).toBe(0);
    expect(shown.out).toContain("~ openai/gpt-4o: input_mtok $2.5 → $7, ");
    expect(shown.out).toContain("- anthropic/claude-opus-5: ");
    expect(shown.err).toContain(`troupe prices update new.json --as-of ${asOf} --sha256 ${hashOf(text)}\n`);
    expect(existsSync(storedListPath(data))).toBe(false);

    const taken = await shell.run(`prices update new.json --as-of ${asOf} --sha256 ${hashOf(text)}`);
    expect(taken).toMatchObject({ code: 0, err: expect.stringContaining("used from the next start or reload") });
    const { out } = await shell.run("prices show openai/gpt-4o");
    expect(out).toContain(`openai/gpt-4o: by the list of new.json, openai/gpt-4o of ${asOf}`);
    expect(out).toContain("$7 ");
    expect((await shell.run(`prices update new.json --as-of ${asOf}`)).err).toContain("No price differs");
  });

  test("reads an address, and a server uses the list from its start and from a reload on", async () => {
    let text = JSON.stringify(published(4));
    using upstream = new UpstreamServer(() => new Response(text));
    const take = async () =>
      await shell.run(`prices update ${upstream.url}/data.json --as-of ${asOf} --sha256 ${hashOf(text)}`);
    expect(await take()).toMatchObject({ code: 0 });
    await using troupe = await Troupe.start({ data });
    const priceOf = () => {
      const model = {
        provider: "openai",
        dialect: "openai",
        baseUrl: "",
        model: "gpt-4o",
        isLocal: false,
        isListed: true,
      };
      return troupe.server.services.live.prices.find(model)?.cardAt(Date.now()).base.tokens.input;
    };
    expect(priceOf()).toBe(4_000_000_000n);
    text = JSON.stringify(published(5));
    expect(await take()).toMatchObject({ code: 0 });
    expect(priceOf()).toBe(4_000_000_000n);
    troupe.server.reload(troupe.server.services.live.config);
    expect(priceOf()).toBe(5_000_000_000n);
  });

  test.each([
    [
      "a list of another hash",
      JSON.stringify(published(8)),
      "0".repeat(64),
      "not the one that is given: nothing was changed",
    ],
    ["no JSON", "prices:", undefined, "is no price list: it is no JSON. Nothing was changed."],
    ["a price that is none", JSON.stringify(published(-1)), undefined, "[0].models[0].prices[1].prices.input_mtok"],
    [
      "a pattern that is none",
      JSON.stringify([{ ...published(1)[0], api_pattern: "(" }]),
      undefined,
      "[0].api is no regular expression",
    ],
    [
      "a match that is none",
      JSON.stringify([{ ...published(1)[0], models: [{ id: "a", match: { like: "a" }, prices: {} }] }]),
      undefined,
      "[0].models[0].match must have one of or, and, equals",
    ],
    ["a list without a day", JSON.stringify(published(8)), "undated", "it does not say of which day it is (as_of)"],
    [
      "a day that is yet to come",
      JSON.stringify({ as_of: "2099-01-01", providers: published(8) }),
      "undated",
      "it is of 2099-01-01, which is yet to come",
    ],
    [
      "a day that is another than its own",
      JSON.stringify({ as_of: "2026-11-01", providers: published(8) }),
      undefined,
      "it is of 2026-11-01, by its own word",
    ],
    [
      "two rows for one model",
      JSON.stringify([{ ...published(1)[0], models: [published(1)[0]!.models[0], published(2)[0]!.models[0]] }]),
      undefined,
      "[0].models[1].id is that of models[0] too",
    ],
    [
      "a price in words",
      JSON.stringify([
        { ...published(1)[0], models: [{ id: "a", match: { equals: "a" }, prices: { input_mtok: "1" } }] },
      ]),
      undefined,
      "[0].models[0].prices",
    ],
    [
      "a price that nobody asks",
      JSON.stringify(published(1e9)),
      undefined,
      "[0].models[0].prices[1].prices.input_mtok",
    ],
    ["a page", "<!doctype html><title>Sign in</title>", undefined, "is no price list: it is no JSON"],
    ["half a list", JSON.stringify(published(8)).slice(0, 100), undefined, "is no price list: it is no JSON"],
  ])("refuses %s", async (_, text, hash, message) => {
    writeFileSync(folder.file("bad.json"), text);
    const before = readFileSync(storedListPath(data), "utf8");
    const flags = hash === "undated" ? "" : ` --as-of ${asOf}${hash === undefined ? "" : ` --sha256 ${hash}`}`;
    const found = await shell.run(`prices update bad.json${flags}`);
    expect(found).toMatchObject({ code: 1, out: "", err: expect.stringContaining(message) });
    expect(readFileSync(storedListPath(data), "utf8")).toBe(before);
  });

  test("what is older, or takes a price in use away, is taken only by force", async () => {
    await using used = await usedFolder();
    const run = (line: string) => used.shell.run(line);
    const write = (value: unknown) => writeFileSync(used.folder.file("doubtful.json"), JSON.stringify(value));
    const free = published(8);
    for (const [list, words] of [
      [
        { as_of: "2026-11-01", providers: published(8) },
        "it is of 2026-11-01, older than the list in use, which is of",
      ],
      [{ as_of: asOf, providers: published(8, "gpt-4.1") }, "it has no price of openai/gpt-4o, which is in use"],
      [
        {
          as_of: asOf,
          providers: [{ ...free[0], models: [{ ...free[0]!.models[0], prices: { input_mtok: 0, output_mtok: 0 } }] }],
        },
        "by it openai/gpt-4o, which is in use, costs nothing",
      ],
    ] as const) {
      write(list);
      const flag = `--sha256 ${hashOf(JSON.stringify(list))}`;
      const shown = await run("prices update doubtful.json");
      expect(shown.code).toBe(0);
      expect(shown.err).toContain(`warning: ${words}`);
      expect(shown.err).toContain(
        `To use the list in spite of that:\n  troupe prices update doubtful.json ${flag} --force\n`,
      );
      const refused = await run(`prices update doubtful.json ${flag}`);
      expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("Nothing was changed, as it warns") });
      expect(existsSync(storedListPath(used.data))).toBe(false);
      expect(await run(`prices update doubtful.json ${flag} --force`)).toMatchObject({ code: 0 });
      expect(listInUse(used.data)).toMatchObject({ source: "doubtful.json" });
      expect(listInUse(used.data).list.content.as_of).toBe(list.as_of);
      rmSync(storedListPath(used.data));
    }
  });

  test("a list that an earlier build stored under the day of its taking does not count", () => {
    const text = JSON.stringify({ date: "2026-11-27", providers: [] });
    const path = storedListPath(folder.path);
    writeFileSync(path, `${JSON.stringify({ source: "x", date: "2026-11-27", sha256: hashOf(text) })}\n${text}`);
    expect(listInUse(folder.path)).toMatchObject({ warning: expect.stringContaining("does not say of which day") });
  });

  test("genai-prices' variants come over, in each of its forms", () => {
    const provider = published(7)[0]!;
    const variants = [
      { when: { service_tier: "default" }, prices: {} },
      { when: { service_tier: "priority" }, prices: { input_mtok: 14 }, constraint: null },
      { when: { speed: "fast" }, prices: { input_mtok: 21 }, constraint: { start_date: "2026-12-01" } },
      { when: { processing: "batch", route: "eu" }, prices: { input_mtok: 1 } },
    ];
    const model = { ...provider.models[0], price_variants: variants };
    for (const form of [
      [{ ...provider, models: [model] }],
      { units: {}, providers: [{ ...provider, models: [model] }] },
    ]) {
      const list = parsePriceList(JSON.stringify(form), "2026-11-28", "2026-11-27");
      expect(list.as_of).toBe("2026-11-27");
      expect(list.providers[0]!.models[0]!.variants).toEqual([
        { tier: "priority", prices: { input_mtok: 14 } },
        {
          tier: "speed_fast",
          constraint: { type: "start_date", start_date: "2026-12-01" },
          prices: { input_mtok: 21 },
        },
      ]);
    }
  });

  test("says what can't be read, and what is no hash", async () => {
    using upstream = new UpstreamServer(() => new Response("", { status: 404 }));
    expect((await shell.run("prices update nowhere.json")).err).toContain("There is no file nowhere.json.");
    expect((await shell.run(`prices update ${upstream.url}/x`)).err).toContain("answers with the status 404");
    using moved = new UpstreamServer(
      () => new Response(null, { status: 302, headers: { location: "http://10.0.0.1/" } }),
    );
    expect((await shell.run(`prices update ${moved.url}/x`)).err).toContain("redirects to http://10.0.0.1/: name the");
    expect(await shell.run("prices update new.json --sha256 abc")).toMatchObject({ code: 2 });
  });

  test("a damaged stored list does not count, and that is said", async () => {
    const path = storedListPath(data);
    writeFileSync(path, readFileSync(path, "utf8").replace("gpt-4o", "gpt-4p"));
    expect(listInUse(data)).toMatchObject({ warning: `${path} is damaged: 'troupe prices update' writes it anew` });
    expect(await shell.run("prices show openai/gpt-4o")).toMatchObject({
      out: expect.stringContaining("by the list in the executable"),
      err: expect.stringContaining("is damaged"),
    });
  });

  test("troupe prices alone shows what there is", async () => {
    const { out, err } = await shell.run("prices");
    expect(out + err).toContain("update [options] <source>");
  });
});
