import { afterAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { listInUse, storedListPath } from "../../src/usage/prices/stored-list.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import { Console } from "./console.ts";

const folder = new TempFolder();
const shell = new Console(folder.path);
const data = folder.file("data");
mkdirSync(data);
afterAll(() => folder[Symbol.dispose]());

const hashOf = (text: string) => createHash("sha256").update(text).digest("hex");

/** One provider, as genai-prices publishes it. */
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

describe("troupe prices update", () => {
  test("shows what a list changes, and changes nothing until its hash is given", async () => {
    const text = JSON.stringify(published(7));
    writeFileSync(folder.file("new.json"), text);
    const shown = await shell.run("prices update new.json");
    expect(shown.code).toBe(0);
    expect(shown.out).toContain("~ openai/gpt-4o: input_mtok $2.5 → $7, ");
    expect(shown.out).toContain("- anthropic/claude-opus-5: ");
    expect(shown.err).toContain(`troupe prices update new.json --sha256 ${hashOf(text)}\n`);
    expect(existsSync(storedListPath(data))).toBe(false);

    const taken = await shell.run(`prices update new.json --sha256 ${hashOf(text)}`);
    expect(taken).toMatchObject({ code: 0, err: expect.stringContaining("used from the next start or reload") });
    const { out } = await shell.run("prices show openai/gpt-4o");
    expect(out).toContain("openai/gpt-4o: by the list of new.json, openai/gpt-4o of ");
    expect(out).toContain("$7 ");
    expect((await shell.run("prices update new.json")).err).toContain("No price differs");
  });

  test("reads an address, and a server uses the list from its start and from a reload on", async () => {
    let text = JSON.stringify(published(4));
    using upstream = new UpstreamServer(() => new Response(text));
    const take = async () => await shell.run(`prices update ${upstream.url}/data.json --sha256 ${hashOf(text)}`);
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
    [
      "a list that is older than the executable's",
      JSON.stringify({ date: "2026-01-01", providers: [{ id: "a", api: "a", models: [] }] }),
      undefined,
      "is of 2026-01-01, and the list in the executable of 2026-09-23",
    ],
  ])("refuses %s", async (_, text, hash, message) => {
    writeFileSync(folder.file("bad.json"), text);
    const before = readFileSync(storedListPath(data), "utf8");
    const found = await shell.run(`prices update bad.json${hash === undefined ? "" : ` --sha256 ${hash}`}`);
    expect(found).toMatchObject({ code: 1, out: "", err: expect.stringContaining(message) });
    expect(readFileSync(storedListPath(data), "utf8")).toBe(before);
  });

  test("says what can't be read, and what is no hash", async () => {
    using upstream = new UpstreamServer(() => new Response("", { status: 404 }));
    expect((await shell.run("prices update nowhere.json")).err).toContain("There is no file nowhere.json.");
    expect((await shell.run(`prices update ${upstream.url}/x`)).err).toContain("answers with the status 404");
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
