/** Sums of money: kept in micro-dollars, asked for and told in dollars. */

export const microsFrom = (dollars: number): number => Math.round(dollars * 1_000_000);
export const dollarsFrom = (micros: number): number => micros / 1_000_000;

/** Formats money as people read it: with two decimals, or six where two would hide something. */
export const formatDollars = (micros: number): string =>
  micros % 10_000 === 0 ? moneyWords(micros).slice(0, -4) : moneyWords(micros);

/** With all six decimals, for columns: `-$0.000123`. */
export const moneyWords = (microDollars: number): string =>
  `${microDollars < 0 ? "-" : ""}$${dollarsOf(Math.abs(microDollars))}`;

/** All six digits, without a float in between. */
export function dollarsOf(microDollars: number): string {
  return `${Math.floor(microDollars / 1_000_000)}.${String(microDollars % 1_000_000).padStart(6, "0")}`;
}
