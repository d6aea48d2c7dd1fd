/** How often chance stops a variant, and how soon a bad one stops: by the very counting of the stores, over many windows of seeded calls. */
import { expect, test } from "bun:test";
import { countBeyond } from "../../src/personas/versions/variants.ts";
import {
  countCall,
  newState,
  type VariantCall,
  type VariantRule,
  type VariantState,
} from "../../src/store/contract/variants.ts";
import { Random } from "../helpers/random.ts";

const calls = 200;
const bound = 0.05;
const rule: VariantRule = {
  ...{ variant: "next", calls, errors: countBeyond(calls, bound)! },
  ...{ refusals: null, slow: null, slowMs: null, cost: null },
};
const callOf = (variant: string, outcome: VariantCall["outcome"]): VariantCall => ({
  ...{ persona: "acme/x", version: "1", variant, outcome, rules: [rule] },
});
const known = {
  now: { fine: callOf("now", "answered"), bad: callOf("now", "failed") },
  next: { fine: callOf("next", "answered"), bad: callOf("next", "failed") },
};
const line = { at: 0, totalMs: 1, cost: 0 };

/** Its own calls until it stopped; undefined: all windows ended. */
function callsUntilStop(
  random: Random,
  own: number,
  others: number,
  share: number,
  windows: number,
): number | undefined {
  let state: VariantState = newState(known.next.fine, rule);
  for (let made = 0; state.windows < windows; ) {
    const variant = random.below(1_000) < share * 1_000 ? "next" : "now";
    const isBad = random.below(1_000_000) < (variant === "next" ? own : others) * 1_000_000;
    if (variant === "next") made += 1;
    state = countCall(state, rule, known[variant][isBad ? "bad" : "fine"], line);
    if (state.stoppedAt !== null) return made;
  }
  return undefined;
}

const seeds = 300;
const windows = 5;
const stopsOf = (own: number, others: number, share: number) =>
  Array.from({ length: seeds }, (_, seed) => callsUntilStop(new Random(seed), own, others, share, windows));

test.each([
  ["fails as seldom as it may, and the others less", 0.05, 0.01, 0.1],
  ["fails as the others do, all beyond the bound", 0.1, 0.1, 0.1],
  ["fails as the others do, half of the time", 0.5, 0.5, 0.1],
  ["fails as the others do, and has half of the callers", 0.3, 0.3, 0.5],
  ["fails always, as the others do", 1, 1, 0.1],
  ["fails a little, and the others never", 0.03, 0, 0.05],
  // A window in a thousand: of 1,500, eight are beyond any chance worth the name.
])("a variant that %s goes on", (_, own, others, share) => {
  expect(stopsOf(own, others, share).filter((stop) => stop !== undefined).length).toBeLessThanOrEqual(8);
});

test.each([
  ["always", 1, 0.02, 1, 22],
  ["always, and the others half of the time", 1, 0.5, 1, 40],
  ["half of the time", 0.5, 0.02, 1, 80],
  ["of four times the bound", 0.2, 0.02, 1, 200],
  ["of three times the bound", 0.15, 0.02, 0.98, 400],
])("a variant that fails %s stops in time", (_, own, others, least, within) => {
  const stops = stopsOf(own, others, 0.1);
  const inTime = stops.filter((stop) => stop !== undefined && stop <= within).length;
  expect(inTime).toBeGreaterThanOrEqual(Math.ceil(seeds * least * 0.99));
});

test("the count of the page is the count of the program", () => {
  expect(rule.errors).toBe(22);
});
