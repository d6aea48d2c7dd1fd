/** A persona's tests: what there is, what a run may cost, a run and its results. */

import { useEffect, useState } from "preact/hooks";
import type { PersonaTestRun, PersonaTests as Tests } from "../../../api/persona-tests.ts";
import { get, post } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Field, Select } from "../../ui/form.tsx";
import { count, duration, Money, Time } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { TestSource } from "./test-source.tsx";
import { type PersonaDetails, pathOf, verdictTones } from "./types.ts";

/** Seconds since a run began, counted while it lasts. */
function Elapsed() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((before) => before + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  return <span class="muted">asked for {seconds} s</span>;
}

/** Whether a run was of these tests. */
const isOf = (tests: Tests["tests"], { passed, failed, errors, tests: results }: PersonaTestRun) =>
  passed + failed + errors === tests.length &&
  (results.length < tests.length || tests.every(({ line }) => results.some((one) => one.line === line)));

function Results({
  run,
  id,
  isStale,
}: {
  readonly run: PersonaTestRun;
  readonly id: string;
  readonly isStale: boolean;
}) {
  const all = run.passed + run.failed + run.errors;
  return (
    <>
      <p>
        <Badge tone={run.failed > 0 ? "bad" : run.errors > 0 ? "warn" : "ok"}>
          {count(run.passed)} of {count(all)} passed
        </Badge>{" "}
        {run.failed > 0 && `${count(run.failed)} failed, `}
        {run.errors > 0 && `${count(run.errors)} could not be judged, `}
        <Time at={run.started_at} />, in {duration(run.duration_ms)}, for <Money micro={run.cost_micro_dollars} />
        {run.unknown_cost_calls > 0 && ` and ${count(run.unknown_cost_calls)} calls of unknown cost`}, as{" "}
        <code>{run.version}</code>
        {run.variant !== null && ` ${run.variant}`}.{" "}
        <a href={href("calls", [], { persona: id, client: "troupe-tests" })}>Their calls</a>
      </p>
      {isStale && <p class="notice warn">The persona or its tests have changed since. Run them again.</p>}
      <Table
        caption="Results of the tests"
        columns={[
          { id: "name", title: "Test", cell: ({ name }) => name },
          {
            id: "verdict",
            title: "Verdict",
            cell: ({ verdict }) => <Badge tone={verdictTones[verdict]}>{verdict}</Badge>,
          },
          { id: "time", title: "Time", align: "end", cell: (one) => duration(one.latency_ms) },
          { id: "reason", title: "Why", cell: ({ reason }) => <span class="wraps">{reason || "–"}</span> },
          {
            id: "output",
            title: "Answer",
            cell: ({ output }) =>
              output === null ? (
                "–"
              ) : (
                <details>
                  <summary>{output.slice(0, 60)}</summary>
                  <p class="answer">{output}</p>
                </details>
              ),
          },
        ]}
        rows={run.tests}
        rowKey={({ name }) => name}
        rowTone={({ verdict }) => (verdict === "fail" ? "bad" : verdict === "error" ? "warn" : undefined)}
        empty={<Empty title="Nothing was asked." />}
      />
    </>
  );
}

export function PersonaTests({
  persona,
  onRun,
}: {
  readonly persona: PersonaDetails;
  /** Called once they were run. */
  readonly onRun: () => void;
}) {
  const { id, version, variants } = persona;
  const path = `${pathOf(id)}/tests`;
  const tests = useResource((signal) => get<Tests>(path, {}, { signal }), [id, version]);
  const [variant, setVariant] = useState("");
  const [made, setMade] = useState<PersonaTestRun>();
  const { busy, error, run } = useAction();
  return (
    <Loaded resource={tests}>
      {({ file, tests: all, estimate, last_run: last }) => {
        const body = {
          ...(variant !== "" && { variant }),
          ...(estimate.most_micro_dollars > 1e6 && { max_dollars: Math.ceil(estimate.most_micro_dollars / 1e6) }),
        };
        const shown = made ?? last;
        return (
          <>
            {file !== null && (
              <Panel
                title={`${count(all.length)} ${all.length === 1 ? "test" : "tests"}`}
                note={file}
                actions={<Curl method="POST" path={`${path}/run`} body={body} />}
              >
                <Bar>
                  {variants.length > 0 && (
                    <Field label="Of">
                      <Select
                        value={variant}
                        options={[{ value: "", title: "the persona without its variants" }, ...variants]}
                        onChange={setVariant}
                      />
                    </Field>
                  )}
                  <Button
                    tone="primary"
                    busy={busy}
                    disabled={all.length === 0}
                    onClick={() =>
                      run(async () => {
                        setMade(await post<PersonaTestRun>(`${path}/run`, body));
                        onRun();
                      })
                    }
                  >
                    Run the tests
                  </Button>
                  {busy ? (
                    <Elapsed />
                  ) : (
                    <span class="muted">
                      {count(estimate.calls)} calls, <Money micro={estimate.most_micro_dollars} /> at most
                      {estimate.unknown_cost_calls > 0 &&
                        `, ${count(estimate.unknown_cost_calls)} of them of unknown cost`}
                    </span>
                  )}
                </Bar>
                {error !== undefined && <Failure error={error} />}
                {shown === null ? (
                  <Table
                    caption="Tests"
                    columns={[
                      { id: "name", title: "Test", cell: ({ name }) => name },
                      { id: "line", title: "Line", align: "end", cell: ({ line }) => count(line) },
                      {
                        id: "assertions",
                        title: "Assertions",
                        align: "end",
                        cell: ({ assertions }) => count(assertions),
                      },
                    ]}
                    rows={all}
                    rowKey={({ name }) => name}
                    empty={<Empty title="None can be run.">Mend the errors of their file below.</Empty>}
                  />
                ) : (
                  <Results run={shown} id={id} isStale={shown.version !== version || !isOf(all, shown)} />
                )}
              </Panel>
            )}
            <TestSource id={id} onSaved={tests.reload} />
          </>
        );
      }}
    </Loaded>
  );
}
