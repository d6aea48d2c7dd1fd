/** Calculates the exact cost of counted tokens. */

import { type RateCard, ratesAbove, type UnitKind } from "../../facts/prices/rates.ts";
import { type CostParts, costKinds } from "../../store/contract/usage.ts";
import type { Counted } from "../tokens/counts.ts";
import { type Scaled, type Tariff, tariffOf } from "./tariff.ts";

export type Cost = {
  /** Micro-dollars, rounded half up once, of the exact sum. */
  readonly total: number;
  /** Their sum is the total. */
  readonly parts: CostParts;
  /** Notes on rates taken in place of missing ones. */
  readonly notes: readonly string[];
};

/** Factor by which the cost of tokens and calls is multiplied; a product of thousandths. */
type Factor = { readonly times: bigint; readonly per: bigint };
const whole: Factor = { times: 1n, per: 1n };

/** @returns the cost; or, in words, why it is unknown */
export function costOf(counted: Counted, card: RateCard, serviceTier: string | undefined): Cost | string {
  const { tokens } = counted;
  let rates = ratesAbove(card, tokens.input);
  let factor = whole;
  for (const name of serviceTier === undefined ? counted.surcharges : [serviceTier, ...counted.surcharges]) {
    const tier = Object.hasOwn(card.serviceTiers, name) ? card.serviceTiers[name] : undefined;
    if (tier === undefined) return `no rate for ${name === serviceTier ? `the service tier ${name}` : name}`;
    if (typeof tier !== "bigint") rates = ratesAbove(tier, tokens.input);
    else if (tier !== 1000n) factor = { times: factor.times * tier, per: factor.per * 1000n };
  }
  const tariff = tariffOf(rates);
  return (factor === whole ? costOfText(counted, tariff) : undefined) ?? costOfAll(counted, tariff, factor);
}

/**
 * Calculates the cost of text in and out, as nearly all calls are: two products.
 * @returns undefined for any other call, and where the sum is too large to be exact: `costOfAll` sums up all kinds, and the same for these
 */
function costOfText(counted: Counted, { tokens: rates, request, microDollar }: Tariff): Cost | undefined {
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h, reasoning, audioInput, audioOutput } = counted.tokens;
  const { audioCacheRead, imageInput, imageOutput, images, audioSeconds } = counted;
  if (cacheRead !== 0 || cacheWrite5m !== 0 || cacheWrite1h !== 0 || reasoning !== 0) return undefined;
  if (audioInput !== 0 || audioOutput !== 0 || audioCacheRead !== 0 || audioSeconds !== 0) return undefined;
  if (imageInput !== 0 || imageOutput !== 0 || images !== 0 || request !== undefined) return undefined;
  for (const _ in counted.tools) return undefined;
  const { input: read, output: written } = rates;
  if (typeof read === "string" || typeof written === "string" || !(input >= 0 && output >= 0)) return undefined;
  const unit = microDollar.number;
  const reading = input * read.rate.number;
  const writing = output * written.rate.number;
  const doubled = 2 * (reading + writing) + unit;
  if (!Number.isSafeInteger(doubled)) return undefined;
  const total = (doubled - (doubled % (2 * unit))) / (2 * unit);
  const lostReading = reading % unit;
  const lostWriting = writing % unit;
  const parts = { ...noCosts, input: (reading - lostReading) / unit, output: (writing - lostWriting) / unit };
  const left = total - parts.input - parts.output;
  // The rest that rounding leaves goes to the part that lost most by it.
  if (left === 2 || (left === 1 && lostReading > lostWriting)) parts.input += 1;
  if (left === 2 || (left === 1 && lostReading <= lostWriting)) parts.output += 1;
  return { total, parts, notes: noNotes };
}

const noNotes: readonly string[] = [];
const noCosts: Record<keyof CostParts, number> = {
  input: 0,
  cacheRead: 0,
  cacheWrite: 0,
  output: 0,
  reasoning: 0,
  audioInput: 0,
  audioOutput: 0,
  other: 0,
};

function costOfAll(counted: Counted, tariff: Tariff, factor: Factor): Cost | string {
  const { tokens } = counted;
  const bill = new Bill(tariff);
  addInput(bill, counted);
  addOutput(bill, counted);
  const { request, image, audioSecond, tools } = tariff;
  if (request !== undefined) bill.addOther(1, request);
  const { images, audioSeconds } = counted;
  // Images and recordings are billed by tokens where these are counted.
  if (images > 0 && image === undefined && tokens.input + tokens.output === 0) return "no rate for images";
  if (images > 0 && image !== undefined) bill.addOther(images, image);
  if (audioSeconds > 0 && audioSecond === undefined && tokens.input + tokens.output === 0) {
    return "no rate for minutes of audio";
  }
  if (audioSecond !== undefined) bill.addOther(audioSeconds, audioSecond);
  // No list is made of what nearly all calls have none of.
  for (const tool in counted.tools) {
    const uses = counted.tools[tool]!;
    const rate = tools.get(tool);
    if (rate === undefined) bill.notes.push(`no rate for ${tool}: its uses are not counted`);
    // Uses are billed by the piece, whatever the tier: https://platform.claude.com/docs/en/about-claude/pricing#web-search-tool
    else bill.addOther(uses, rate, true);
  }
  return bill.missing ?? bill.cost(factor);
}

function addInput(bill: Bill, { tokens, audioCacheRead, imageInput }: Counted): void {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, audioInput } = tokens;
  const heard = audioInput - audioCacheRead;
  bill.add("input", input - cacheRead - cacheWrite5m - cacheWrite1h - heard - imageInput);
  bill.add("cacheRead", cacheRead - audioCacheRead);
  bill.add("audioCacheRead", audioCacheRead);
  bill.add("cacheWrite", cacheWrite5m);
  bill.add("cacheWrite1h", cacheWrite1h);
  bill.add("audioInput", heard);
  bill.add("imageInput", imageInput);
}

function addOutput(bill: Bill, { tokens, imageOutput }: Counted): void {
  const { output, reasoning, audioOutput } = tokens;
  bill.add("output", output - reasoning - audioOutput - imageOutput);
  bill.add("reasoning", reasoning);
  bill.add("audioOutput", audioOutput);
  bill.add("imageOutput", imageOutput);
}

/** `part` is the place in `costKinds`; no factor changes what is fixed. */
type Item = { readonly part: number; readonly count: number; readonly rate: Scaled; readonly isFixed: boolean };
const other = costKinds.indexOf("other");

/** Upstreams' own numbers come unchecked. */
const isCount = (count: number) => count > 0 && count < Number.POSITIVE_INFINITY;

class Bill {
  readonly #tariff: Tariff;
  readonly #items: Item[] = [];
  readonly notes: string[] = [];
  /** The kind of tokens that nothing is known of, in words. */
  missing: string | undefined;

  constructor(tariff: Tariff) {
    this.#tariff = tariff;
  }

  add(kind: UnitKind, count: number): void {
    if (!isCount(count)) return;
    const found = this.#tariff.tokens[kind];
    if (typeof found === "string") {
      this.missing ??= found;
      return;
    }
    if (found.note !== undefined) this.notes.push(found.note);
    this.#items.push({ part: found.part, count, rate: found.rate, isFixed: false });
  }

  addOther(count: number, rate: Scaled, isFixed = false): void {
    if (!isCount(count)) return;
    this.#items.push({ part: other, count, rate, isFixed });
  }

  cost(factor: Factor): Cost {
    return (factor === whole ? this.#costInNumbers() : undefined) ?? this.#costInIntegers(factor);
  }

  /** @returns undefined where a sum is too large to be exact as a plain number, which hardly a call's is */
  #costInNumbers(): Cost | undefined {
    const unit = this.#tariff.microDollar.number;
    const exact = new Array<number>(costKinds.length).fill(0);
    let sum = 0;
    for (const { part, count, rate } of this.#items) {
      const cost = Math.round(count) * rate.number;
      exact[part]! += cost;
      sum += cost;
    }
    const doubled = 2 * sum + unit;
    if (!Number.isSafeInteger(doubled)) return undefined;
    const total = (doubled - (doubled % (2 * unit))) / (2 * unit);
    const parts: number[] = [];
    const lost: number[] = [];
    let left = total;
    for (const one of exact) {
      const rest = one % unit;
      const part = (one - rest) / unit;
      lost.push(rest);
      parts.push(part);
      left -= part;
    }
    return this.#rounded(total, parts, lost, left);
  }

  /** In integers of any size, so that every sum is exact. */
  #costInIntegers({ times, per }: Factor): Cost {
    const unit = this.#tariff.microDollar.exact * per;
    const exact = costKinds.map(() => 0n);
    for (const { part, count, rate, isFixed } of this.#items) {
      exact[part]! += BigInt(Math.round(count)) * rate.exact * (isFixed ? per : times);
    }
    const sum = exact.reduce((all, one) => all + one, 0n);
    const total = (2n * sum + unit) / (2n * unit);
    const parts = exact.map((one) => one / unit);
    const lost = exact.map((one) => one % unit);
    const left = total - parts.reduce((all, one) => all + one, 0n);
    return this.#rounded(Number(total), parts.map(Number), lost, Number(left));
  }

  /** Gives what rounding leaves to the parts that lost most by it, a micro-dollar to each. */
  #rounded(total: number, parts: readonly number[], lost: (number | bigint)[], left: number): Cost {
    const named = { ...noCosts };
    for (let at = 0; at < costKinds.length; at += 1) named[costKinds[at]!] = parts[at]!;
    for (let given = 0; given < left; given += 1) {
      let most = 0;
      for (let at = 1; at < lost.length; at += 1) if (lost[at]! >= lost[most]!) most = at;
      lost[most] = -1;
      named[costKinds[most]!] += 1;
    }
    return { total, parts: named, notes: this.notes };
  }
}
