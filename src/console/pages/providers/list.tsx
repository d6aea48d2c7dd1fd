/** All providers: what is in cooldown, and their numbers against the time before. */
import type { ProviderList as Providers } from "../../../api/providers.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { beforeWords, linkedTime, range } from "../../range.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, duration, largest, Money, Time } from "../../ui/format.tsx";
import { Page, Panel, State } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { serverWords } from "../../workers.ts";
import { type Compared, compare, nothing } from "./against.ts";
import { Change, percent } from "./change.tsx";
import { CooldownTable } from "./cooldown.tsx";
import { Course } from "./course.tsx";
import { type Provider, stateTones } from "./types.ts";

/** `set up`: absent for one that the ledger alone knows. */
type Row = Compared & { readonly known: Provider | undefined };

const counted = (value: number | null) => count(value ?? 0);

/** So many percent of errors mark a provider of which nothing is in cooldown, as one with a single key never does. */
const [manyErrors, someErrors] = [50, 5];

function toneOf({ known, now: { errorShare } }: Row): "bad" | "warn" | undefined {
  if (known?.state === "resting" || (errorShare ?? 0) >= manyErrors) return "bad";
  return known?.state === "degraded" || (errorShare ?? 0) >= someErrors ? "warn" : undefined;
}

function columnsOf(): readonly Column<Row>[] {
  const by = (of: (row: Row) => number | null) => (a: Row, b: Row) => (of(a) ?? -1) - (of(b) ?? -1);
  const firstToken = (name: "p50" | "p95"): Column<Row> => ({
    ...{ id: name, title: `First token, ${name}`, align: "end" },
    cell: ({ now, before }) => <Change now={now[name]} before={before[name]} shown={duration} lessIsBetter />,
    sort: by(({ now }) => now[name]),
  });
  return [
    {
      ...{ id: "provider", title: "Provider" },
      cell: ({ provider, known }) =>
        known === undefined ? provider : <a href={href("providers", [provider])}>{provider}</a>,
    },
    {
      ...{ id: "state", title: "State" },
      cell: ({ known }) => {
        if (known === undefined) return <span class="muted">not set up, or compiled in</span>;
        const waiting = known.keys.filter(({ rests, breaker }) => rests.length > 0 || breaker.state === "open").length;
        return (
          <>
            <State tone={stateTones[known.state]}>{known.state}</State>
            {waiting > 0 && ` ${waiting} of ${known.keys.length} in cooldown`}
          </>
        );
      },
    },
    {
      ...{ id: "calls", title: "Attempts", align: "end" },
      cell: ({ provider, now, before }) => (
        <Change
          now={now.calls}
          before={before.calls}
          shown={counted}
          href={href("calls", [], { provider, ...linkedTime() })}
        />
      ),
      sort: by(({ now }) => now.calls),
    },
    {
      ...{ id: "errors", title: "Faults", align: "end" },
      cell: ({ now, before }) => (
        <Change now={now.errorShare} before={before.errorShare} shown={percent} lessIsBetter isShare />
      ),
      sort: by(({ now }) => now.errorShare),
    },
    {
      ...{ id: "failed", title: "Faults, counted", align: "end", hidden: true },
      cell: ({ now, before }) => <Change now={now.errors} before={before.errors} shown={counted} lessIsBetter />,
      sort: by(({ now }) => now.errors),
    },
    firstToken("p50"),
    firstToken("p95"),
    {
      ...{ id: "cost", title: "Cost", align: "end" },
      cell: ({ provider, now, before }, rows) => (
        <Change
          now={now.cost}
          before={before.cost}
          shown={(sum) => <Money micro={sum} most={largest(rows.map((row) => row.now.cost))} />}
          href={href("spend", [], { provider, ...linkedTime() })}
        />
      ),
      sort: by(({ now }) => now.cost),
    },
    { id: "unknown", title: "Unknown cost", align: "end", hidden: true, cell: ({ now }) => count(now.unknownCosts) },
    { id: "dialect", title: "Dialect", hidden: true, cell: ({ known }) => known?.dialect ?? "–" },
  ];
}

export function ProviderList() {
  const time = range();
  const list = useResource((signal) => get<Providers>("v1/providers", {}, { signal }), [], { everyMs: 5_000 });
  const numbers = useResource((signal) => compare(time, undefined, signal), [time], { everyMs: 15_000 });
  return (
    <Page title="Providers" isOfTime actions={<Curl path="v1/providers" />}>
      <Loaded resource={list}>
        {({ data: providers }) => (
          <>
            {providers.length === 0 && (
              <Empty title="No provider is set up: only what is built in can be called.">
                Set a provider's key in the environment of the server, such as <code>OPENAI_API_KEY</code> or{" "}
                <code>ANTHROPIC_API_KEY</code>, or name it under <code>providers</code> in <code>troupe.yaml</code>, and
                start the server again.
              </Empty>
            )}
            {providers.length > 0 && (
              <Panel title="In cooldown" note={`of ${serverWords(providers[0]!.workers)}`}>
                <CooldownTable providers={providers} reload={list.reload} />
              </Panel>
            )}
            {(providers.length > 0 || numbers.data?.rows.length !== 0) && (
              <>
                <Loaded resource={numbers}>
                  {({ since, until, rows, asked }) => {
                    const known = new Map(rows.map((row) => [row.provider, row]));
                    const setUp: Row[] = providers.map((one) => ({
                      ...(known.get(one.id) ?? { provider: one.id, now: nothing, before: nothing }),
                      known: one,
                    }));
                    const ids = new Set(providers.map(({ id }) => id));
                    const others = rows.filter(({ provider }) => !ids.has(provider));
                    return (
                      <Panel
                        title={`Against ${beforeWords()}`}
                        note={
                          <>
                            <Time at={since} exact /> to <Time at={until} exact />
                          </>
                        }
                        actions={<Curl path="v1/usage" query={asked} />}
                      >
                        <Table
                          caption="Providers against the time before"
                          choose="providers"
                          columns={columnsOf()}
                          rows={[...setUp, ...others.map((row) => ({ ...row, known: undefined }))]}
                          rowKey={({ provider }) => provider}
                          rowTone={toneOf}
                          empty={<p class="muted">No provider was called in either time.</p>}
                        />
                        <p class="muted">
                          Faults are attempts that failed for the provider's own reasons. Errors, on other pages, are
                          all that ended refused, broken or interrupted, for a fault in the request too. Percentiles are
                          estimated from counts.
                        </p>
                      </Panel>
                    );
                  }}
                </Loaded>
                <Course />
              </>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}
