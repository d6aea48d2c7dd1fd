/** What ends soon: budgets at their pace, and models whose end is announced. */
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { dayMs, dayOf } from "../spend/sums.ts";

type Budget = {
  readonly id: string;
  readonly scope: string;
  readonly name: string | null;
  readonly period: string;
  readonly dollars: number;
  readonly left: number;
  readonly state: "ok" | "low" | "spent";
  readonly runs_out_at: string | null;
  readonly resets_at: string | null;
};
type Model = {
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  readonly shutdown_date: string;
  readonly end_state: "ended" | "ends_soon" | "later";
  readonly calls: number;
};
type List<T> = { readonly data: readonly T[]; readonly has_more: boolean };

const shown = 6;
const tones = { ok: "quiet", low: "warn", spent: "bad" } as const;
const modelTones = { ended: "bad", ends_soon: "warn", later: "quiet" } as const;
const dollars = (sum: number) => `$${sum.toFixed(2)}`;

/** Spent ones first, then by when they run out. */
const urgency = ({ state, runs_out_at: at }: Budget): number =>
  state === "spent" ? 0 : at === null ? Number.POSITIVE_INFINITY : Date.parse(at);

function Budgets({ list }: { readonly list: List<Budget> }) {
  const ending = list.data
    .filter(({ state, runs_out_at: at }) => state !== "ok" || at !== null)
    .toSorted((a, b) => urgency(a) - urgency(b));
  if (list.data.length === 0)
    return (
      <p class="muted">
        No budget is set: nothing stops a key from spending. <a href={href("keys", ["budgets"])}>Set one</a>.
      </p>
    );
  if (ending.length === 0) return <p class="muted">None of {count(list.data.length)} budgets runs out at this pace.</p>;
  return (
    <ul class="findings">
      {ending.slice(0, shown).map((budget) => (
        <li key={budget.id}>
          <Badge tone={tones[budget.state]}>{budget.state}</Badge>
          <a href={href("keys", ["budgets"])}>
            {budget.name ?? budget.scope}, {budget.period}
          </a>
          {budget.state === "spent" ? (
            <span>
              spent; opens <Time at={budget.resets_at} />
            </span>
          ) : (
            budget.runs_out_at !== null && (
              <span>
                runs out <Time at={budget.runs_out_at} />
              </span>
            )
          )}
          <span class="amount muted">
            {dollars(budget.left)} of {dollars(budget.dollars)} left
          </span>
        </li>
      ))}
    </ul>
  );
}

export function Ending() {
  const since = dayOf(Date.now() - 6 * dayMs);
  const budgets = useResource((signal) => get<List<Budget>>("v1/budgets", { limit: "1000" }, { signal }), [], {
    everyMs: 30_000,
  });
  const models = useResource((signal) => get<List<Model>>("v1/models/ending", {}, { signal }), [], {
    everyMs: 60_000,
  });
  return (
    <Panel title="Ends soon" actions={<Curl path="v1/budgets" />}>
      <h3>Budgets</h3>
      <Loaded resource={budgets}>{(list) => <Budgets list={list} />}</Loaded>
      <h3>Models that were called in the last 7 days</h3>
      <Loaded resource={models}>
        {({ data }) =>
          data.length === 0 ? (
            <p class="muted">No end is announced for any of them.</p>
          ) : (
            <ul class="findings">
              {data.slice(0, shown).map(({ id, provider, model, shutdown_date: date, end_state: state, calls }) => (
                <li key={id}>
                  <Badge tone={modelTones[state]}>{state === "ended" ? "ended" : "ends"}</Badge>
                  <a href={href("providers", [provider])}>{id}</a>
                  <Time at={date} /> <span class="muted">{date}</span>
                  <a class="amount" href={href("calls", [], { provider, upstream_model: model, since })}>
                    {count(calls)} calls
                  </a>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}
