/** Finds people's details in texts, and puts stand-ins in their place: numbers and addresses that are set aside for examples. */
import { isIP } from "node:net";
import { isObject } from "../json/json.ts";

export const detailKinds = ["emails", "phones", "cards", "ibans", "ips"] as const;
export type DetailKind = (typeof detailKinds)[number];

type Finder = {
  readonly pattern: RegExp;
  /** False for what only looks like one. */
  readonly fits: (found: string) => boolean;
  /** @param number counted from 0: the same detail has the same stand-in */
  readonly standIn: (number: number, found: string) => string;
};

const always = () => true;
const nth = (examples: readonly string[], number: number): string => examples[number % examples.length]!;

/** Sources: RFC 2606 (names), RFC 5737 and RFC 3849 (addresses), https://docs.stripe.com/testing (cards), ISO 13616's examples (IBAN), NANPA's 555-01XX. */
const finders: Readonly<Record<DetailKind, Finder>> = {
  emails: {
    pattern: /(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}\b/gi,
    fits: always,
    standIn: (number) => `person-${number + 1}@example.com`,
  },
  ibans: {
    pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g,
    fits: isIban,
    standIn: (number) => nth(["DE89370400440532013000", "GB29NWBK60161331926819", "CH9300762011623852957"], number),
  },
  cards: {
    pattern: /(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d.-]*\d)/g,
    fits: isCard,
    standIn: (number) => nth(["4242424242424242", "5555555555554444", "378282246310005"], number),
  },
  ips: {
    pattern: /(?<![\w.:])[\da-f:.]{3,45}(?![\w:])/gi,
    fits: (found) => isIP(found) !== 0,
    standIn: (number, found) => (isIP(found) === 4 ? `192.0.2.${(number % 254) + 1}` : `2001:db8::${number + 1}`),
  },
  phones: {
    pattern:
      /(?<![\w.+-])(?:(?:\+|00)\d(?:[ ()./-]{0,2}\d){6,14}|\(?0\d{1,4}\)?[ /-]\d(?:[ -]?\d){5,9}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?![\w-])/g,
    fits: (found) => !/^\d{4}-\d\d-\d\d/.test(found),
    standIn: (number) => `+1 202-555-01${String(number % 100).padStart(2, "0")}`,
  },
};

/** ISO 13616: the remainder by 97 is 1. */
function isIban(found: string): boolean {
  const text = found.replaceAll(" ", "");
  if (text.length < 15) return false;
  const digits = (text.slice(4) + text.slice(0, 4)).replace(/[A-Z]/g, (one) => String(one.charCodeAt(0) - 55));
  let rest = 0;
  for (const digit of digits) rest = (rest * 10 + Number(digit)) % 97;
  return rest === 1;
}

/** Luhn's sum. Source: ISO/IEC 7812-1 */
function isCard(found: string): boolean {
  const digits = [...found.replaceAll(/[ -]/g, "")].reverse();
  const sum = digits.reduce((total, digit, at) => {
    const value = Number(digit) * (at % 2 === 0 ? 1 : 2);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0 && new Set(digits).size > 1;
}

/** The texts of a value without the details of these kinds. What names a member stays. */
export function redacted<T>(value: T, kinds: readonly DetailKind[]): T {
  if (kinds.length === 0) return value;
  const known = new Map<string, string>();
  const counts = new Map<DetailKind, number>();
  const standInFor = (kind: DetailKind, found: string): string => {
    const { fits, standIn } = finders[kind];
    if (!fits(found)) return found;
    const key = `${kind} ${found}`;
    const count = counts.get(kind) ?? 0;
    if (!known.has(key)) {
      known.set(key, standIn(count, found));
      counts.set(kind, count + 1);
    }
    return known.get(key)!;
  };
  // In this order: a card's number is no telephone's.
  const order = (["emails", "ibans", "cards", "ips", "phones"] as const).filter((kind) => kinds.includes(kind));
  const standIns = (text: string) => {
    // A picture's digits are nobody's.
    if (text.startsWith("data:")) return text;
    const made: string[] = [];
    // What one kind put in its place is not found by the next.
    const parted = order.reduce(
      (rest, kind) =>
        rest.replace(finders[kind].pattern, (found) => {
          const instead = standInFor(kind, found);
          return instead === found ? found : `\u0000${made.push(instead) - 1}\u0001`;
        }),
      text.replaceAll(/[\0\x01]/g, ""),
    );
    return made.length === 0 ? text : parted.replace(/\0(\d+)\x01/g, (_, at: string) => made[Number(at)]!);
  };
  const within = (one: unknown): unknown => {
    if (typeof one === "string") return standIns(one);
    if (Array.isArray(one)) return one.map(within);
    return isObject(one) ? Object.fromEntries(Object.entries(one).map(([key, inner]) => [key, within(inner)])) : one;
  };
  return within(value) as T;
}
