/** What of a persona is another elsewhere: under its label `stable`, in previews of branches, and as the last report of each branch says. */
import { useState } from "preact/hooks";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Patch } from "../../ui/diff.tsx";
import { Select } from "../../ui/form.tsx";
import { duration, exactMoney, Time } from "../../ui/format.tsx";
import { Badge, Columns, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { type PersonaDetails, type Push, pathOf, type Report, type ReportedTest, verdictTones } from "./types.ts";

/** A sentence with names between code marks. */
const Marked = ({ text }: { readonly text: string }) => (
  <>{text.split("`").map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>
);

const Sentences = ({ of }: { readonly of: readonly string[] }) => (
  <ul>
    {of.map((words) => (
      <li key={words}>
        <Marked text={words} />
      </li>
    ))}
  </ul>
);

export function SinceStable({ id, since_stable: since }: PersonaDetails) {
  if (since === null) return null;
  return (
    <Panel title="Since stable" note={`the label names ${since.version}`}>
      {since.must_see.length === 0 ? (
        <p class="muted">Its texts differ, and nothing of what it may do.</p>
      ) : (
        <Sentences of={since.must_see} />
      )}
      <a href={href("personas", [id, "versions"], { from: since.version })}>See what changed</a>
    </Panel>
  );
}

export function OwnPreviews({ id, version, since_stable: since, previews }: PersonaDetails) {
  if (previews.length === 0) return null;
  // Where nothing differs from it, what is in service is stable.
  const beside = since === null ? id : `${id}@stable`;
  return (
    <Panel title="Previews" note={`of branches, called as ${id}@<label>`}>
      <Table
        caption={`Previews of ${id}`}
        columns={[
          { id: "label", title: "Label", cell: ({ label }) => <code>{label}</code> },
          {
            id: "version",
            title: "Version",
            cell: (one) =>
              one.version === version ? <span class="muted">as in service</span> : <code>{one.version}</code>,
          },
          { id: "by", title: "Pushed by", cell: ({ key_name: name }) => name },
          { id: "until", title: "Until", cell: ({ ends_at: at }) => <Time at={at} /> },
          {
            id: "ask",
            title: "Try",
            cell: ({ label }) => (
              <a href={href("playground", [], { model: `${id}@${label}`, b: beside })}>
                Beside {since === null ? "what is in service" : "stable"}
              </a>
            ),
          },
        ]}
        rows={previews}
        rowKey={({ label }) => label}
        empty={null}
      />
    </Panel>
  );
}

function Side({ head, side }: { readonly head: string; readonly side: ReportedTest["before"] }) {
  if (side === undefined) return null;
  return (
    <div>
      {head} <Badge tone={verdictTones[side.verdict]}>{side.verdict}</Badge>{" "}
      <span class="muted">
        {[
          ...(side.latency_ms === undefined ? [] : [duration(side.latency_ms)]),
          ...(side.cost === undefined ? [] : [exactMoney(side.cost * 1e6)]),
        ].join(", ")}
      </span>
      {side.reason !== "" && <p>{side.reason}</p>}
      {side.answer !== undefined && <pre class="wraps">{side.answer}</pre>}
    </div>
  );
}

const changeWords = { same: "", edited: "the test itself is changed", new: "new", gone: "gone" } as const;

function Said({ report: { persona, against } }: { readonly report: Report }) {
  const { must_see: seen, summary, patch, knowledge, requests, tests } = persona;
  const sent = requests.filter(({ change }) => change !== "same");
  return (
    <>
      <p class="muted">
        Against <code>{against.ref}</code> at <code>{against.commit.slice(0, 12)}</code>:{" "}
        <Marked text={summary.join(" · ")} />
      </p>
      {seen.length === 0 ? <p>Nothing that a reviewer must see.</p> : <Sentences of={seen} />}
      {patch !== "" && (
        <details>
          <summary>Its content, includes in place</summary>
          <Patch text={patch} />
        </details>
      )}
      {knowledge.length > 0 && (
        <details>
          <summary>What it knows</summary>
          {knowledge.map(({ file, change, patch: inside }) => (
            <section key={file}>
              <code>{file}</code> is {change}
              {inside !== undefined && <Patch text={inside} />}
            </section>
          ))}
        </details>
      )}
      {sent.length > 0 && (
        <details>
          <summary>What providers are sent differently</summary>
          <ul>
            {sent.map(({ model, change, changes }) => (
              <li key={model}>
                <code>{model}</code> {change === "new" ? "is asked now" : change === "gone" ? "is asked no more" : ""}{" "}
                {changes.join("; ")}
              </li>
            ))}
          </ul>
        </details>
      )}
      {tests.length > 0 && (
        <details>
          <summary>
            Tests: {tests.length} to look at, {persona.same_tests} as before
          </summary>
          {tests.map(({ name, change, before, after }) => (
            <section key={name}>
              <h3>
                {name} <span class="muted">{changeWords[change]}</span>
              </h3>
              <Columns>
                <Side head="before" side={before} />
                <Side head="after" side={after} />
              </Columns>
            </section>
          ))}
        </details>
      )}
      {persona.is_cut && <p class="muted">The rest was too long to be uploaded.</p>}
    </>
  );
}

export function LastReport({ id, reports }: PersonaDetails) {
  const [chosen, setChosen] = useState("");
  const { label, key_name: name, pushed_at: at }: Push = reports.find((one) => one.label === chosen) ?? reports[0]!;
  const path = `${pathOf(id)}/report`;
  const report = useResource((signal) => get<Report>(path, { label }, { signal }), [id, label, at]);
  return (
    <Panel
      title="Last report"
      note={
        <>
          of <code>{label}</code>, by {name}, <Time at={at} />
        </>
      }
      actions={
        <>
          {reports.length > 1 && (
            <Select
              aria-label="Report of"
              value={label}
              options={reports.map((one) => one.label)}
              onChange={setChosen}
            />
          )}
          <Curl path={path} query={{ label }} />
        </>
      }
    >
      <Loaded resource={report}>{(data) => <Said report={data} />}</Loaded>
    </Panel>
  );
}
