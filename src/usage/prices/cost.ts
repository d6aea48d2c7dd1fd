/** What counted tokens cost, exactly. */
import { type CostParts, costKinds } from "../../store/store.ts";
import type { Counted } from "../counts.ts";
import { microDollars, type Rate, type RateCard, type Rates, ratesAbove, type UnitKind } from "./rates.ts";

export type Cost = {
  /** Micro-dollars, rounded half up once, of the exact sum. */
  readonly total: number;
  /** Their sum is the total. */
  readonly parts: CostParts;
  /** What was taken in place of a rate that is missing. */
  readonly notes: readonly string[];
};

/** @returns the cost; or, in words, why it is unknown */
export function costOf(counted: Counted, card: RateCard, serviceTier: string | undefined): Cost | string {
  const { tokens } = counted;
  let rates = ratesAbove(card, tokens.input);
  let factor = 1000n;
  if (serviceTier !== undefined) {
    const tier = Object.hasOwn(card.serviceTiers, serviceTier) ? card.serviceTiers[serviceTier] : undefined;
    if (tier === undefined) return `no rate for the service tier ${serviceTier}`;
    if (typeof tier === "bigint") factor = tier;
    else rates = tier;
  }
  const bill = new Bill(rates);
  addInput(bill, counted);
  addOutput(bill, counted);
  const { request, image, audioSecond, tools } = rates;
  if (request !== undefined) bill.addUnits("other", 1, request);
  const { images, audioSeconds } = counted;
  // Where tokens are told, it is by them that images are billed.
  if (images > 0 && image === undefined && tokens.input + tokens.output === 0) return "no rate for images";
  if (images > 0 && image !== undefined) bill.addUnits("other", images, image);
  if (audioSeconds > 0 && audioSecond === undefined) return "no rate for minutes of audio";
  if (audioSecond !== undefined) bill.addUnits("other", audioSeconds, audioSecond);
  for (const [tool, uses] of Object.entries(counted.tools)) {
    const rate = Object.hasOwn(tools, tool) ? tools[tool] : undefined;
    if (rate === undefined) bill.notes.push(`no rate for ${tool}: its uses are not counted`);
    else bill.addUnits("other", uses, rate);
  }
  return bill.missing ?? bill.cost(factor);
}

function addInput(bill: Bill, { tokens, audioCacheRead, imageInput }: Counted): void {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, audioInput } = tokens;
  const heard = audioInput - audioCacheRead;
  const plain = input - cacheRead - cacheWrite5m - cacheWrite1h - heard - imageInput;
  bill.add("input", plain, "input");
  bill.add("cacheRead", cacheRead - audioCacheRead, "cacheRead", ["input"]);
  bill.add("cacheRead", audioCacheRead, "audioCacheRead", ["audioInput", "cacheRead", "input"]);
  bill.add("cacheWrite", cacheWrite5m, "cacheWrite", ["input"]);
  bill.add("cacheWrite", cacheWrite1h, "cacheWrite1h", ["cacheWrite", "input"]);
  bill.add("audioInput", heard, "audioInput", ["input"]);
  bill.add("input", imageInput, "imageInput", ["input"], true);
}

function addOutput(bill: Bill, { tokens, imageOutput }: Counted): void {
  const { output, reasoning, audioOutput } = tokens;
  bill.add("output", output - reasoning - audioOutput - imageOutput, "output");
  // Everybody bills thoughts as output where no other rate is said.
  bill.add("reasoning", reasoning, "reasoning", ["output"], true);
  bill.add("audioOutput", audioOutput, "audioOutput", ["output"]);
  bill.add("output", imageOutput, "imageOutput", ["output"]);
}

type Part = (typeof costKinds)[number];

/** Adds up in billionths of a micro-dollar. */
class Bill {
  readonly #rates: Rates;
  readonly #parts = new Map<Part, bigint>();
  readonly notes: string[] = [];
  /** The kind of tokens that nothing is known of, in words. */
  missing: string | undefined;

  constructor(rates: Rates) {
    this.#rates = rates;
  }

  /** @param others whose dearest rate is taken where `kind` has none @param isUsual whether that needs no word */
  add(part: Part, count: number, kind: UnitKind, others: readonly UnitKind[] = [], isUsual = false): void {
    if (count <= 0) return;
    const own = this.#rates.tokens[kind];
    const rate = own ?? dearest(others.map((other) => this.#rates.tokens[other]));
    if (rate === undefined) {
      this.missing ??= `no rate for ${words[kind]}`;
      return;
    }
    if (own === undefined && !isUsual)
      this.notes.push(`no rate for ${words[kind]}: the dearest of their kinds is taken`);
    this.addUnits(part, count, rate);
  }

  addUnits(part: Part, count: number, rate: Rate): void {
    this.#parts.set(part, (this.#parts.get(part) ?? 0n) + BigInt(count) * rate);
  }

  /** @param factor in thousandths */
  cost(factor: bigint): Cost {
    const unit = microDollars * 1000n;
    const exact = costKinds.map((kind) => (this.#parts.get(kind) ?? 0n) * factor);
    const total = (exact.reduce((sum, one) => sum + one, 0n) + unit / 2n) / unit;
    const whole = exact.map((one) => one / unit);
    let left = Number(total - whole.reduce((sum, one) => sum + one, 0n));
    // What rounding leaves goes to the parts that lost most by it.
    const byLoss = exact.map((one, at) => ({ at, lost: one % unit })).sort((a, b) => (a.lost < b.lost ? 1 : -1));
    for (const { at } of byLoss) {
      if (left <= 0) break;
      whole[at]! += 1n;
      left -= 1;
    }
    const parts = Object.fromEntries(costKinds.map((kind, at) => [kind, Number(whole[at])])) as CostParts;
    return { total: Number(total), parts, notes: this.notes };
  }
}

const words: { readonly [Kind in UnitKind]: string } = {
  input: "input tokens",
  cacheRead: "cached tokens",
  cacheWrite: "tokens written to the cache",
  cacheWrite1h: "tokens written to the cache for an hour",
  output: "output tokens",
  reasoning: "reasoning tokens",
  audioInput: "audio input",
  audioCacheRead: "cached audio",
  audioOutput: "audio output",
  imageInput: "image input",
  imageOutput: "image output",
};

function dearest(rates: readonly (Rate | undefined)[]): Rate | undefined {
  let found: Rate | undefined;
  for (const rate of rates) if (rate !== undefined && (found === undefined || rate > found)) found = rate;
  return found;
}
