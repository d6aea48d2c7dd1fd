/** Attempts, errors, tokens and costs: of the time that is chosen, against the one before, and over it. */

import type { ComponentChildren } from "preact";
import type { OpenCalls } from "../../../api/calls.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { bothTimes, periodOf } from "../../period.ts";
import { askedTime, beforeWords, linkedTime, range, rangeWords } from "../../range.ts";
import { href } from "../../router.ts";
import { Chart } from "../../ui/chart.tsx";
import { Curl } from "../../ui/copy.tsx";
import { count, duration, exactMoney, Money, short } from "../../ui/format.tsx";
import { Panel, Stat, Stats } from "../../ui/layout.tsx";
import { zoneName } from "../../ui/numbers.ts";
import { Loaded } from "../../ui/states.tsx";
import { serverWords } from "../../workers.ts";
import { changedOf, percent } from "../providers/change.tsx";
import { Ends } from "../spend/ends.tsx";
import {
  along,
  bucketsOf,
  errorsOf,
  type Granularity,
  getSums,
  granularityOf,
  quantiles,
  type Sums,
  secondsOf,
  type Totals,
  tokensOf,
} from "../spend/sums.ts";

const callsIn = (since: string, until: string) => href("calls", [], { since, until });

/** The same of as much of the time before. */
const pastSums = (signal: AbortSignal) =>
  getSums({ by: "ended", first_token: "true", ...bothTimes(range()).before }, signal).then(({ total }) => total);

const shareOf = (of: Totals) => (of.calls === 0 ? null : (100 * errorsOf(of)) / of.calls);

type Shown = { readonly sums: Sums; readonly past: Totals | undefined; readonly granularity: Granularity };

function Cards({ sums: { data, total, since, until }, past, granularity }: Shown) {
  const open = useResource((signal) => get<OpenCalls>("v1/calls/open", { limit: "1" }, { signal }), [], {
    everyMs: 5_000,
  });
  const buckets = bucketsOf(granularity, since, until);
  const { calls, unknown_cost_calls: unknown } = total;
  const share = shareOf(total) ?? 0;
  const word = beforeWords();
  const isKnown = past !== undefined && past.calls > 0;
  const changed = (of: (one: Totals) => number | null, shown: (value: number | null) => string, more: object = {}) =>
    isKnown ? changedOf({ now: of(total), before: of(past), shown, word, ...more }) : undefined;
  const firsts = new Map(data.map((row) => [row[granularity], row.first_token_ms?.p50 ?? null]));
  const counted = (value: number | null) => count(value ?? 0);
  return (
    <Stats>
      <Stat
        label="Attempts"
        value={short(calls)}
        exact={count(calls)}
        href={href("calls", [], linkedTime())}
        note="a rerouted call is several"
        change={changed(({ calls: all }) => all, counted)}
        course={along(buckets, granularity, data, (row) => row.calls)}
      />
      <Stat
        label="Errors"
        value={`${share.toFixed(share < 10 ? 2 : 1)} %`}
        exact={`${count(errorsOf(total))} of ${count(calls)}`}
        tone={share >= 5 ? "bad" : share >= 1 ? "warn" : "ok"}
        note={<Ends of={total} chosen={linkedTime()} />}
        change={changed(shareOf, percent, { isShare: true, lessIsBetter: true })}
        course={along(buckets, granularity, data, errorsOf)}
      />
      <Stat
        label="First token, p50"
        value={duration(total.first_token_ms?.p50)}
        exact="estimated from counts"
        note={`p95 ${duration(total.first_token_ms?.p95)}, p99 ${duration(total.first_token_ms?.p99)}`}
        change={changed((one) => one.first_token_ms?.p50 ?? null, duration, { lessIsBetter: true })}
        course={buckets.map((bucket) => firsts.get(bucket) ?? null)}
      />
      <Stat
        label="Tokens"
        value={short(tokensOf(total))}
        exact={count(tokensOf(total))}
        note={`${short(total.tokens["output"] ?? 0)} of them output`}
        change={changed(tokensOf, counted)}
        course={along(buckets, granularity, data, tokensOf)}
      />
      <Stat
        label="Cost"
        value={<Money micro={total.cost_micro_dollars} />}
        href={href("spend", [], linkedTime())}
        note={unknown === 0 ? "of all attempts" : `without ${count(unknown)} attempts of unknown cost`}
        change={changed(
          ({ cost_micro_dollars: cost }) => cost,
          (value) => exactMoney(value ?? 0),
        )}
        course={along(buckets, granularity, data, (row) => row.cost_micro_dollars)}
      />
      <Stat
        label="Open calls"
        value={open.data === undefined ? "…" : count(open.data.total)}
        href={href("calls")}
        note={`now, on ${serverWords(open.data?.workers ?? null)}`}
      />
    </Stats>
  );
}

function Charts({ sums: { data, since, until }, granularity }: Omit<Shown, "past">) {
  const buckets = bucketsOf(granularity, since, until);
  const drawn = { height: 120, x: buckets.map(secondsOf), leadsTo: callsIn };
  return (
    <div class="charts">
      <Chart
        {...{ title: "Attempts", unit: "attempts", kind: "stacked", ...drawn }}
        series={[
          { label: "errors", values: along(buckets, granularity, data, errorsOf), tone: "bad" },
          { label: "others", values: along(buckets, granularity, data, (row) => row.calls - errorsOf(row)) },
        ]}
      />
      <Chart
        {...{ title: "Cost", unit: "money", kind: "bars", ...drawn }}
        series={[{ label: "cost", values: along(buckets, granularity, data, (row) => row.cost_micro_dollars) }]}
      />
      <Chart
        {...{ title: "First token", unit: "ms", isOneHue: true, ...drawn }}
        series={quantiles.map((name) => {
          const known = new Map(data.map((row) => [row[granularity], row.first_token_ms?.[name] ?? null]));
          return { label: name, values: buckets.map((bucket) => known.get(bucket) ?? null) };
        })}
      />
      <Chart
        {...{ title: "Tokens", unit: "tokens", kind: "stacked", ...drawn }}
        series={[
          { label: "output", values: along(buckets, granularity, data, ({ tokens }) => tokens["output"] ?? 0) },
          { label: "input", values: along(buckets, granularity, data, ({ tokens }) => tokens["input"] ?? 0) },
        ]}
      />
    </div>
  );
}

/** @param children what stands beside the charts */
export function Numbers({ children }: { readonly children: ComponentChildren }) {
  const { since: begun, until: end = Date.now() } = periodOf(range(), Date.now());
  const granularity = granularityOf(end - begun);
  const query = { by: granularity, ...askedTime(), first_token: "true" };
  const sums = useResource((signal) => getSums(query, signal), [query], {
    everyMs: granularity === "hour" ? 5_000 : 30_000,
  });
  const past = useResource(pastSums, [range()], { everyMs: 60_000 });
  return (
    <Loaded resource={sums} shape="numbers">
      {(found) => (
        <>
          <Cards sums={found} past={past.data} granularity={granularity} />
          <div class="main-and-side">
            <Panel
              title={`By ${granularity}, ${rangeWords()}`}
              note={`in ${granularity === "hour" ? zoneName() : "UTC"}`}
              actions={<Curl path="v1/usage" query={query} />}
            >
              <Charts sums={found} granularity={granularity} />
            </Panel>
            {children}
          </div>
        </>
      )}
    </Loaded>
  );
}
