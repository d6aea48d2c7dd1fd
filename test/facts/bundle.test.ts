/** Files of facts from outside: what is refused and where, and what comes in force. */
import { afterEach, describe, expect, test } from "bun:test";
import { readBundle } from "../../src/facts/bundle.ts";
import { factChanges } from "../../src/facts/changes.ts";
import { cloudOf } from "../../src/facts/clouds.ts";
import { compiledFacts, factsOf, listedModels, rowsOf, useFacts } from "../../src/facts/facts.ts";
import { rulesFor } from "../../src/facts/rules.ts";
import { isSigned, readPointer } from "../../src/facts/signed.ts";
import { openai } from "../../src/providers/openai-compatible/openai.ts";
import { type Change, dayOf, factsKeys, factsText, published } from "../helpers/facts-files.ts";

const now = Date.parse("2027-11-28T12:00:00Z");
const today = dayOf(now);
const bytes = (text: string) => new TextEncoder().encode(text);
const read = (text: string) => readBundle(bytes(text), "f.json", today);
const changed = (change: Change) => () => read(factsText(today, change));

afterEach(() => useFacts());

describe("a file of facts", () => {
  test("holds models and prices", () => {
    const { as_of, models, prices } = read(factsText(today));
    expect([as_of, models.as_of, prices.as_of]).toEqual([today, today, today]);
    expect(prices.providers.find(({ id }) => id === "openai")!.models[0]!.id).toBe("zeta-1");
  });

  test.each<[string, () => unknown, RegExp]>([
    ["nothing", () => read(""), /^f\.json: it is empty$/],
    ["a web page", () => read("<!doctype html><p>Sign in"), /^f\.json: it is a web page, not JSON$/],
    [
      "a file that was cut off",
      () => read(factsText(today).slice(0, 5000)),
      /^f\.json: it is damaged or cut off: no JSON$/,
    ],
    ["a list", () => read("[]"), /^f\.json: it is no JSON object$/],
    ["bytes that are no text", () => readBundle(Uint8Array.of(0xff, 0xfe), "f.json", today), /no text in UTF-8$/],
    ["17 MB", () => readBundle(new Uint8Array(17 * 1024 ** 2), "f.json", today), /has more than 16777216 bytes$/],
    ["no day", () => read('{"schema":1}'), /^f\.json:1:1: as_of: must be a day/],
    [
      "a day to come",
      () => read(factsText("2027-11-29")),
      /^f\.json:\d+:\d+: as_of: it is of 2027-11-29, which is yet to come$/,
    ],
    ["no form", () => read('{"as_of":"2027-11-28"}'), /does not say by which form it is/],
    [
      "a word that is no behaviour of ours",
      changed(({ models }) => models.rules.chat.openai.unshift({ match: "x", tools_road: "carrier", source: "s" })),
      /^f\.json:10:32: models\.rules\.chat\.openai\[0\]\.tools_road: must be one of "chat", /,
    ],
    [
      "two rows for one model",
      changed(({ models }) => models.providers.xai.models.push(structuredClone(models.providers.xai.models[0]))),
      /^f\.json:\d+:\d+: models\.providers\.xai\.models\[\d+\]\.model: '[^']+' has context by models\[0\] too$/,
    ],
    [
      "two prices for one model",
      changed(({ prices }) => prices.providers[0].models.push(structuredClone(prices.providers[0].models[0]))),
      /^f\.json:\d+:\d+: prices\.providers\[0\]\.models\[\d+\]\.id: is that of models\[0\] too$/,
    ],
    ...[
      [-3, "a negative price"],
      ["3", "a price of text"],
      [1e9, "a price of a milliard"],
    ].map(([price, what]): [string, () => unknown, RegExp] => [
      what as string,
      changed(({ prices }) => (prices.providers[0].models[0].prices.input_mtok = price)),
      /^f\.json:\d+:\d+: prices\.providers\[0\]\.models\[0\]\.prices\.input_mtok: must be a number from 0 to 1000000/,
    ]),
    [
      "prices that are later than the file",
      () =>
        read(factsText(today).replace(/"prices": \{\n {2}"as_of": "[\d-]+"/, '"prices": {\n  "as_of": "2027-11-30"')),
      /yet to come/,
    ],
  ])("%s is refused, and where", (_, reading, message) => {
    expect(reading).toThrow(message);
  });

  test("of a later form is taken, and what is unknown in it kept", () => {
    const text = factsText(today, ({ models }) => {
      models.rules["sound-waves"] = {};
      models.providers.openai.models[0].smell = "roses";
      models.rules.chat.openai[0].telepathy = true;
    }).replace('"schema": 1', '"schema": 7');
    const { models } = read(text);
    expect(models.providers["openai"]!.models![0]).toHaveProperty("smell", "roses");
    useFacts(models);
    expect(rulesFor("gpt-9-pro", [], rowsOf("chat", "openai"))).toHaveProperty("telepathy", true);
  });

  test("may name models with slashes, colons, days and regions", () => {
    const names = [
      "a/b/c",
      "ft:zeta-1:acme::x",
      "zeta-latest",
      "us.openai.zeta-1-v1:0",
      "zeta-1-2027-09-01",
      "__proto__",
    ];
    useFacts(
      read(
        factsText(today, ({ models }) => {
          models.providers.openai.models.push({ model: names, context: 77, source: "s" });
        }),
      ).models,
    );
    expect(names.map((name) => factsOf("openai", name).context)).toEqual(names.map(() => 77));
  });
});

test("other facts come in force where providers look them up, and go again", () => {
  const rows = rowsOf("chat", "openai");
  const listed = listedModels("xai");
  const before = [rows.length, [...listed], factsOf("openai", "zeta-1")] as const;
  expect(before[2]).toEqual({});
  const next = read(
    factsText(today, ({ models }) => {
      models.rules.chat.openai.unshift({ match: "zeta-*", sampling: "never", source: "s" });
      models.providers.openai.models.push({ model: "zeta-1", context: 9, source: "s" });
      models.providers.openai.listed = ["zeta-1"];
      models.providers.xai.listed = ["grok-9"];
    }),
  );
  useFacts(next.models);
  expect(rows).toHaveLength(before[0] + 1);
  expect(rulesFor("zeta-2", [], rows)).toMatchObject({ sampling: "never" });
  expect(factsOf("openai", "zeta-1.5")).toEqual({ context: 9, assumed: "zeta-1" });
  expect([[...listed], [...openai.models]]).toEqual([["grok-9"], ["zeta-1"]]);
  useFacts(compiledFacts);
  expect([rows.length, [...listed], factsOf("openai", "zeta-1")] as unknown[]).toEqual([...before]);
});

test("what a cloud takes of betas and versions comes with other facts, and goes again", () => {
  const cloud = cloudOf("vertex");
  const said = () => [
    ...[cloud.betaAs("effort-2025-11-24"), cloud.betaAs("advanced-tool-use-2025-11-20"), cloud.betaAs("__proto__")],
    ...[cloud.versionAs("2023-06-01"), cloud.versionAs("2026-10-21"), cloud.lackedMembers.includes("smell")],
  ];
  const before = [undefined, "tool-search-tool-2025-10-19", undefined, "vertex-2023-10-16", "2026-10-21", false];
  expect(said()).toEqual(before);
  const next = read(
    factsText(today, ({ models }) => {
      models.providers.vertex.betas.push({ beta: "effort-2025-11-24", source: "s" });
      models.providers.vertex.versions.push({ version: "2026-10-21", as: "vertex-new", source: "s" });
      models.beta_members.push({ betas: ["roses-2027-01-01"], members: ["smell"], source: "s" });
    }),
  );
  expect(factChanges(compiledFacts, next.models).map(({ what }) => what)).toEqual(
    expect.arrayContaining([
      ...["members of roses-2027-01-01", "vertex effort-2025-11-24 (beta)", "vertex 2026-10-21 (version)"],
    ]),
  );
  useFacts(next.models);
  const after = ["effort-2025-11-24", before[1], undefined, "vertex-2023-10-16", "vertex-new", true];
  expect(said()).toEqual(after);
  expect(cloudOf("nobody").betaAs("effort-2025-11-24")).toBeUndefined();
  useFacts(compiledFacts);
  expect(said()).toEqual(before);
});

describe("a pointer", () => {
  const keys = factsKeys();
  const text = factsText(today);
  const pointer = (given = {}, by = keys) => bytes(published(text, by, today, now, given)["facts.json"]!);
  const readIt = (given: Uint8Array, known: readonly string[] = [keys.publicKey]) =>
    readPointer(given, "https://facts.test/facts.json", known, now);

  test("names the file and what proves it", async () => {
    const { file, bytes: size, signature } = await readIt(pointer());
    expect([file, size]).toEqual([expect.stringMatching(/^facts-[0-9a-f]{64}\.json$/), Buffer.byteLength(text)]);
    expect(await isSigned(bytes(text), signature, ["bm9uc2Vuc2U=", keys.publicKey])).toBe(true);
    expect(await isSigned(bytes(`${text} `), signature, [keys.publicKey])).toBe(false);
  });

  test.each<[string, () => Uint8Array, RegExp]>([
    ["is not signed", () => bytes('{"as_of":"2027-11-28"}'), /: it is not signed$/],
    ["is signed by another", () => pointer({}, factsKeys()), /not signed by a key that this program knows$/],
    [
      "was changed",
      () => bytes(new TextDecoder().decode(pointer()).replace(today, "2027-11-27")),
      /not signed by a key that this program knows$/,
    ],
    ["is a web page", () => bytes("<html>"), /: it is a web page, not JSON$/],
    ["was cut off", () => pointer().slice(0, 99), /: it is damaged or cut off: no JSON$/],
    ["is of a day to come", () => pointer({ as_of: "2027-11-29" }), /it is of 2027-11-29, which is yet to come$/],
    [
      "stands still",
      () => pointer({ expires_at: now / 1000 }),
      /it stands still: it is of 2027-11-28, and ran out on 2027-11-28$/,
    ],
    ["names a file elsewhere", () => pointer({ file: "../facts.json" }), /signed\.file: must/],
    ["names a file of 200 MB", () => pointer({ bytes: 2e8 }), /signed\.bytes: must be an integer from 1 to 16777216$/],
  ])("that %s is refused", async (_, given, message) => {
    await expect(readIt(given())).rejects.toThrow(message);
  });

  test("is nobody's where the program knows no key", async () => {
    await expect(readIt(pointer(), [])).rejects.toThrow(/not signed by a key that this program knows$/);
  });
});
