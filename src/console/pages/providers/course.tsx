/** A measure of providers over time, drawn. */
import { useResource } from "../../data.ts";
import { dayMs, hourMs, periodOf } from "../../period.ts";
import { beforeWords, range } from "../../range.ts";
import { href, route, setQuery } from "../../router.ts";
import { Chart, type ChartSeries, type Unit } from "../../ui/chart.tsx";
import { Curl } from "../../ui/copy.tsx";
import { Segments } from "../../ui/form.tsx";
import { Panel } from "../../ui/layout.tsx";
import { zoneName } from "../../ui/numbers.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { bucketsOf, type Granularity, getSums, granularityOf, type Row, type Sums, secondsOf } from "../spend/sums.ts";
import { ofRequest } from "./types.ts";

type Measure = {
  readonly id: string;
  readonly title: string;
  readonly unit: Unit;
  /** @param failed for the provider's own reasons */
  readonly of: (row: Row | undefined, failed: number) => number | null;
};

const measures: readonly Measure[] = [
  {
    ...{ id: "errors", title: "Faults", unit: "percent" },
    of: (row, failed) => (row === undefined ? null : (100 * failed) / row.calls),
  },
  { id: "p50", title: "First token, p50", unit: "ms", of: (row) => row?.first_token_ms?.p50 ?? null },
  { id: "p95", title: "First token, p95", unit: "ms", of: (row) => row?.first_token_ms?.p95 ?? null },
  { id: "calls", title: "Attempts", unit: "attempts", of: (row) => row?.calls ?? 0 },
  { id: "cost", title: "Cost", unit: "money", of: (row) => row?.cost_micro_dollars ?? 0 },
];

/** Providers that are drawn; the others are in the table of numbers. */
const maxSeries = 6;

/** @returns a measure by provider and bucket */
function valuesOf(measure: Measure, granularity: Granularity, sums: Sums, failures: Sums | undefined) {
  const placeOf = (row: Row) => `${row["provider"]} ${row[granularity]}`;
  const failed = new Map<string, number>();
  for (const row of failures?.data ?? []) {
    const failure = String(row["failure"]);
    if (failure === "" || ofRequest.has(failure)) continue;
    failed.set(placeOf(row), (failed.get(placeOf(row)) ?? 0) + row.calls);
  }
  const rows = new Map(sums.data.map((row) => [placeOf(row), row]));
  return (provider: string, bucket: string) => {
    const place = `${provider} ${bucket}`;
    return measure.of(rows.get(place), failed.get(place) ?? 0);
  };
}

/** Of one provider both times lie over each other; of all of them they follow each other. */
export function Course({ provider }: { readonly provider?: string }) {
  const asked = route.value.query.get("measure");
  const measure = measures.find(({ id }) => id === asked) ?? measures[0]!;
  const { since, until, shiftMs } = periodOf(range(), Date.now());
  const granularity = granularityOf(2 * shiftMs) === "hour" ? "hour" : "day";
  // Of whole buckets: the same address asks the same.
  const text = (at: number) => new Date(Math.floor(at / hourMs) * hourMs).toISOString();
  const from = text(since - shiftMs);
  const time = { since: from, until: until === undefined ? undefined : text(until), provider };
  const query = { ...time, by: `${granularity},provider`, first_token: "true" };
  const failureQuery = { ...time, by: `${granularity},provider,failure` };
  const sums = useResource(
    (signal) =>
      Promise.all([
        getSums(query, signal),
        measure.id === "errors" ? getSums(failureQuery, signal) : Promise.resolve(undefined),
      ]),
    [query, measure.id],
    { everyMs: 30_000 },
  );
  return (
    <Panel
      title={`Over time, by ${granularity}`}
      note={`in ${granularity === "hour" ? zoneName() : "UTC"}`}
      actions={<Curl path="v1/usage" query={measure.id === "errors" ? failureQuery : query} />}
    >
      <Segments
        label="Measure"
        of={measures}
        chosen={measure.id}
        onChoose={(id) => setQuery({ measure: id }, { replace: true })}
      />
      <Loaded resource={sums}>
        {([all, failures]) => {
          const buckets = bucketsOf(granularity, all.since, all.until);
          const valueIn = valuesOf(measure, granularity, all, failures);
          const leadsTo = (since: string, until: string) => href("calls", [], { provider, since, until });
          const drawn = { title: measure.title, unit: measure.unit, height: 160, leadsTo };
          if (provider !== undefined) {
            const later = buckets.filter((bucket) => Date.parse(bucket) >= Date.parse(from) + shiftMs);
            const earlier = later.map(
              (bucket) => buckets[buckets.indexOf(bucket) - Math.round(shiftMs / stepMs(granularity))] ?? "",
            );
            const series: ChartSeries[] = [
              { label: "now", values: later.map((bucket) => valueIn(provider, bucket)) },
              { label: beforeWords(), values: earlier.map((bucket) => valueIn(provider, bucket)), tone: "quiet" },
            ];
            return <Chart {...drawn} x={later.map(secondsOf)} series={series} />;
          }
          const calls = new Map<string, number>();
          for (const row of all.data) {
            const name = String(row["provider"]);
            if (name !== "") calls.set(name, (calls.get(name) ?? 0) + row.calls);
          }
          const names = [...calls].sort((a, b) => b[1] - a[1]).map(([name]) => name);
          if (names.length === 0) return <Empty title="No provider was called in this time." />;
          const series = names
            .slice(0, maxSeries)
            .map((name) => ({ label: name, values: buckets.map((bucket) => valueIn(name, bucket)) }));
          return <Chart {...drawn} x={buckets.map(secondsOf)} series={series} />;
        }}
      </Loaded>
    </Panel>
  );
}

const stepMs = (granularity: Granularity): number => (granularity === "hour" ? hourMs : dayMs);
