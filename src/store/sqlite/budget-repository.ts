/** Budgets and reservations. A reservation is held by the process' liveness lock, so it lives no longer than its process. */
import type { Database } from "bun:sqlite";
import { daysOf } from "../charges.ts";
import type { BudgetRepository, BudgetSpan, Reservation, Reserved, Spending, TokenWindow } from "../usage.ts";
import type { Synchronous } from "./asynchronous.ts";
import { budgetsText } from "./call-settlement.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { LivenessLock } from "./liveness-lock.ts";

const windowMs = 60_000;
/**
 * Uses of tokens are gathered by this many milliseconds, and count as of the last of them: so a busy key has some hundred rows,
 * and no window allows more than its limit.
 */
const gatheredMs = 250;

type Uses = { at: number; tokens: number };

/** @param lock gives this process' lock, which is taken when it is first asked for */
export function reservations(
  database: Database,
  shared: GroupCommit,
  lock: () => LivenessLock,
): Synchronous<Pick<BudgetRepository, "reserve" | "spending">> {
  const spending = database.prepare<Spending, BudgetSpan>(
    "select scope, span, spent, reserved from spending where scope = $scope and span = $span",
  );
  const open = database.prepare("insert into spending (scope, span, spent) values ($scope, $span, $spent)");
  const hold = database.prepare(
    `insert into spending (scope, span, reserved) values ($scope, $span, $amount)
     on conflict do update set reserved = reserved + excluded.reserved`,
  );
  const insert = database.prepare(
    `insert into reservations values
     ($requestId, $attempt, $owner, $amount, $budgets, $tokensKey, $tokensAt, $tokens, $line)`,
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
    const spent = span === "prepaid" ? 0 : costIn(database, scope, span);
    open.run({ scope, span, spent });
    return { scope, span, spent, reserved: 0 };
  }

  function reserve(owner: string, { line, amount, budgets, tokens }: Reservation): Reserved {
    const { requestId, attempt } = line;
    // A write that is repeated counts once.
    if (isHeld.get({ requestId, attempt }) !== null) return {};
    let refusedBy: Reserved["refusedBy"];
    let tightest: Reserved["tightest"];
    for (const { scope, span, limit } of budgets) {
      const found = { ...spendingOf({ scope, span }), limit };
      const { spent, reserved } = found;
      const isSpent = spent >= limit || spent + amount > limit;
      if (isSpent) return { refusedBy: found };
      if (spent + reserved >= limit || spent + reserved + amount > limit) refusedBy ??= found;
      if (tightest === undefined || leftOf(found) < leftOf(tightest)) tightest = found;
    }
    if (refusedBy !== undefined) return { refusedBy };
    const window = tokens && useTokens(tokens);
    if (window !== undefined && window.waitMs > 0) return { tokens: window };
    insert.run({
      ...{ requestId, attempt, owner, amount, budgets: budgetsText(budgets), line: JSON.stringify(line) },
      tokensKey: tokens?.key ?? null,
      tokensAt: tokens === undefined ? null : bucketOf(tokens.now),
      tokens: tokens?.tokens ?? 0,
    });
    for (const { scope, span } of budgets) hold.run({ scope, span, amount });
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

  const allSpending = database.transaction((spans: readonly BudgetSpan[]) => spans.map(spendingOf));
  return {
    reserve: (reservation) => {
      const owner = lock().id;
      return shared.run(() => reserve(owner, reservation));
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

function costIn(database: Database, scope: string, span: string): number {
  const [kind = "", name] = scope.split(":", 2);
  const { firstDay, endDay } = daysOf({ span });
  const sql = `select coalesce(sum(cost), 0) as cost from ledger_hours cross join ledger_kinds using (kind)
    where hour >= ${firstDay * 24} and hour < ${endDay * 24} ${partOf[kind]}`;
  return database.query<{ cost: number }, Record<string, string>>(sql).get(name === undefined ? {} : { name })!.cost;
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
