/** Tokens per minute of a key, by what callers were told: of each call at least the lesser of what was reserved for it and what it used. */

export type TokenUse = {
  /** When the store counted it; by share: when the node admitted it. */
  readonly at: number;
  readonly call: string;
  readonly tokens: number;
  /** Whether the node may have admitted it by its share, as the store was away. */
  readonly byShare: boolean;
};

type Minute = { readonly from: number; readonly to: number; readonly sum: number; readonly last: TokenUse };

/** What the stores have seen. */
export type TokenBounds = {
  readonly limit: number;
  /** When the store lost what it had counted. */
  readonly losses: readonly number[];
  /** When a node came or went: a new one has a share of its own. */
  readonly replacements: readonly number[];
  readonly nodes: number;
  /** From when on minutes hold no more than the limit, shares included, as it is known what befalls the stores. */
  readonly exactFrom: number;
};

export const windowMs = 60_000;
/** For so long after the first call each node may keep to its share, as nobody knows what was admitted before. */
const startMs = 3_500;
/** Times of a store are whole milliseconds. */
const slackMs = 1;

/** @returns the call and what is wrong with it */
export function wrongTokensOf(
  uses: readonly TokenUse[],
  { limit, losses, replacements, nodes, exactFrom }: TokenBounds,
): { readonly use: TokenUse; readonly words: string } | undefined {
  const inOrder = uses.toSorted((one, other) => one.at - other.at);
  const lostIn = ({ from, to }: Minute) => losses.filter((at) => from < at && to >= at).length;
  for (const minute of minutesOf(inOrder.filter(({ byShare }) => !byShare))) {
    const most = limit * (1 + lostIn(minute));
    if (minute.sum > most) return { use: minute.last, words: `${minute.sum} tokens in a minute of ${most}` };
  }
  for (const minute of minutesOf(inOrder)) {
    if (minute.from >= exactFrom && minute.sum > limit) {
      return { use: minute.last, words: `${minute.sum} tokens in a minute of ${limit}, shares included` };
    }
    // A node that is alone adds its share to what the others admit.
    const came = replacements.filter((at) => at > minute.from - windowMs && at <= minute.to).length;
    const most = Math.ceil(limit * (2 + lostIn(minute) + (came + 1) / nodes));
    if (minute.sum > most)
      return { use: minute.last, words: `${minute.sum} tokens in a minute, with all shares ${most}` };
  }
  const alone =
    exactFrom === 0 ? inOrder.find(({ at, byShare }) => byShare && at > inOrder[0]!.at + startMs) : undefined;
  return alone && { use: alone, words: "tokens by a share, though the store is there" };
}

/** All that was used from one time to another. */
export const usedIn = (uses: readonly TokenUse[], from: number, to: number): number =>
  uses.reduce((sum, { at, tokens }) => sum + (at >= from && at < to ? tokens : 0), 0);

/** For each use, the minute that ends with it. */
function* minutesOf(uses: readonly TokenUse[]): Generator<Minute> {
  let [first, sum] = [0, 0];
  for (const last of uses) {
    sum += last.tokens;
    for (; last.at - uses[first]!.at >= windowMs - slackMs; first += 1) sum -= uses[first]!.tokens;
    yield { from: uses[first]!.at, to: last.at, sum, last };
  }
}
