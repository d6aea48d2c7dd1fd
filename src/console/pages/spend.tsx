/** What calls cost, by the ledger: over time, and by who and what. */
import type { Key } from "../../api/keys.ts";
import { apiUrl, get } from "../api.ts";
import { useResource } from "../data.ts";
import { dayMs, hourMs, periodOf } from "../period.ts";
import { askedTime, everything, range, rangeWords, setRange } from "../range.ts";
import { href, type Query, route, setQuery } from "../router.ts";
import { Chart } from "../ui/chart.tsx";
import { Curl } from "../ui/copy.tsx";
import { Button } from "../ui/form.tsx";
import { count, duration, exactMoney, Money, short, Time } from "../ui/format.tsx";
import { Bar, Page, Panel, Stat, Stats, Tabs } from "../ui/layout.tsx";
import { moment, zoneName } from "../ui/numbers.ts";
import { Empty, Loaded } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Ends } from "./spend/ends.tsx";
import {
  along,
  bucketsOf,
  dayOf,
  errorsOf,
  type Granularity,
  getSums,
  granularityOf,
  groups,
  nameOf,
  ownPageOf,
  quantiles,
  type Row,
  type Sums,
  secondsOf,
  tokensOf,
} from "./spend/sums.ts";

const filters = [
  "model",
  "persona",
  "key",
  "tag",
  "client",
  "provider",
  "surface",
  "service_tier",
  "user",
  "price_source",
] as const;
const tabs = [...groups, { id: "time", title: "Time" }];

/** Series that stand beside each other in the chart; the others are one. */
const maxSeries = 5;
/** Rows of the table. */
const maxShown = 1_000;

/** Of so many rows at most the sums over time are one answer. */
const maxTogether = 50;

/** Sums over time of all, and of each row that has a series. */
async function overTime(
  asked: Query,
  granularity: Granularity,
  by: string,
  top: readonly string[],
  isTogether: boolean,
  signal: AbortSignal,
) {
  if (isTogether) {
    // One look at the ledger is a third of the work of six.
    const all = await getSums({ ...asked, by: `${granularity},${by}` }, signal);
    const rowsOf = (value: string) => all.data.filter((row) => String(row[by] ?? "") === value);
    return { all, each: top.map((value) => ({ ...all, data: rowsOf(value) })) };
  }
  const [all, ...each] = await Promise.all([
    getSums({ ...asked, by: granularity }, signal),
    ...top.map((value) => getSums({ ...asked, by: granularity, [by]: value }, signal)),
  ]);
  return { all, each };
}

function CostChart({
  asked,
  by,
  granularity,
  rows,
}: {
  asked: Query;
  by: string;
  granularity: Granularity;
  rows: readonly Row[];
}) {
  const top = by === "time" ? [] : rows.slice(0, rows.length === maxSeries + 1 ? rows.length : maxSeries);
  const values = top.map((row) => String(row[by] ?? ""));
  // Calls with several tags would be counted several times.
  const isTogether = by !== "time" && by !== "tag" && rows.length <= maxTogether;
  const sums = useResource(
    (signal) => overTime(asked, granularity, by, values, isTogether, signal),
    [asked, granularity, by, values, isTogether],
  );
  return (
    <Loaded resource={sums}>
      {({ all, each }) => {
        const buckets = bucketsOf(granularity, all.since, all.until);
        const costs = ({ data }: Sums) => along(buckets, granularity, data, (row) => row.cost_micro_dollars);
        const total = costs(all);
        const series = each.map((one, at) => ({ label: nameOf(top[at]!, by), values: costs(one) }));
        const rest = total.map((cost, at) => cost - series.reduce((sum, one) => sum + one.values[at]!, 0));
        const others = { label: "others", values: rest, tone: "quiet" as const };
        // Calls with several tags are in several series: what is left of all says nothing.
        const isWhole = by === "tag" || rest.every((cost) => cost === 0);
        const shown = by === "time" ? [{ label: "all", values: total }] : isWhole ? series : [...series, others];
        return (
          <Panel
            title="Over time"
            note={`in ${granularity === "hour" ? zoneName() : "UTC"}`}
            actions={
              <Curl path="v1/usage" query={{ ...asked, by: by === "time" ? granularity : `${granularity},${by}` }} />
            }
          >
            <Chart
              title={`Cost by ${granularity}`}
              unit="money"
              kind="stacked"
              x={buckets.map(secondsOf)}
              series={shown}
              leadsTo={(since, until) => callsOf({ ...asked, since, until })}
            />
          </Panel>
        );
      }}
    </Loaded>
  );
}

const callsOf = (chosen: Query, more: Query = {}): string => href("calls", [], { ...chosen, ...more });

/** Where the calls of a row are. */
function callsOfRow(chosen: Query, row: Row, by: string, granularity: Granularity): string {
  if (by !== "time") {
    const value = String(row[by] ?? "");
    return callsOf(chosen, { [by]: value });
  }
  return callsOf(chosen, timeOf(row, granularity));
}

/** The time of an hour's, a day's or a month's row. */
function timeOf(row: Row, granularity: Granularity): { readonly since: string; readonly until: string } {
  const from = String(row[granularity]);
  const at = Date.parse(from);
  if (granularity === "hour") return { since: from, until: new Date(at + hourMs).toISOString() };
  if (granularity === "day") return { since: from, until: dayOf(at + dayMs) };
  // The day that is 32 days on is in the next month.
  return { since: `${from}-01`, until: `${dayOf(at + 32 * dayMs).slice(0, 7)}-01` };
}

/** A row's cost, which leads to what it is made of: of a model by key, of all else by model. */
function Narrowed({
  row,
  by,
  granularity,
}: {
  readonly row: Row;
  readonly by: string;
  readonly granularity: Granularity;
}) {
  const kept = Object.fromEntries(route.value.query);
  const cost = exactMoney(row.cost_micro_dollars);
  const value = String(row[by === "time" ? granularity : by] ?? "");
  if (value === "") return <>{cost}</>;
  const only = by === "time" ? timeOf(row, granularity) : { [by]: value };
  return (
    <a href={href("spend", [], { ...kept, ...only, by: by === "model" ? "key" : "model" })}>
      {cost}
      <span class="unseen"> of {nameOf(row, by === "time" ? granularity : by)}, by what it is made of</span>
    </a>
  );
}

function columnsFor(chosen: Query, by: string, granularity: Granularity, total: number): readonly Column<Row>[] {
  const number = (id: string, title: string, of: (row: Row) => number, hidden = false): Column<Row> => ({
    ...{ id, title, align: "end", hidden },
    cell: (row) => count(of(row)),
    sort: (a, b) => of(a) - of(b),
  });
  const page = ownPageOf(by);
  const named = (row: Row) => {
    if (by === "time")
      return granularity === "hour" ? moment(new Date(String(row[granularity]))) : String(row[granularity]);
    const value = String(row[by] ?? "");
    const name = nameOf(row, by);
    return page === undefined || value === "" ? name : <a href={href(page, [value])}>{name}</a>;
  };
  return [
    { id: "name", title: tabs.find(({ id }) => id === by)!.title, cell: named },
    {
      ...{ id: "cost", title: "Cost", align: "end" },
      cell: (row) => <Narrowed row={row} by={by} granularity={granularity} />,
      sort: (a, b) => a.cost_micro_dollars - b.cost_micro_dollars,
    },
    {
      ...{ id: "share", title: "Share", align: "end" },
      cell: (row) => (total === 0 ? "–" : `${((100 * row.cost_micro_dollars) / total).toFixed(1)} %`),
    },
    {
      ...{ id: "calls", title: "Attempts", align: "end" },
      cell: (row) => (
        <a href={callsOfRow(chosen, row, by, granularity)}>
          {count(row.calls)}
          <span class="unseen"> attempts of {nameOf(row, by === "time" ? granularity : by)}</span>
        </a>
      ),
      sort: (a, b) => a.calls - b.calls,
    },
    number("errors", "Errors", errorsOf),
    number("unknown", "Unknown cost", (row) => row.unknown_cost_calls),
    number("input", "Input tokens", ({ tokens }) => tokens["input"] ?? 0),
    number("cached", "Cached", ({ tokens }) => tokens["cache_read"] ?? 0),
    number("output", "Output tokens", ({ tokens }) => tokens["output"] ?? 0),
    ...quantiles.map((name) => ({
      ...{ id: name, title: `First token, ${name}`, align: "end" as const, hidden: true },
      cell: (row: Row) => duration(row.first_token_ms?.[name]),
      sort: (a: Row, b: Row) => (a.first_token_ms?.[name] ?? 0) - (b.first_token_ms?.[name] ?? 0),
    })),
    number("reasoning", "Reasoning", ({ tokens }) => tokens["reasoning"] ?? 0, true),
    number("estimated", "Estimated counts", (row) => row.estimated_calls, true),
  ];
}

/** What is shown beside what the ledger has: the same numbers, added up by two questions. */
function Equality({ sums, by }: { readonly sums: Sums; readonly by: string }) {
  const added = sums.data.reduce((sum, row) => sum + row.cost_micro_dollars, 0);
  const { cost_micro_dollars: total } = sums.total;
  const { newest_call_at: newest, retention_days: days } = sums.ledger;
  const isEqual = added === total;
  return (
    <p class="muted" id="equality">
      {isEqual ? (
        <>The rows add up to the ledger's {exactMoney(total)}, to the micro-dollar. </>
      ) : by === "tag" ? (
        <>A call with several tags counts for each of them: the rows add up to {exactMoney(added)}. </>
      ) : (
        <>
          {sums.has_more
            ? `These are the costliest ${count(sums.data.length)} of ${count(sums.rows ?? 0)} rows; the file has all of them. `
            : `The rows add up to ${exactMoney(added)}, as calls ended meanwhile: `}
          <Button onClick={() => location.reload()}>Load again</Button>{" "}
        </>
      )}
      The newest counted call began <Time at={newest} />. Lines are kept for {days} days.
    </p>
  );
}

export function SpendPage() {
  const { query } = route.value;
  const by = tabs.some(({ id }) => id === query.get("by")) ? query.get("by")! : "model";
  const { since, until = Date.now() } = periodOf(range(), Date.now());
  const granularity = granularityOf(until - since);
  const own = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? undefined]));
  /** As links hand it on. */
  const chosen: Query = { ...range(), ...own };
  const asked: Query = { ...askedTime(), ...own, by: by === "time" ? granularity : by, first_token: "true" };
  // A time has few rows, in its order; of others the costliest are shown.
  const shown: Query = by === "time" ? asked : { ...asked, top: String(maxShown) };
  const sums = useResource((signal) => getSums(shown, signal), [shown]);
  const keyId = query.get("key");
  const key = useResource(
    async (signal) => (keyId ? get<Key>(`v1/keys/${encodeURIComponent(keyId)}`, {}, { signal }) : undefined),
    [keyId],
  );
  const kept = Object.fromEntries(query);
  return (
    <Page
      title="Spend"
      isOfTime
      note={rangeWords()}
      actions={
        <>
          <Curl path="v1/usage" query={shown} />
          <a class="button" href={apiUrl("v1/usage", { ...asked, format: "csv" })} download>
            Download CSV
          </a>
        </>
      }
    >
      <Bar label="Filters">
        {filters.map((name) =>
          query.has(name) ? (
            <Button key={name} onClick={() => setQuery({ [name]: undefined })}>
              {name.replace("_", " ")}: {(name === "key" ? key.data?.name : undefined) ?? (query.get(name) || "none")}{" "}
              <span aria-hidden="true">✕</span>
              <span class="unseen">, remove this filter</span>
            </Button>
          ) : null,
        )}
      </Bar>
      <Loaded resource={sums} shape="numbers">
        {(found) => {
          const { total } = found;
          const rows = by === "time" ? found.data.toReversed() : found.data;
          const unknown = total.unknown_cost_calls;
          if (total.calls === 0)
            return (
              <Empty title="No call in this time fits.">
                <Button onClick={() => setRange(everything)}>Look in all that is kept</Button> or{" "}
                <a href={href("playground")}>make a call</a>.
              </Empty>
            );
          return (
            <>
              <Stats>
                <Stat
                  label="Cost"
                  value={<Money micro={total.cost_micro_dollars} />}
                  note={unknown > 0 ? `and ${count(unknown)} attempts of unknown cost` : "of all attempts"}
                />
                <Stat
                  label="Attempts"
                  value={count(total.calls)}
                  href={callsOf(chosen)}
                  note={
                    <>
                      <Money micro={Math.round(total.cost_micro_dollars / Math.max(1, total.calls - unknown))} /> each
                    </>
                  }
                />
                <Stat
                  label="Unknown cost"
                  value={count(unknown)}
                  tone={unknown > 0 ? "warn" : "ok"}
                  href={callsOf(chosen, { price_source: "unknown" })}
                  note={unknown > 0 ? "attempts that the cost leaves out" : "every attempt has a price"}
                />
                <Stat
                  label="Errors"
                  value={`${((100 * errorsOf(total)) / total.calls).toFixed(2)} %`}
                  note={<Ends of={total} chosen={chosen} />}
                />
                <Stat
                  label="Tokens"
                  value={short(tokensOf(total))}
                  note={`${short(total.tokens["cache_read"] ?? 0)} from a cache`}
                />
              </Stats>
              <CostChart asked={{ ...askedTime(), ...own }} by={by} granularity={granularity} rows={rows} />
              <Tabs
                label="By"
                current={by}
                tabs={tabs.map(({ id, title }) => ({ id, title, href: href("spend", [], { ...kept, by: id }) }))}
              />
              <Table
                caption={`Spend by ${by}`}
                choose="spend"
                columns={columnsFor(chosen, by, granularity, total.cost_micro_dollars)}
                rows={rows}
                isPart={found.has_more}
                rowKey={(row) => String(row[by === "time" ? granularity : by])}
                rowTone={(row) => (row.unknown_cost_calls > 0 ? "warn" : undefined)}
                empty={<Empty title="There are no rows." />}
              />
              <Equality sums={found} by={by} />
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
