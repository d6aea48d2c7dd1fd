/** Budgets and reservations. A reservation is held by the process' liveness lock, so it lives no longer than its process. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { globMatches } from "../../lib/text/glob.ts";
import type { BudgetRepository, BudgetSpan, Reservation, Reserved, Spending, TokenWindow } from "../contract/usage.ts";
import { daysOf, partsOfScope } from "../ledger/charges.ts";
import { spentIn } from "../sql/ledger-rollups.ts";
import type { Synchronous } from "./asynchronous.ts";
import { budgetsText } from "./call-settlement.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { LedgerSums } from "./ledger-sums.ts";
import type { LivenessLock } from "./liveness-lock.ts";

const windowMs = 60_000;
/**
 * Uses of tokens are gathered by this many milliseconds, and count as of the last of them: so a busy key has some hundred rows,
 * and no window allows more than its limit.
 */
const gatheredMs = 250;

type Uses = { at: number; tokens: number };
/** A budget's state within one transaction. `held`: what its calls reserve. */
type Drawn = BudgetSpan & { readonly spent: number; reserved: number; held: number };

/** @param lock gives this process' lock, which is taken when it is first asked for */
export function reservations(
  database: Database,
  shared: GroupCommit,
  lock: () => LivenessLock,
  summing: Pick<LedgerSums, "addUp">,
): Synchronous<Pick<BudgetRepository, "reserve" | "spending">> {
  const spending = database.prepare<Spending, BudgetSpan>(
    "select scope, span, spent, reserved from spending where scope = $scope and span = $span",
  );
  const open = database.prepare("insert into spending (scope, span, spent) values ($scope, $span, $spent)");
  const hold = database.prepare(
    "update spending set reserved = reserved + $amount where scope = $scope and span = $span",
  );
  const insert = database.prepare<unknown, SQLQueryBindings[]>(
    "insert into reservations values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing",
  );
  const isHeld = database.prepare<unknown, { requestId: string; attempt: number }>(
    "select 1 from reservations where request_id = $requestId and attempt = $attempt",
  );
  const forgetUses = database.prepare(
    "delete from token_uses where key = $key and (at <= $now - 60000 or at > $now + 60000)",
  );
  const uses = database.prepare<Uses, { key: string }>(
    "select at, tokens from token_uses where key = $key order by at",
  );
  const use = database.prepare(
    `insert into token_uses values ($key, $at, $tokens)
     on conflict do update set tokens = max(0, tokens + excluded.tokens)`,
  );

  /** Within a transaction that writes: the ledger's part is read once for each span, and then grows with it. */
  function spendingOf({ scope, span }: BudgetSpan): Spending {
    const found = spending.get({ scope, span });
    if (found !== null) return found;
    const spent = span === "prepaid" ? 0 : costIn(database, summing, scope, span);
    open.run({ scope, span, spent });
    return { scope, span, spent, reserved: 0 };
  }

  /** Each budget is read once and written once, however many calls there are, which are taken in their order. */
  function reserveAll(asked: readonly Reservation[]): Reserved[] {
    const owner = lock().id;
    const drawn = new Map<string, Drawn>();
    const drawnOf = ({ scope, span }: BudgetSpan): Drawn => {
      const name = `${span} ${scope}`;
      let found = drawn.get(name);
      if (found === undefined) {
        found = { ...spendingOf({ scope, span }), held: 0 };
        drawn.set(name, found);
      }
      return found;
    };
    const answers = asked.map((one) => reserve(owner, one, drawnOf));
    for (const { scope, span, held } of drawn.values()) if (held > 0) hold.run({ scope, span, amount: held });
    return answers;
  }

  function reserve(owner: string, reservation: Reservation, drawnOf: (budget: BudgetSpan) => Drawn): Reserved {
    const { line, amount, budgets, tokens } = reservation;
    const { requestId, attempt } = line;
    let refusedBy: Reserved["refusedBy"];
    let tightest: Reserved["tightest"];
    for (const budget of budgets) {
      const { scope, span, spent, reserved } = drawnOf(budget);
      const found = { scope, span, spent, reserved, limit: budget.limit };
      const isSpent = spent >= found.limit || spent + amount > found.limit;
      if (isSpent) {
        refusedBy = found;
        break;
      }
      if (spent + reserved >= found.limit || spent + reserved + amount > found.limit) refusedBy ??= found;
      if (tightest === undefined || leftOf(found) < leftOf(tightest)) tightest = found;
    }
    // A write that is repeated counts once.
    const mayBeKnown = refusedBy !== undefined || tokens !== undefined;
    if (mayBeKnown && isHeld.get({ requestId, attempt }) !== null) return {};
    if (refusedBy !== undefined) return { refusedBy };
    const window = tokens && useTokens(tokens);
    if (window !== undefined && window.waitMs > 0) return { tokens: window };
    const of = [tokens?.key ?? null, tokens === undefined ? null : bucketOf(tokens.now), tokens?.tokens ?? 0];
    const values = [requestId, attempt, owner, amount, budgetsText(budgets), ...of, JSON.stringify(line)];
    if (insert.run(...values).changes === 0) return {};
    for (const budget of budgets) {
      const found = drawnOf(budget);
      found.reserved += amount;
      found.held += amount;
    }
    return {
      ...(tightest && { tightest: { ...tightest, reserved: tightest.reserved + amount } }),
      ...(window && { tokens: window }),
    };
  }

  function useTokens({ key, now, limit, tokens }: NonNullable<Reservation["tokens"]>): TokenWindow {
    forgetUses.run({ key, now: Math.floor(now) });
    const found = uses.all({ key });
    const before = found.reduce((sum, one) => sum + one.tokens, 0);
    const waitMs = waitFor(found, before, limit, tokens, now);
    if (waitMs > 0) return { used: before, emptyMs: emptyAfter(found, now), waitMs };
    use.run({ key, at: bucketOf(now), tokens });
    return { used: before + tokens, emptyMs: bucketOf(now) + windowMs - now, waitMs };
  }

  const reserveTogether = shared.together(reserveAll);
  const allSpending = database.transaction((spans: readonly BudgetSpan[]) => spans.map(spendingOf));
  return {
    reserve: (reservation) => {
      // Where it can't be had, this call alone fails.
      lock();
      return reserveTogether(reservation);
    },
    spending: (spans) => allSpending.immediate(spans),
  };
}

/** By the scope's kind: which of the ledger's sums are its. */
const partOf: Readonly<Record<string, string>> = {
  all: "",
  key: "and key_id = $name",
  tag: "and exists (select 1 from json_each(tags) where value = $name)",
  tier: "and key_id in (select id from keys where tier = $name)",
};

function costIn(database: Database, summing: Pick<LedgerSums, "addUp">, scope: string, span: string): number {
  summing.addUp();
  const { whose, model } = partsOfScope(scope);
  const [kind = "", name] = whose.split(":", 2);
  const { firstDay, endDay } = daysOf({ span });
  const sql = `select provider || '/' || upstream_model as called, sum(cost) as cost
    from ledger_groups k cross join ledger_days d using (rollup, dimensions_id)
    where rollup = ${spentIn(kind, model !== undefined).id} and d.day in (select value from json_each($days)) ${partOf[kind]} group by called`;
  const days = JSON.stringify(Array.from({ length: endDay - firstDay }, (_, at) => firstDay + at));
  const parameters: Record<string, string> = name === undefined ? { days } : { days, name };
  const costs = database.query<{ called: string | null; cost: number }, Record<string, string>>(sql).all(parameters);
  return costs
    .filter(({ called }) => model === undefined || (called !== null && globMatches(model, called)))
    .reduce((sum, { cost }) => sum + cost, 0);
}

const leftOf = ({ limit, spent, reserved }: NonNullable<Reserved["tightest"]>) => limit - spent - reserved;

const bucketOf = (now: number) => Math.ceil(now / gatheredMs) * gatheredMs;

/** @returns 0 where the tokens fit, else how long until enough of the uses have left the window */
function waitFor(uses: readonly Uses[], used: number, limit: number, tokens: number, now: number): number {
  if (tokens > limit) return Number.POSITIVE_INFINITY;
  let excess = used + tokens - limit;
  if (excess <= 0) return 0;
  for (const use of uses) {
    excess -= use.tokens;
    if (excess <= 0) return Math.max(1, use.at + windowMs - now);
  }
  return windowMs;
}

function emptyAfter(uses: readonly Uses[], now: number): number {
  const last = uses.at(-1);
  return last === undefined ? 0 : Math.max(0, last.at + windowMs - now);
}
