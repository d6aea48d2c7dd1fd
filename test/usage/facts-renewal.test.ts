/** Facts that renew themselves: by whom, when, and what is refused while the last good ones count. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { factsOf } from "../../src/facts/facts.ts";
import { goBackToCompiled, inForce } from "../../src/facts/in-force.ts";
import type { Store } from "../../src/store/contract/store.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { factsCopyPath, useCopy } from "../../src/usage/facts/copy.ts";
import { FactsRenewal, factsMetrics, type RenewalTools } from "../../src/usage/facts/renewal.ts";
import { checkInThread } from "../../src/usage/facts/thread.ts";
import { type Change, dayOf, factsKeys, factsText, published, sha256 } from "../helpers/facts-files.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const dayMs = 86_400_000;
const start = Date.parse("2027-03-01T12:00:00Z");
const keys = factsKeys();

let folder: TempFolder;
let store: Store;
let clock: ManualClock;
beforeEach(() => {
  folder = new TempFolder();
  mkdirSync(folder.file("data"));
  store = openStore(folder.file("data"));
  clock = new ManualClock(start);
});
afterEach(async () => {
  goBackToCompiled();
  await store.close();
  folder[Symbol.dispose]();
});

/** A place where facts are published, which counts what it was asked. */
function placeOf(answer: (name: string) => Response | Promise<Response>) {
  const asked: string[] = [];
  const server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1", idleTimeout: 0 },
    fetch(request) {
      asked.push(new URL(request.url).pathname.slice(1));
      return answer(asked.at(-1)!);
    },
  });
  return { asked, url: `http://127.0.0.1:${server.port}`, [Symbol.dispose]: () => void server.stop(true) };
}
const filesAt = (files: () => Readonly<Record<string, string>>) =>
  placeOf((name) => new Response(files()[name] ?? "", { status: name in files() ? 200 : 404 }));

const publishedOn = (now: number, change?: Change) => published(factsText(dayOf(now), change), keys, dayOf(now), now);

/** A file that most tests take is read by a thread once. */
const read = new Map<string, ReturnType<typeof checkInThread>>();
const check: typeof checkInThread = (job) => {
  const known = `${job.file} ${job.today} ${sha256(job.bytes)}`;
  return read.get(known) ?? read.set(known, checkInThread(job)).get(known)!;
};

function renewal(from: string | undefined, changes: Partial<RenewalTools> = {}): FactsRenewal {
  return new FactsRenewal({
    facts: store.facts,
    settings: () => (from === undefined ? { update: "off" } : { update: "daily", from }),
    ...{ keys: [keys.publicKey], data: folder.file("data"), concerns: async () => [], onChange: () => {} },
    ...{ clock, log: silentLogger, check, ...changes },
  });
}

test("nothing is looked for where it is off, nor at a start", async () => {
  using place = filesAt(() => publishedOn(start));
  await using off = closing(renewal(undefined));
  await using daily = closing(renewal(place.url));
  off.one.start();
  daily.one.start();
  clock.advance(59_000);
  await off.one.look();
  expect(place.asked).toEqual([]);
});

const closing = (one: FactsRenewal) => ({ one, [Symbol.asyncDispose]: () => one.close() });

test("one of all that look takes them, once a day, and they count for all and at the next start", async () => {
  using place = filesAt(() => publishedOn(clock.now()));
  const changes: string[] = [];
  const nodes = [1, 2, 3].map((at) => renewal(place.url, { onChange: () => changes.push(`${at}`) }));
  await Promise.all(nodes.map((node) => node.look()));
  expect(place.asked).toEqual(["facts.json", expect.stringMatching(/^facts-[0-9a-f]{64}\.json$/)]);
  expect(inForce().renewed).toMatchObject({ asOf: "2027-03-01", source: `${place.url}/${place.asked[1]}` });
  expect(factsOf("openai", "zeta-1").context).toBe(3_000_000);
  expect(inForce().list.find("openai", "", "zeta-1")!.at(start)).toEqual({ input_mtok: 7, output_mtok: 70 });
  expect(factsMetrics["troupe_facts_timestamp_seconds"]).toBeDefined();

  // Within the day nobody asks; after it one does, and a file that is known is not read again.
  clock.advance(dayMs - 1);
  await Promise.all(nodes.map((node) => node.look()));
  expect(place.asked).toHaveLength(2);
  clock.advance(1);
  await Promise.all(nodes.map((node) => node.look()));
  expect(place.asked.slice(2)).toEqual(["facts.json", expect.stringMatching(/^facts-/)]);
  expect(inForce().renewed?.asOf).toBe("2027-03-02");

  // A start has them by the copy alone.
  goBackToCompiled();
  expect(useCopy(folder.file("data"), dayOf(clock.now()))).toBeUndefined();
  expect(inForce().renewed?.asOf).toBe("2027-03-02");
});

test("a folder serves as well as an address", async () => {
  for (const [name, text] of Object.entries(publishedOn(start))) writeFileSync(folder.file(name), text);
  await renewal(folder.path).look();
  expect(inForce().renewed?.asOf).toBe("2027-03-01");
});

test("what somebody went back from is not taken again, but what is newer", async () => {
  using place = filesAt(() => publishedOn(start + (clock.now() < start + 2 * dayMs ? 0 : dayMs)));
  const node = renewal(place.url);
  await node.look();
  await store.facts.goBack(null, inForce().renewed!.sha256);
  await node.follow();
  expect(inForce().renewed).toBeUndefined();
  clock.advance(dayMs);
  await node.look();
  expect([inForce().renewed, node.failure]).toEqual([undefined, undefined]);
  clock.advance(dayMs);
  await node.look();
  expect(inForce().renewed?.asOf).toBe("2027-03-02");
});

describe("what is wrong leaves the last good facts in force, and says so:", () => {
  /** Answers, once good facts were taken. */
  const cases: [string, () => (name: string) => Response | Promise<Response>, RegExp][] = [
    ["a page", () => () => new Response("<html>Sign in</html>"), /facts\.json: it is a web page, not JSON$/],
    ["nothing", () => () => new Response(""), /facts\.json: it is empty$/],
    ["an error", () => () => new Response("", { status: 503 }), /answers with the status 503$/],
    [
      "a way elsewhere",
      () => () => new Response(null, { status: 302, headers: { location: "https://elsewhere.test/facts.json" } }),
      /redirects to https:\/\/elsewhere\.test\/facts\.json: name the address that answers itself$/,
    ],
    ["no end", () => () => new Promise<Response>(() => {}), /did not answer in time$/],
    ["a first byte, and no more", () => () => new Response(dripping()), /did not answer in time$/],
    ["a pointer that is cut off", () => () => new Response('{"signed": "{'), /it is damaged or cut off: no JSON$/],
    [
      "a file that goes elsewhere",
      () => (name) =>
        name === "facts.json"
          ? new Response(files2()[name])
          : new Response(null, { status: 301, headers: { location: "/other" } }),
      /facts-[0-9a-f]{64}\.json redirects to \/other: name the address that answers itself$/,
    ],
    ["200 MB", () => () => new Response(endless()), /has more than 65536 bytes$/],
    ["no signature", () => () => Response.json({ schema: 1, as_of: "2027-03-02" }), /facts\.json: it is not signed$/],
    [
      "another's signature",
      () => serving(published(factsText("2027-03-02"), factsKeys(), "2027-03-02", later)),
      /signed by a key/,
    ],
    ["facts of tomorrow", () => serving(publishedOn(later + dayMs)), /is of 2027-03-03, which is yet to come$/],
    [
      "a pointer that stands still",
      () => serving(published(factsText("2027-03-02"), keys, "2027-03-02", later, { expires_at: later / 1000 - 1 })),
      /it stands still: it is of 2027-03-02, and ran out on 2027-03-02$/,
    ],
    ["older facts", () => serving(publishedOn(start - dayMs)), /older than the facts in use, which are of 2027-03-01/],
    [
      "a file that is cut off",
      () => (name) => new Response((files2()[name] ?? "").slice(0, name === "facts.json" ? undefined : 9999)),
      /facts-[0-9a-f]{64}\.json: it is cut off: 9999 bytes of \d+$/,
    ],
    [
      "a file that was changed",
      () => (name) => new Response((files2()[name] ?? "").replace('"zeta-1"', '"zeta-2"')),
      /it is not what its name says: its SHA-256 differs$/,
    ],
    [
      "a price of text",
      () => serving(publishedOn(later, ({ prices }) => (prices.providers[0].models[0].prices.input_mtok = "3"))),
      /^facts-[0-9a-f]{64}\.json:\d+:\d+: prices\.providers\[0\]\.models\[0\]\.prices\.input_mtok: must be a number/,
    ],
    [
      "a negative price",
      () => serving(publishedOn(later, ({ prices }) => (prices.providers[0].models[0].prices.input_mtok = -3))),
      /prices\.input_mtok: must be a number from 0 to 1000000/,
    ],
    [
      "a price of a milliard",
      () => serving(publishedOn(later, ({ prices }) => (prices.providers[0].models[0].prices.input_mtok = 1e9))),
      /prices\.input_mtok: must be a number from 0 to 1000000/,
    ],
    [
      "two rows for one model",
      () =>
        serving(
          publishedOn(later, ({ models }) =>
            models.providers.xai.models.push(structuredClone(models.providers.xai.models[0])),
          ),
        ),
      /models\.providers\.xai\.models\[\d+\]\.model: '[^']+' has context by models\[0\] too$/,
    ],
    [
      "a file whose signature is another's",
      () =>
        serving(published(factsText("2027-03-02"), keys, "2027-03-02", later, { signature: factsKeys().sign("x") })),
      /facts-[0-9a-f]{64}\.json: it is not signed by a key that this program knows$/,
    ],
  ];
  const later = start + dayMs;
  const serving = (files: Readonly<Record<string, string>>) => (name: string) =>
    new Response(files[name] ?? "", { status: name in files ? 200 : 404 });
  const files2 = () => (made ??= publishedOn(later));
  let made: Readonly<Record<string, string>> | undefined;
  const dripping = () => new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(1)) });
  const endless = () => new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(64 * 1024)) });

  test.each(cases)("%s", async (_, answer, failure) => {
    let answers: (name: string) => Response | Promise<Response> = serving(publishedOn(start));
    using place = placeOf((name) => answers(name));
    const node = renewal(place.url);
    await node.look();
    const good = inForce().renewed;
    expect(good?.asOf).toBe("2027-03-01");
    answers = answer();
    clock.advance(dayMs);
    const impatient = renewal(place.url, { withinMs: 500 });
    await impatient.look();
    expect(impatient.failure).toMatch(failure);
    expect(inForce().renewed).toEqual(good!);
    expect(await store.facts.state()).toMatchObject({ inForce: good!.sha256, failure: impatient.failure! });
    // An hour later it is tried again.
    answers = serving(publishedOn(later));
    clock.advance(60 * 60_000);
    await node.look();
    expect([inForce().renewed?.asOf, node.failure]).toEqual(["2027-03-02", undefined]);
  });

  test("no key in the build", async () => {
    using place = filesAt(() => publishedOn(start));
    const node = renewal(place.url, { keys: [] });
    await node.look();
    expect([place.asked, inForce().renewed]).toEqual([[], undefined]);
    expect(node.failure).toMatch(/built without a public key, .* troupe facts update --from <file> --sha256 <hash>$/);
  });

  test("a price that a model in use would lose", async () => {
    using place = filesAt(() => publishedOn(start));
    const node = renewal(place.url, { concerns: async () => ["it has no price of openai/gpt-5.4, which is in use"] });
    await node.look();
    expect(node.failure).toMatch(/is not taken by itself: it has no price of openai\/gpt-5\.4, which is in use\. Look/);
    expect(inForce().renewed).toBeUndefined();
  });

  test("a copy that was damaged", async () => {
    using place = filesAt(() => publishedOn(start));
    await renewal(place.url).look();
    const path = factsCopyPath(folder.file("data"));
    writeFileSync(path, readFileSync(path, "utf8").replace('"zeta-1"', '"zeta-2"'));
    goBackToCompiled();
    expect(useCopy(folder.file("data"), dayOf(start))).toMatch(/facts\.json is damaged: 'troupe facts update' takes/);
    expect(inForce().renewed).toBeUndefined();
    // The store has them still.
    await renewal(undefined).follow();
    expect(inForce().renewed?.asOf).toBe("2027-03-01");
  });
});
