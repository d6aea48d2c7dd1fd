/** What ends soon: budgets at their pace, and models whose end is announced. */

import type { Budget } from "../../../api/budgets.ts";
import type { ModelEnding } from "../../../api/models.ts";
import type { Listed } from "../../../api/shape.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { dayMs } from "../../period.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, Dollars, Time } from "../../ui/format.tsx";
import { Badge, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { linkOfScope } from "../keys/budgets.tsx";
import { dayOf } from "../spend/sums.ts";

const shown = 6;
const budgetsQuery = { ending: "true", limit: String(shown) };
const tones = { ok: "quiet", low: "warn", spent: "bad" } as const;
const modelTones = { ended: "bad", ends_soon: "warn", later: "quiet" } as const;

type Budgets = { readonly ending: Listed<Budget>; readonly isAny: boolean };

/** Of all budgets: those that end come first, however many there are. */
async function endingBudgets(signal: AbortSignal): Promise<Budgets> {
  const ending = await get<Listed<Budget>>("v1/budgets", budgetsQuery, { signal });
  if (ending.data.length > 0) return { ending, isAny: true };
  const { data } = await get<Listed<Budget>>("v1/budgets", { limit: "1" }, { signal });
  return { ending, isAny: data.length > 0 };
}

function Budgets({ ending, isAny }: Budgets) {
  if (!isAny)
    return (
      <p class="muted">
        No budget is set: nothing stops a key from spending. <a href={href("keys", ["budgets"])}>Set one</a>.
      </p>
    );
  if (ending.data.length === 0)
    return (
      <p class="muted">
        No <a href={href("keys", ["budgets"])}>budget</a> runs out at this pace.
      </p>
    );
  return (
    <>
      <ul class="findings">
        {ending.data.map((budget) => (
          <li key={budget.id}>
            <Badge tone={tones[budget.state]}>{budget.state}</Badge>
            <a href={linkOfScope(budget.scope)}>
              {budget.name ?? budget.scope}, {budget.period}
            </a>
            {budget.state === "spent" ? (
              <span>
                spent;{" "}
                {budget.resets_at === null ? (
                  "it stays so until it is raised"
                ) : (
                  <>
                    opens <Time at={budget.resets_at} /> (<Time at={budget.resets_at} exact />)
                  </>
                )}
              </span>
            ) : (
              budget.runs_out_at !== null && (
                <span>
                  runs out <Time at={budget.runs_out_at} /> (<Time at={budget.runs_out_at} exact />) at this pace
                </span>
              )
            )}
            <span class="amount muted">
              <Dollars of={budget.left} /> of <Dollars of={budget.dollars} /> left
            </span>
          </li>
        ))}
      </ul>
      {ending.has_more && <a href={href("keys", ["budgets"])}>More budgets end</a>}
    </>
  );
}

export function Ending() {
  const since = dayOf(Date.now() - 6 * dayMs);
  const budgets = useResource(endingBudgets, [], { everyMs: 30_000 });
  const models = useResource((signal) => get<Listed<ModelEnding>>("v1/models/ending", {}, { signal }), [], {
    everyMs: 60_000,
  });
  return (
    <Panel title="Ends soon" actions={<Curl path="v1/budgets" query={budgetsQuery} />}>
      <h3>Budgets</h3>
      <Loaded resource={budgets}>{(found) => <Budgets {...found} />}</Loaded>
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
                  <a href={href("providers", [provider], { model })}>{id}</a>
                  <Time at={date} /> <span class="muted">{date}</span>
                  <a class="amount" href={href("calls", [], { provider, upstream_model: model, since })}>
                    {count(calls)} attempts
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
