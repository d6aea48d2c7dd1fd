/**
 * Budgets and reservations. A reservation is one call of a function of the database, so that it is decided in one round trip under the
 * locks of its rows. It is held as a call is: by the lease of this process.
 */
import type { BudgetRepository, BudgetRow, Reserved, Spending } from "../store.ts";
import { callAccounts } from "./call-accounts.ts";
import type { Holder } from "./holder.ts";
import { OwnRows } from "./own-rows.ts";
import type { QueryPool } from "./query-pool.ts";

export type BudgetPools = { readonly path: QueryPool; readonly background: QueryPool };
export type BudgetTools = {
  readonly holder: Holder;
  /** Whether windows go by the callers' clocks, which then must be one; else they go by the server's. */
  readonly hasOneClock: boolean;
};

/** What the function `reserve` returns; a wait that never ends is null. */
type Decision = Omit<Reserved, "tokens"> & {
  readonly tokens?: { readonly used: number; readonly emptyMs: number; readonly waitMs: number | null };
};

/** For how long the server may yet carry out what its caller gave up: beyond any statement's time limit and any packet's way. */
const lateMs = 600_000;
/** Calls under way whose reservation was sent twice; the oldest beyond it are settled as if it had not been. */
const maxSentTwice = 10_000;

export function budgetRepository(
  { path, background }: BudgetPools,
  { holder, hasOneClock }: BudgetTools,
): BudgetRepository {
  const accounts = callAccounts(path);
  const { clock } = path.options;
  let mayBeLateUntil = Number.NEGATIVE_INFINITY;
  /** What nobody makes is given back, its tokens too. */
  const own = new OwnRows<{ id: string }>({
    holder,
    rows: (owner) =>
      background.run<{ id: string }>("select id from troupe.reservations where owner = $1::text", [owner]),
    nameOf: ({ id }) => id,
    release: ({ id }) => accounts.ask(id, () => ({ id, spent: 0, tokens: 0 })),
    isDue: () => clock.monotonic() < mayBeLateUntil,
  });
  /** Of a sending that nobody heard of: whatever becomes of it is not wanted. */
  const giveUp = (name: string | undefined) => {
    if (name === undefined) return;
    own.ended(name);
    mayBeLateUntil = clock.monotonic() + lateMs;
  };
  /**
   * The names of reservations that were sent twice. Each sending after one that broke has a name of its own, as that one may be carried
   * out at any time, when the call is over too, and would then be held, or settled once more.
   */
  const sentTwice = new Map<string, string>();
  const nameOf = (id: string): string => sentTwice.get(id) ?? id;
  const renamed = (id: string): string => {
    const last = sentTwice.get(id);
    const name = `${id}-${last === undefined ? 2 : Number(last.slice(id.length + 1)) + 1}`;
    sentTwice.set(id, name);
    const [oldest] = sentTwice.keys();
    if (sentTwice.size > maxSentTwice) sentTwice.delete(oldest!);
    return name;
  };
  return {
    async list() {
      const rows = await background.run<BudgetRow>(
        `select scope, period, amount::float8 as "limit", updated_at::float8 as "updatedAt" from troupe.budgets
         order by scope, period`,
      );
      return rows.map((row) => ({ ...row }));
    },
    async set({ scope, period, limit, updatedAt }, isNew = false) {
      const text = `with forgotten as (
          update troupe.spending set spent = 0 where $5::boolean and scope = $1::text and span = 'prepaid')
        insert into troupe.budgets values ($1::text, $2::text, $3::bigint, $4::bigint)
        on conflict (scope, period) do update set amount = excluded.amount, updated_at = excluded.updated_at`;
      await background.run(text, [scope, period, limit, updatedAt, isNew && period === "prepaid"]);
    },
    async add({ scope, period }, amount, at) {
      // Sent again, it finds its own time and adds nothing.
      const text = `update troupe.budgets
        set amount = amount + case when $5::boolean and updated_at = $4::bigint then 0 else $3::bigint end, updated_at = $4::bigint
        where scope = $1::text and period = $2::text returning amount::float8 as amount`;
      const [row] = await background.run<{ amount: number }>(text, (again) => [scope, period, amount, at, again]);
      return row?.amount;
    },
    async remove({ scope, period }) {
      const text = "delete from troupe.budgets where scope = $1::text and period = $2::text";
      return (await background.run(text, [scope, period])).count > 0;
    },
    async reserve({ id, amount, budgets, tokens }) {
      const owner = await holder.current();
      const now = hasOneClock ? tokens?.now : undefined;
      let sent: string | undefined;
      const reserving = accounts.ask(id, (again) => {
        giveUp(sent);
        sent = again ? renamed(id) : nameOf(id);
        own.began(sent, owner);
        return {
          id: sent,
          owner,
          amount,
          budgets,
          now,
          key: tokens?.key,
          limit: tokens?.limit,
          tokens: tokens?.tokens ?? 0,
        };
      });
      const answer = await reserving.catch((error) => {
        sentTwice.delete(id);
        giveUp(sent);
        throw error;
      });
      const { tokens: window, ...decision } = answer as Decision;
      if (decision.refusedBy !== undefined || (window !== undefined && window.waitMs !== 0)) own.ended(sent!);
      if (window === undefined) return decision;
      return { ...decision, tokens: { ...window, waitMs: window.waitMs ?? Number.POSITIVE_INFINITY } };
    },
    async settle(id, spent, tokens) {
      let mayBeDone = false;
      const isDone = await accounts.ask(id, (again) => {
        mayBeDone = again;
        return { id: nameOf(id), spent, tokens };
      });
      own.ended(nameOf(id));
      sentTwice.delete(id);
      return (isDone as boolean) || mayBeDone;
    },
    async releaseAbandoned() {
      await holder.current();
      const [row] = await background.run<{ released: number }>(
        `select count(*)::float8 as released from (
           select troupe.settle(id, 0, 0) as done from troupe.reservations r where not exists (
             select 1 from troupe.holders h
             where h.holder = r.owner and h.lapses_at > clock_timestamp() - interval '10 minutes')) ended
         where done`,
      );
      return row!.released;
    },
    async spending(spans) {
      await background.run("select troupe.open_spans($1::text::jsonb)", [JSON.stringify(spans)]);
      const rows = await background.run<Spending>(
        // Of an open pool only what calls hold: the rest is as free as what is in none. What a closed one has not given back is not.
        `select asked.scope, asked.span, coalesce(s.spent, 0)::float8 as spent, (coalesce(s.reserved, 0) - (
           select coalesce(sum(greatest(0, troupe.pool_left(p) - p.held)), 0) from troupe.budget_pools p
           where p.scope = asked.scope and p.span = asked.span and p.state = 'open'))::float8 as reserved
         from rows from (jsonb_to_recordset($1::text::jsonb) as (scope text, span text)) with ordinality asked(scope, span, place)
         left join troupe.spending s on s.scope = asked.scope and s.span = asked.span order by place`,
        [JSON.stringify(spans)],
      );
      return rows.map((row) => ({ ...row }));
    },
    async forgetSpending(beforeDay) {
      const text = `delete from troupe.spending
        where span <> 'prepaid' and reserved = 0 and span < left($1::text, length(span))`;
      return (await background.run(text, [beforeDay])).count;
    },
  };
}
