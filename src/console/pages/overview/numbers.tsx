/** Attempts, errors, tokens and costs: of the present span, and over time. */
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { askedTime, linkedTime, range, rangeWords } from "../../range.ts";
import { href } from "../../router.ts";
import { spanOf } from "../../time-span.ts";
import { Chart } from "../../ui/chart.tsx";
import { Curl } from "../../ui/copy.tsx";
import { count, duration, Money, short } from "../../ui/format.tsx";
import { Panel, Stat, Stats } from "../../ui/layout.tsx";
import { zoneName } from "../../ui/numbers.ts";
import { Loaded } from "../../ui/states.tsx";
import { serverWords, type Workers } from "../../workers.ts";
import { Ends } from "../spend/ends.tsx";
import { along, errorsOf, getSums, grainOf, quantiles, secondsOf, spansOf, tokensOf } from "../spend/sums.ts";

const callsIn = (since: string, until: string) => href("calls", [], { since, until });

type Open = { readonly total: number; readonly workers: Workers };

export function Numbers() {
  const { since: begun, until: end = Date.now() } = spanOf(range(), Date.now());
  const grain = grainOf(end - begun);
  const query = { by: grain, ...askedTime(), first_token: "true" };
  const sums = useResource((signal) => getSums(query, signal), [query], {
    everyMs: grain === "hour" ? 5_000 : 30_000,
  });
  const open = useResource((signal) => get<Open>("v1/calls/open", { limit: "1" }, { signal }), [], { everyMs: 5_000 });
  return (
    <Loaded resource={sums}>
      {({ since: from, until, data, total }) => {
        const spans = spansOf(grain, from, until);
        const x = spans.map(secondsOf);
        const errors = errorsOf(total);
        const { calls, unknown_cost_calls: unknown } = total;
        const share = calls === 0 ? 0 : (100 * errors) / calls;
        return (
          <>
            <Stats>
              <Stat
                label="Attempts"
                value={count(calls)}
                href={href("calls", [], linkedTime())}
                note={`${rangeWords()}; a rerouted call is several`}
              />
              <Stat
                label="Errors"
                value={`${share.toFixed(share < 10 ? 2 : 1)} %`}
                tone={share >= 5 ? "bad" : share >= 1 ? "warn" : "ok"}
                note={<Ends of={total} chosen={linkedTime()} />}
              />
              <Stat
                label="First token, p50"
                value={duration(total.first_token_ms?.p50)}
                note={`p95 ${duration(total.first_token_ms?.p95)}, p99 ${duration(total.first_token_ms?.p99)}; estimated from counts`}
              />
              <Stat
                label="Tokens"
                value={short(tokensOf(total))}
                note={`${short(total.tokens["output"] ?? 0)} of them output`}
              />
              <Stat
                label="Cost"
                value={<Money micro={total.cost_micro_dollars} />}
                href={href("spend", [], linkedTime())}
                note={unknown === 0 ? "of all attempts" : `without ${count(unknown)} attempts of unknown cost`}
              />
              <Stat
                label="Open calls"
                value={open.data === undefined ? "…" : count(open.data.total)}
                href={href("calls")}
                note={`streams included; of ${serverWords(open.data?.workers ?? null)}`}
              />
            </Stats>
            <Panel
              title={`By ${grain}, ${rangeWords()}`}
              note={`in ${grain === "hour" ? zoneName() : "UTC"}`}
              actions={<Curl path="v1/usage" query={query} />}
            >
              <div class="charts">
                <Chart
                  title="Attempts"
                  unit="attempts"
                  kind="stacked"
                  height={120}
                  x={x}
                  leadsTo={callsIn}
                  series={[
                    { label: "errors", values: along(spans, grain, data, errorsOf), tone: "bad" },
                    { label: "others", values: along(spans, grain, data, (row) => row.calls - errorsOf(row)) },
                  ]}
                />
                <Chart
                  title="Cost"
                  unit="money"
                  kind="bars"
                  height={120}
                  x={x}
                  leadsTo={callsIn}
                  series={[{ label: "cost", values: along(spans, grain, data, (row) => row.cost_micro_dollars) }]}
                />
                <Chart
                  title="First token"
                  unit="ms"
                  isOneHue
                  height={120}
                  x={x}
                  leadsTo={callsIn}
                  series={quantiles.map((name) => {
                    const known = new Map(data.map((row) => [row[grain], row.first_token_ms?.[name] ?? null]));
                    return { label: name, values: spans.map((span) => known.get(span) ?? null) };
                  })}
                />
                <Chart
                  title="Tokens"
                  unit="tokens"
                  kind="stacked"
                  height={120}
                  x={x}
                  leadsTo={callsIn}
                  series={[
                    { label: "output", values: along(spans, grain, data, ({ tokens }) => tokens["output"] ?? 0) },
                    { label: "input", values: along(spans, grain, data, ({ tokens }) => tokens["input"] ?? 0) },
                  ]}
                />
              </div>
            </Panel>
          </>
        );
      }}
    </Loaded>
  );
}
