/** A persona's tests: what there is, what a run may cost, a run and its results. */
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Copy, Curl } from "../../ui/copy.tsx";
import { Button, Field, Select } from "../../ui/form.tsx";
import { count, duration, money, Time } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { type Finding, type PersonaDetails, pathOf } from "./types.ts";

type Result = {
  readonly name: string;
  readonly line: number;
  readonly verdict: "pass" | "fail" | "error";
  readonly reason: string;
  readonly output: string | null;
  readonly latency_ms: number | null;
};
type Run = {
  readonly version: string;
  readonly variant: string | null;
  readonly started_at: string;
  readonly duration_ms: number;
  readonly passed: number;
  readonly failed: number;
  readonly errors: number;
  readonly cost_micro_dollars: number;
  readonly unknown_cost_calls: number;
  readonly tests: readonly Result[];
};
type Tests = {
  readonly file: string | null;
  readonly tests: readonly { readonly name: string; readonly line: number; readonly assertions: number }[];
  readonly findings: readonly Finding[];
  readonly estimate: {
    readonly calls: number;
    readonly most_micro_dollars: number;
    readonly unknown_cost_calls: number;
  };
  readonly last_run: Run | null;
};

const tones = { pass: "ok", fail: "bad", error: "warn" } as const;

const example = (id: string) => `# ${id}.test.yaml
tests:
  - description: answers in one sentence
    messages: [{ role: user, content: Where is my parcel? }]
    assert: [{ type: icontains, value: parcel }]
`;

/** Seconds since a run began, counted while it lasts. */
function Elapsed() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((before) => before + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  return <span class="muted">asked for {seconds} s</span>;
}

function Results({ run, id, version }: { readonly run: Run; readonly id: string; readonly version: string }) {
  return (
    <>
      <p>
        <Badge tone={run.failed > 0 ? "bad" : run.errors > 0 ? "warn" : "ok"}>
          {count(run.passed)} of {count(run.tests.length)} passed
        </Badge>{" "}
        {run.failed > 0 && `${count(run.failed)} failed, `}
        {run.errors > 0 && `${count(run.errors)} could not be judged, `}
        <Time at={run.started_at} />, in {duration(run.duration_ms)}, for {money(run.cost_micro_dollars)}
        {run.unknown_cost_calls > 0 && ` and ${count(run.unknown_cost_calls)} calls of unknown cost`}, as{" "}
        <code>{run.version}</code>
        {run.variant !== null && ` ${run.variant}`}.{" "}
        <a href={href("calls", [], { persona: id, client: "troupe-tests" })}>Their calls</a>
      </p>
      {run.version !== version && <p class="notice warn">Another version is in service by now. Run them again.</p>}
      <Table
        caption="Results of the tests"
        columns={[
          { id: "name", title: "Test", cell: ({ name }) => name },
          { id: "verdict", title: "Verdict", cell: ({ verdict }) => <Badge tone={tones[verdict]}>{verdict}</Badge> },
          { id: "time", title: "Time", align: "end", cell: (one) => duration(one.latency_ms) },
          { id: "reason", title: "Why", cell: ({ reason }) => reason || "–" },
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

export function PersonaTests({ persona }: { readonly persona: PersonaDetails }) {
  const { id, version, variants } = persona;
  const path = `${pathOf(id)}/tests`;
  const tests = useResource((signal) => get<Tests>(path, {}, { signal }), [id, version]);
  const [variant, setVariant] = useState("");
  const [made, setMade] = useState<Run>();
  const { busy, error, run } = useAction();
  return (
    <Loaded resource={tests}>
      {({ file, tests: all, findings, estimate, last_run: last }) => {
        const body = {
          ...(variant !== "" && { variant }),
          ...(estimate.most_micro_dollars > 1e6 && { max_dollars: Math.ceil(estimate.most_micro_dollars / 1e6) }),
        };
        const shown = made ?? last;
        if (file === null)
          return (
            <Empty title="It has no tests yet.">
              <p>Write them beside its file:</p>
              <Copy text={example(id)} /> <pre class="sent">{example(id)}</pre>
            </Empty>
          );
        return (
          <Panel
            title={`${count(all.length)} ${all.length === 1 ? "test" : "tests"}`}
            note={file}
            actions={<Curl method="POST" path={`${path}/run`} body={body} />}
          >
            {findings.map(({ line, message, path: place }) => (
              <p key={`${line} ${message}`} class="notice warn">
                Line {line ?? 1}: {place} {message}
              </p>
            ))}
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
                onClick={() => run(async () => setMade(await post<Run>(`${path}/run`, body)))}
              >
                Run the tests
              </Button>
              {busy ? (
                <Elapsed />
              ) : (
                <span class="muted">
                  {count(estimate.calls)} calls, {money(estimate.most_micro_dollars)} at most
                  {estimate.unknown_cost_calls > 0 && `, ${count(estimate.unknown_cost_calls)} of them of unknown cost`}
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
                  { id: "assertions", title: "Assertions", align: "end", cell: ({ assertions }) => count(assertions) },
                ]}
                rows={all}
                rowKey={({ name }) => name}
                empty={<Empty title="None can be run.">Mend the file of tests.</Empty>}
              />
            ) : (
              <Results run={shown} id={id} version={version} />
            )}
          </Panel>
        );
      }}
    </Loaded>
  );
}
