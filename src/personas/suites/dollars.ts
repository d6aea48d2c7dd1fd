/** Dollars, with as many digits as mean something. */
export function dollars(amount: number): string {
  if (amount === 0) return "$0";
  return `$${amount >= 1 ? amount.toFixed(2) : Number(amount.toPrecision(2)).toFixed(Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(amount)))))}`;
}
