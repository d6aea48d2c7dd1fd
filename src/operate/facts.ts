/** Which facts count, what they do not know of the models in use, and going back to those before. */
import type { Facts, ModelInUse } from "../api/facts.ts";
import type { Config } from "../config/config.ts";
import { announcedEnd, endState } from "../facts/endings.ts";
import { factsInForce, factsOf } from "../facts/facts.ts";
import { compiledAsOf, inForce } from "../facts/in-force.ts";
import { isoTime } from "../lib/time/clock.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { FactsListInfo, FactsState } from "../store/contract/facts.ts";
import type { Accounts } from "../upstream/accounts.ts";
import { billedTarget, daysOld, priceAhead } from "../usage/prices/outlook.ts";
import type { Prices } from "../usage/prices/prices.ts";
import { type Done, done, type Operator } from "./act.ts";

type Known = {
  readonly state: FactsState | undefined;
  readonly settings: Config["facts"];
  /** How many keys the build has. */
  readonly keys: number;
  readonly pricesAsOf: string;
  readonly now: number;
};

/** Which facts count in this process, and what was last looked for. */
export function factsState({ state, settings, keys, pricesAsOf, now }: Known) {
  const { renewed } = inForce();
  const asOf = renewed?.asOf ?? compiledAsOf;
  const wanted = state?.inForce ?? null;
  return {
    as_of: asOf,
    days_old: daysOld(asOf, now),
    source: renewed?.source ?? null,
    sha256: renewed?.sha256 ?? null,
    models_as_of: factsInForce().as_of,
    prices_as_of: pricesAsOf,
    update: {
      mode: settings.update,
      from: settings.from ?? null,
      keys,
      awaited: wanted !== null && wanted !== renewed?.sha256 ? wanted : null,
    },
    last_look: { at: isoTime(state?.triedAt ?? null), failure: state?.failure ?? null },
  } satisfies Partial<Facts>;
}

type Asked = {
  readonly accounts: Accounts;
  readonly prices: Prices;
  readonly now: number;
  /** By the provider's own list, where that says one. */
  readonly endOf?: (account: string, model: string) => string | undefined;
};

/** @param ids `<account>/<model>` @returns those of which there is something to say, the first to end first, then what has no price */
export function doubtsOf(ids: readonly string[], { accounts, prices, now, endOf }: Asked): ModelInUse[] {
  const found = ids.flatMap((id): ModelInUse[] => {
    const target = billedTarget(accounts, id);
    const { namespace = "", name = "" } = parseModelId(id) ?? {};
    if (target === undefined) return [];
    const ends = endOf?.(namespace, name) ?? announcedEnd(target.dialect, name) ?? null;
    const price = prices.find(target)?.name ?? null;
    const change = priceAhead(prices, target, now) ?? null;
    const assumed = factsOf(target.dialect, name).assumed ?? null;
    if (price !== null && change === null && assumed === null && ends === null) return [];
    const state = ends === null ? null : endState(ends, now);
    return [{ id, price, price_change: change, assumed, shutdown_date: ends, end_state: state }];
  });
  const endAt = ({ shutdown_date: ends }: ModelInUse) => ends ?? "9";
  const weight = ({ price, price_change: change }: ModelInUse) => (price === null ? 0 : change !== null ? 1 : 2);
  return found.sort((a, b) => endAt(a).localeCompare(endAt(b)) || weight(a) - weight(b) || a.id.localeCompare(b.id));
}

/** @property as_of YYYY-MM-DD @property sha256 null: those in the executable */
type Counted = { readonly sha256: string | null; readonly as_of: string; readonly source: string | null };

const countedOf = (list: FactsListInfo | undefined): Counted =>
  list === undefined
    ? { sha256: null, as_of: compiledAsOf, source: null }
    : { sha256: list.sha256, as_of: list.asOf, source: list.source };

/** The facts that count for all. */
async function counted({ facts }: Operator["store"]): Promise<Counted> {
  const wanted = (await facts.state())?.inForce ?? null;
  return countedOf((await facts.lists()).find(({ sha256 }) => sha256 === wanted));
}

/** Has newer facts count, for all. @param take takes them, where they are proved and nothing speaks against them; rejects otherwise */
export async function updateFacts(operator: Operator, take: () => Promise<void>): Promise<Done<Counted>> {
  const { store } = operator;
  const before = await counted(store);
  await take();
  const after = await counted(store);
  return after.sha256 === before.sha256 ? { before, after } : done(operator, "facts.update", "facts", before, after);
}

/** Has the facts count, for all, that did before those in use. @returns undefined where those in the executable count */
export async function rollBackFacts(operator: Operator): Promise<Done<Counted> | undefined> {
  const { facts } = operator.store;
  const current = (await facts.state())?.inForce ?? null;
  if (current === null) return undefined;
  const lists = await facts.lists();
  const at = lists.findIndex(({ sha256 }) => sha256 === current);
  const to = lists.slice(at + 1).find(({ asOf, isForced }) => asOf >= compiledAsOf || isForced === 1);
  await facts.goBack(to?.sha256 ?? null, current);
  await operator.reread();
  return done(operator, "facts.rollback", "facts", countedOf(lists[at]), countedOf(to));
}
