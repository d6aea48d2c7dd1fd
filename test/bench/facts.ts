/**
 * What facts cost: a look-up on a call's path beside the patterns that held the same before, the memory of 3,000 models, what a start pays for
 * facts that were taken, and how long a renewal holds the thread that answers calls. By CPU time, in alternation, in one run; the p99 of calls is told too, as it is of the machine.
 * Run by `bun test/bench/facts.ts`; it ends with 1 where a bound is not kept.
 */
import { heapStats } from "bun:jsc";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readBundle } from "../../src/facts/bundle.ts";
import { compiledFacts, factsOf, rowsOf, useFacts } from "../../src/facts/facts.ts";
import { goBackToCompiled } from "../../src/facts/in-force.ts";
import { rulesFor } from "../../src/facts/rules.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { factsCopyPath, factsPartsOf, useCopy, writeCopy } from "../../src/usage/facts/copy.ts";
import { FactsRenewal } from "../../src/usage/facts/renewal.ts";
import { factsKeys, factsText, published } from "../helpers/facts-files.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { Troupe } from "../helpers/troupe.ts";
import { median, quantile } from "./statistics.ts";

const bounds = { lookUpMicros: 0.3, startMs: 3, memoryMb: 4, heldMs: 20 };
const today = new Date().toISOString().slice(0, 10);
const faults: string[] = [];

function tell(what: string, value: number, unit: string, most?: number): void {
  console.log(`${what}: ${value.toPrecision(3)} ${unit}${most === undefined ? "" : `, at most ${most}`}`);
  if (most !== undefined && value > most) faults.push(what);
}

/** CPU milliseconds of this process. */
function cpuOf(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Each in turn, so that what the machine does beside it falls on all. @returns the median of each */
function inTurn(rounds: number, runs: readonly (() => void)[]): number[] {
  const taken = runs.map(() => [] as number[]);
  for (let round = 0; round < rounds; round++) for (const [at, run] of runs.entries()) taken[at]!.push(cpuOf(run));
  return taken.map((one) => median(one));
}

const names: readonly (readonly [string, string])[] = [
  ...(["gpt-6.1-sol", "gpt-5.4-2026-03-05", "gpt-7-sol", "ft:gpt-5.6-luna:acme::1"] as const).map(
    (m) => ["openai", m] as const,
  ),
  ...(["claude-opus-5-5", "claude-haiku-4-5-20251001", "claude-opus-6"] as const).map((m) => ["anthropic", m] as const),
  ...(["gemini-3.8-flash", "models/gemini-3.9-flash"] as const).map((m) => ["google", m] as const),
  ["bedrock", "us.anthropic.claude-opus-5-5"],
];
/** Eight patterns a model, as providers' `rules.ts` had them. */
const patterns = [
  /^gpt-5(?![.\d])/,
  /^gpt-5\.[4-9]/,
  /^o\d/,
  /codex/,
  /^claude-(?:opus|sonnet)-5/,
  /^claude-3/,
  /^gemini-3/,
  /-pro/,
];
const lookUps = 200_000;
let kept: unknown;

function measureLookUps(): void {
  const rows = rowsOf("chat", "openai");
  const none: readonly never[] = [];
  const each = (run: (provider: string, model: string) => unknown) => () => {
    for (let at = 0; at < lookUps; at++) {
      const [provider, model] = names[at % names.length]!;
      kept = run(provider, model);
    }
  };
  const found = inTurn(21, [
    each((_, model) => model),
    each((_, model) => patterns.filter((one) => one.test(model)).length),
    each(factsOf),
    each((_, model) => rulesFor(model, none, rows)),
  ]).map((ms) => (ms / lookUps) * 1000);
  const [loop = 0, before = 0, facts = 0, rules = 0] = found;
  tell("patterns, as before", before - loop, "µs");
  tell("factsOf", facts - loop, "µs", bounds.lookUpMicros);
  tell("rulesFor", rules - loop, "µs", bounds.lookUpMicros);
}

/** 3,000 models of as many lines and numbers as there may be, with prices. */
const large = (): string =>
  factsText(today, ({ models, prices }) => {
    const [sample] = models.providers.anthropic.models;
    models.providers.vast = {
      models: Array.from({ length: 3000 }, (_, at) => ({
        ...sample,
        model: `vast-${at % 300}-${at % 90}.${at % 7}-x${at}`,
      })),
    };
    prices.providers.push({
      ...{ id: "vast", api: "https://vast\\.test", fallbacks: [] },
      models: Array.from({ length: 3000 }, (_, at) => ({
        id: `vast-${at}`,
        match: { equals: `vast-${at}` },
        prices: { input_mtok: 1, output_mtok: 2, cache_read_mtok: 0.1 },
      })),
    });
  });

function measureMemory(text: string): void {
  const size = () => {
    Bun.gc(true);
    return heapStats().heapSize + heapStats().extraMemorySize;
  };
  const parse = () => readBundle(new TextEncoder().encode(text), "facts.json", today).models;
  useFacts(compiledFacts);
  const before = size();
  useFacts(parse());
  factsOf("vast", "vast-1");
  tell("3,000 models", (size() - before) / 1024 / 1024, "MB", bounds.memoryMb);
  useFacts(compiledFacts);
}

function measureStart(usual: string, many: string, folder: string): void {
  const copied = (text: string, name: string) => {
    const data = join(folder, name);
    Bun.spawnSync(["mkdir", "-p", data]);
    const bundle = readBundle(new TextEncoder().encode(text), "facts.json", today);
    const renewed = { sha256: name.padEnd(64, "0"), asOf: today, source: "bench" };
    writeCopy(data, renewed, factsPartsOf(bundle), false);
    if (!Bun.file(factsCopyPath(data)).size) throw new Error("no copy");
    return { data, renewed, parts: factsPartsOf(bundle) };
  };
  const [one, other] = [copied(usual, "usual"), copied(many, "many")];
  const use = (data: string) => () => {
    goBackToCompiled();
    const fault = useCopy(data, today);
    if (fault !== undefined) throw new Error(fault);
  };
  const renew =
    ({ data, renewed, parts }: typeof one) =>
    () => {
      writeCopy(data, renewed, parts, false);
      use(data)();
    };
  const [none = 0, usualMs = 0, manyMs = 0, usualHeld = 0, held = 0] = inTurn(21, [
    () => goBackToCompiled(),
    use(one.data),
    use(other.data),
    renew(one),
    renew(other),
  ]);
  tell("a start with facts that were taken", usualMs - none, "ms", bounds.startMs);
  tell("a start with 3,000 models more", manyMs - none, "ms");
  tell("a renewal holds the calls' thread", usualHeld - none, "ms");
  tell("a renewal of 3,000 models holds the calls' thread, once a day", held - none, "ms", bounds.heldMs);
}

const callsOfRound = 3000;
const callers = 4;

/** @returns the 99th percentile of calls' milliseconds while `beside` runs */
async function p99(url: string, key: string, beside: () => Promise<unknown>): Promise<number> {
  const body = JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "Hi" }] });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const taken: number[] = [];
  let other: Promise<unknown> | undefined;
  const caller = async () => {
    while (taken.length < callsOfRound) {
      const before = performance.now();
      await (await fetch(`${url}/gateway/v1/chat/completions`, { method: "POST", headers, body })).arrayBuffer();
      taken.push(performance.now() - before);
      if (taken.length > callsOfRound / 4) other ??= beside();
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  await other;
  return quantile(taken, 0.99);
}

/** Rounds with a renewal in their midst, and rounds without, in alternation. */
async function measureRenewal(folder: string): Promise<void> {
  await using troupe = await Troupe.start({});
  const store = openStore(folder);
  const keys = factsKeys();
  const source = join(folder, "published");
  Bun.spawnSync(["mkdir", "-p", source]);
  const none: number[] = [];
  const having: number[] = [];
  for (let round = 0; round < 7; round++) {
    const text = factsText(today, ({ models }) =>
      models.providers.openai.models.push({ model: `n-${round}`, context: 1, source: "s" }),
    );
    for (const [name, file] of Object.entries(published(text, keys, today, Date.now())))
      await Bun.write(join(source, name), file);
    const renewal = new FactsRenewal({
      ...{
        facts: store.facts,
        settings: () => ({ update: "daily", from: source }),
        keys: [keys.publicKey],
        data: folder,
      },
      ...{ concerns: async () => [], onChange: () => {}, log: silentLogger },
      clock: { ...systemClock, now: () => Date.now() + round * 90_000_000 },
    });
    none.push(await p99(troupe.url, troupe.key, async () => {}));
    having.push(await p99(troupe.url, troupe.key, () => renewal.look()));
    if (renewal.failure !== undefined) throw new Error(renewal.failure);
    await renewal.close();
  }
  await store.close();
  goBackToCompiled();
  const [before, after] = [median(none), median(having)];
  console.log(
    `p99 of ${callsOfRound} calls: ${before.toFixed(2)} ms, with a renewal in their midst ${after.toFixed(2)} ms`,
  );
}

const folder = mkdtempSync(join(tmpdir(), "troupe-facts-"));
try {
  measureLookUps();
  const many = large();
  measureMemory(many);
  measureStart(factsText(today), many, folder);
  await measureRenewal(folder);
  if (kept === undefined) faults.push("nothing was looked up");
  if (faults.length > 0) console.error(`not kept: ${faults.join("; ")}`);
  process.exitCode = faults.length > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
