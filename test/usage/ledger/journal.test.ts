import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../../src/lib/process/log.ts";
import type { LedgerLine, LedgerRepository } from "../../../src/store/contract/usage.ts";
import type { VariantCall } from "../../../src/store/contract/variants.ts";
import { openStore, type SqliteStore } from "../../../src/store/sqlite/store.ts";
import { LedgerJournal, writeLeftLines } from "../../../src/usage/ledger/journal.ts";
import { LedgerWriter } from "../../../src/usage/ledger/writer.ts";
import { begunLine } from "../../helpers/budgeted-call.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

let folder: TempFolder;
let journals: LedgerJournal[];

beforeEach(() => {
  folder = new TempFolder();
  journals = [];
});
afterEach(() => {
  for (const journal of journals) journal.close(true);
  folder[Symbol.dispose]();
});

function opened(): LedgerJournal {
  const journal = LedgerJournal.open(folder.path)!;
  journals.push(journal);
  return journal;
}

/** As the end of its process does: what it has noted stays, and its lock goes. */
function die(journal: LedgerJournal): void {
  journals.splice(journals.indexOf(journal), 1);
  journal.close(false);
}

const files = () =>
  existsSync(join(folder.path, "ledger-notes")) ? readdirSync(join(folder.path, "ledger-notes")) : [];
const onlyFile = () => join(folder.path, "ledger-notes", files()[0]!);

/** @returns the lines that the next start writes */
async function leftLines(): Promise<LedgerLine[]> {
  const left: LedgerLine[] = [];
  const append = async (lines: readonly LedgerLine[]) => left.push(...lines) && { added: lines.length, spending: [] };
  await writeLeftLines(folder.path, { append } as unknown as LedgerRepository, silentLogger);
  return left;
}

/** What two calls of one variant are counted by. */
const variantCalls = (["answered", "failed"] as const).map((outcome): VariantCall => {
  const rule = {
    ...{ variant: "next", calls: 100, errors: 14 },
    ...{ refusals: null, slow: null, slowMs: null, cost: null },
  };
  return { ...{ persona: "gute/fée", version: "3f2a91c07b1e", variant: "next", outcome }, rules: [rule] };
});

const lines: readonly LedgerLine[] = [
  ledgerLine("req_1", { tier: "free" }),
  ledgerLine("req_1", { attempt: 2, tier: "pro" }),
  ledgerLine("req_2", { tags: ["a", "b"], persona: "gute/fée", personaVersion: "3f2a91c07b1e" }),
  ledgerLine("req_3", { cost: null, costs: null, status: null, firstTokenMs: null, priceSource: "unknown" }),
  ledgerLine("req_4", { costs: null, cost: 0, ended: "replayed", callOf: "req_1", counted: "none" }),
  ledgerLine("req_5", { provider: null, upstreamModel: null, ended: "refused", status: 429, totalMs: 0 }),
  ledgerLine("req_6", { tokens: { ...ledgerLine("").tokens, input: 1_000_000_000 }, cost: 9_007_199_254_740_991 }),
  ledgerLine("req_7", { tier: "free" }),
  ...variantCalls.map((variantCall, at) => ledgerLine(`req_7_${at}`, { variant: "next", variantCall })),
  begunLine("req_8", { tier: "free", persona: "acme/support" }),
  begunLine("req_9", { cost: 0, counted: "none" }),
];

test("lines of every kind are read back as they were, and only once", async () => {
  const journal = opened();
  for (const line of lines) expect(journal.note(line)).toBe(true);
  die(journal);
  expect(await leftLines()).toEqual([...lines]);
  expect([await leftLines(), files()]).toEqual([[], []]);
});

test("kinds of calls in turns, more than are remembered at once, are told apart", async () => {
  const journal = opened();
  const mixed = Array.from({ length: 300 }, (_, at) => ledgerLine(`req_${at}`, { model: `openai/model-${at % 23}` }));
  for (const line of mixed) journal.note(line);
  die(journal);
  expect(await leftLines()).toEqual(mixed);
});

test("all is kept until it is forgotten, and what the ledger lacks then is not", async () => {
  const journal = opened();
  const [written, begun, waiting, late] = [
    ledgerLine("req_1"),
    begunLine("req_2"),
    ledgerLine("req_3"),
    ledgerLine("req_4"),
  ];
  for (const line of [written, begun, waiting]) journal.note(line);
  expect(journal.isHalfFull).toBe(false);
  expect(journal.keep([begun, waiting])).toBe(true);
  journal.note(late);
  die(journal);
  expect(await leftLines()).toEqual([begun, waiting, late]);
});

test("of a line that was noted twice the later one counts, also when lines were forgotten in between", async () => {
  const journal = opened();
  const held = ledgerLine("req_1", { priceNote: "tokens reckoned by the length of the text" });
  journal.note(held);
  for (let times = 0; times < 3; times++) journal.keep([held]);
  journal.note(ledgerLine("req_1"));
  die(journal);
  expect(await leftLines()).toEqual([ledgerLine("req_1")]);
});

test("where what is to be kept has no room, nothing is forgotten", async () => {
  const journal = opened();
  journal.note(ledgerLine("req_1"));
  const many = Array.from({ length: 30_000 }, (_, at) => begunLine(`req_${at}`));
  expect(journal.keep(many)).toBe(false);
  expect(journal.note(ledgerLine("req_2"))).toBe(true);
  die(journal);
  expect(await leftLines()).toEqual([ledgerLine("req_1"), ledgerLine("req_2")]);
});

test("a full area notes no more, and loses nothing that it has", async () => {
  const journal = opened();
  let noted = 0;
  while (journal.note(ledgerLine(`req_${noted}`))) noted += 1;
  expect(noted).toBeGreaterThan(2_000);
  die(journal);
  expect(await leftLines()).toEqual(Array.from({ length: noted }, (_, at) => ledgerLine(`req_${at}`)));
});

test("a living process's file is left alone", async () => {
  const journal = opened();
  journal.note(ledgerLine("req_1"));
  expect(await leftLines()).toEqual([]);
  expect(files()).toHaveLength(1);
  journals = [];
  journal.close(true);
  expect(files()).toEqual([]);
});

test("what the store refuses stays for the next start", async () => {
  const journal = opened();
  journal.note(ledgerLine("req_1"));
  die(journal);
  const append = () => Promise.reject(new Error("disk full"));
  const warned: unknown[] = [];
  const log = { ...silentLogger, warn: (...words: unknown[]) => warned.push(words) } as unknown as Logger;
  await writeLeftLines(folder.path, { append } as unknown as LedgerRepository, log);
  expect(warned).toHaveLength(1);
  expect(await leftLines()).toEqual([ledgerLine("req_1")]);
});

test("damaged notes end before the damage, wherever it is; a file cut short or never finished goes", async () => {
  const journal = opened();
  const three = [ledgerLine("req_1"), ledgerLine("req_2"), ledgerLine("req_3", { model: "openai/other" })];
  for (const line of three) journal.note(line);
  die(journal);
  const path = onlyFile();
  const whole = readFileSync(path);
  for (let at = 16; at < 1_700; at += 7) {
    const damaged = Buffer.from(whole);
    damaged[at] = damaged[at]! ^ 0x41;
    writeFileSync(path, damaged);
    const left = await leftLines();
    expect({ at, left }).toEqual({ at, left: three.slice(0, left.length) });
    writeFileSync(path, whole);
  }
  expect(await leftLines()).toEqual(three);
  writeFileSync(path, whole);
  truncateSync(path, 0);
  writeFileSync(`${path}.unfinished`, "half");
  expect([await leftLines(), files()]).toEqual([[], []]);
});

test("a file of another version is left to it", async () => {
  const journal = opened();
  journal.note(ledgerLine("req_1"));
  die(journal);
  const foreign = readFileSync(onlyFile());
  foreign.writeUInt32LE(7, 0);
  writeFileSync(onlyFile(), foreign);
  expect(await leftLines()).toEqual([]);
  expect(files()).toHaveLength(1);
});

test("the writer notes calls from their beginning until the store has their lines", async () => {
  const store: SqliteStore = openStore(folder.path);
  const clock = new ManualClock();
  let journal: LedgerJournal | undefined;
  const openJournal = () => (journal = opened());
  const writer = new LedgerWriter({ ledger: store.ledger, clock, log: silentLogger, openJournal });
  const begun = ["req_1", "req_2", "req_3"].map((id) => writer.begin(begunLine(id), false));
  writer.push(ledgerLine("req_1"), begun[0]);
  await writer.flush();
  writer.push(ledgerLine("req_2"), begun[1]);
  die(journal!);
  await writeLeftLines(folder.path, store.ledger, silentLogger);
  const left = await store.ledger.lines({ since: 0, until: 4e12, limit: 10 });
  expect(left.map(({ requestId, ended }) => `${requestId} ${ended}`).sort()).toEqual([
    "req_1 finished",
    "req_2 finished",
    "req_3 interrupted",
  ]);
  await store.close();
});

test("what calls that came and went have noted is forgotten; the one that is under way stays", async () => {
  const store: SqliteStore = openStore(folder.path);
  const clock = new ManualClock();
  let journal: LedgerJournal | undefined;
  const openJournal = () => (journal = opened());
  const writer = new LedgerWriter({ ledger: store.ledger, clock, log: silentLogger, openJournal });
  writer.begin(begunLine("req_held"), false);
  let wasHalfFull = false;
  for (let call = 0; call < 6_000; call++) {
    const begun = writer.begin(begunLine(`req_${call}`), false);
    writer.push(ledgerLine(`req_${call}`), begun);
    wasHalfFull ||= journal!.isHalfFull;
    if (call % 300 === 299) await writer.flush();
  }
  expect([wasHalfFull, journal!.note(ledgerLine("req_more"))]).toEqual([true, true]);
  die(journal!);
  const left = await leftLines();
  expect(left.length).toBeLessThan(3_000);
  expect(left).toContainEqual(begunLine("req_held"));
  await store.close();
});

test("closed while the store refuses, the writer leaves its lines to the next start, and says so", async () => {
  const said: unknown[] = [];
  const log = { ...silentLogger, error: (...words: unknown[]) => said.push(words) } as unknown as Logger;
  const append = () => Promise.reject(new Error("disk full"));
  const ledger = { append } as unknown as LedgerRepository;
  const openJournal = () => LedgerJournal.open(folder.path);
  const writer = new LedgerWriter({ ledger, clock: new ManualClock(), log, openJournal });
  writer.push(ledgerLine("req_1"));
  await writer.close();
  expect(said.at(-1)).toEqual(["lines of the ledger could not be written; the next start writes them", { lines: 1 }]);
  expect(writer.counts.lost).toBe(0);
  expect(await leftLines()).toEqual([ledgerLine("req_1")]);
});

test("where no file can be made, lines are written as ever", async () => {
  const store: SqliteStore = openStore(folder.path);
  const openJournal = () => {
    throw new Error("read-only");
  };
  const writer = new LedgerWriter({ ledger: store.ledger, clock: new ManualClock(), log: silentLogger, openJournal });
  writer.push(ledgerLine("req_1"));
  await writer.close();
  const page = { since: 0, until: 4e12, limit: 10 };
  expect((await store.ledger.lines(page)).map(({ requestId }) => requestId)).toEqual(["req_1"]);
  await store.close();
});
