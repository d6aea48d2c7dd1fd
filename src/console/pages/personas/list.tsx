/** All personas: found by id, description, tag or model, with their calls and costs. */

import { useState } from "preact/hooks";
import type { Listed } from "../../../api/shape.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { askedTime, linkedTime, rangeWords } from "../../range.ts";
import { go, href, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Dialog, Field, Select, TextInput } from "../../ui/form.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Bar, Page } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { type Column, moneyColumn, Table } from "../../ui/table.tsx";
import { errorsOf, failedEnds, getSums, type Totals } from "../spend/sums.ts";
import { Previews } from "./previews.tsx";
import type { Persona } from "./types.ts";

type Row = Persona & { readonly sum?: Totals };

export async function loadAll(signal: AbortSignal): Promise<readonly Persona[]> {
  const all: Persona[] = [];
  for (let after: string | undefined; ; ) {
    const page = await get<Listed<Persona>>("v1/personas", { limit: "1000", after }, { signal });
    all.push(...page.data);
    if (!page.has_more) return all;
    after = page.last_id ?? undefined;
  }
}

const byNumber = (of: (sum: Totals) => number) => (a: Row, b: Row) => (a.sum ? of(a.sum) : 0) - (b.sum ? of(b.sum) : 0);
const failuresOf = ({ last_test_run: run }: Persona) => (run === null ? -1 : run.failed * 1e6 + run.errors);
const byFailures = (a: Row, b: Row) => failuresOf(a) - failuresOf(b);
const byText = (of: (row: Row) => string) => (a: Row, b: Row) => of(b).localeCompare(of(a));

function Variants({ of: { variants, stopped_variants: stopped } }: { readonly of: Persona }) {
  if (variants.length === 0) return <>–</>;
  return (
    <>
      {variants.length}{" "}
      {stopped.length > 0 ? (
        <Badge tone="bad">stopped: {stopped.join(", ")}</Badge>
      ) : (
        <span class="muted">serving</span>
      )}
    </>
  );
}

/** How the last run of its tests ended. */
export function Tests({ id, version, last_test_run: run }: Persona) {
  const to = href("personas", [id, "tests"]);
  if (run === null)
    return (
      <a href={to} aria-label={`–: no run of the tests of ${id}`}>
        –
      </a>
    );
  const { passed, failed, errors, version: tested, started_at: at } = run;
  const tone = tested !== version ? "quiet" : failed > 0 ? "bad" : errors > 0 ? "warn" : "ok";
  return (
    <>
      <a href={to}>
        <Badge tone={tone}>
          {passed} of {passed + failed + errors} passed
        </Badge>
      </a>{" "}
      {tested !== version && "before this version, "}
      <Time at={at} />
    </>
  );
}

/** A number that leads to what it counts, with a name for screen readers. */
type LeadProps = {
  readonly to: string;
  readonly text: string;
  readonly name: string;
};

const Lead = ({ to, text, name }: LeadProps) => (
  <a href={to} aria-label={`${text}: ${name}`}>
    {text}
  </a>
);

const columnsFor = (isCounted: boolean): readonly Column<Row>[] => [
  { id: "id", title: "Persona", cell: ({ id }) => id, sort: byText(({ id }) => id) },
  { id: "version", title: "Version", cell: ({ version }) => <code>{version}</code> },
  {
    id: "model",
    title: "Model",
    cell: ({ model }) => model ?? <Badge tone="bad">none is set up</Badge>,
    sort: byText(({ model }) => model ?? ""),
  },
  { id: "variants", title: "Variants", cell: (row) => <Variants of={row} /> },
  {
    id: "calls",
    title: "Attempts",
    align: "end",
    sort: byNumber(({ calls }) => calls),
    cell: ({ id, sum }) => (
      <Lead
        to={href("calls", [], { persona: id, ...linkedTime() })}
        text={isCounted ? count(sum?.calls ?? 0) : "…"}
        name={`attempts of ${id}`}
      />
    ),
  },
  {
    id: "errors",
    title: "Errors",
    align: "end",
    sort: byNumber(errorsOf),
    cell: ({ id, sum }) => (
      <Lead
        to={href("calls", [], { persona: id, ...linkedTime(), ended: failedEnds.join() })}
        text={isCounted ? count(sum === undefined ? 0 : errorsOf(sum)) : "…"}
        name={`failed attempts of ${id}`}
      />
    ),
  },
  moneyColumn(
    "cost",
    "Cost",
    ({ sum }) => sum?.cost_micro_dollars ?? 0,
    (words, { id }) => (
      <a href={href("spend", [], { persona: id, ...linkedTime() })}>
        {isCounted ? words : "…"}
        <span class="unseen">: spend of {id}</span>
      </a>
    ),
  ),
  {
    id: "tests",
    title: "Tests",
    cell: (row) => <Tests {...row} />,
    sort: byFailures,
  },
  { id: "description", title: "Description", cell: ({ description }) => <span class="wraps">{description}</span> },
  { id: "tier", title: "Plan", cell: ({ tier }) => tier, hidden: true },
  { id: "owner", title: "Owner", cell: ({ owned_by }) => owned_by, hidden: true },
  { id: "tags", title: "Tags", cell: ({ tags }) => tags.join(", ") || "–", hidden: true },
  { id: "models", title: "All models", cell: ({ models }) => models.join(", "), hidden: true },
];

const states = {
  stopped: (one: Persona) => one.stopped_variants.length > 0,
  failing: ({ last_test_run: run }: Persona) => run !== null && run.failed + run.errors > 0,
  unreachable: ({ model }: Persona) => model === null,
};

const namespaceOf = (id: string) => id.slice(0, id.indexOf("/"));

export function PersonaList() {
  const { query } = route.value;
  const [isMaking, setMaking] = useState(false);
  const [name, setName] = useState("");
  const isName = /^[a-z0-9][a-z0-9._-]*\/[a-z0-9][a-z0-9._-]*$/.test(name);
  const all = useResource(loadAll, []);
  const time = askedTime();
  const sums = useResource((signal) => getSums({ by: "persona", ...time }, signal), [time]);
  const counted = sums.data && new Map(sums.data.data.map((sum) => [sum["persona"], sum]));
  const search = (query.get("search") ?? "").toLowerCase();
  const namespace = query.get("namespace") ?? "";
  const state = query.get("state") ?? "";
  const fits = (one: Persona) =>
    (namespace === "" || namespaceOf(one.id) === namespace) &&
    (!Object.hasOwn(states, state) || states[state as keyof typeof states](one)) &&
    [one.id, one.description, ...one.tags, ...one.models].some((text) => text.toLowerCase().includes(search));
  const choose = (name: string) => (value: string) => setQuery({ [name]: value }, { replace: true });
  const namespaces = [...new Set(all.data?.map(({ id }) => namespaceOf(id)))];
  return (
    <Page
      title="Personas"
      isOfTime
      note={all.data && `${count(all.data.length)} served; attempts and cost: ${rangeWords()}`}
      actions={
        <>
          <Curl path="v1/personas" query={{ limit: "1000" }} />
          <Button tone="primary" onClick={() => setMaking(true)}>
            New persona
          </Button>
        </>
      }
    >
      <Bar label="Filters">
        <Field label="Find">
          <TextInput
            type="search"
            value={query.get("search") ?? ""}
            onInput={choose("search")}
            placeholder="id, description, tag, model"
          />
        </Field>
        <Field label="Namespace">
          <Select
            value={namespace}
            options={[{ value: "", title: "all" }, ...namespaces]}
            onChange={choose("namespace")}
          />
        </Field>
        <Field label="State">
          <Select
            value={state}
            options={[
              { value: "", title: "all" },
              { value: "stopped", title: "with a stopped variant" },
              { value: "failing", title: "whose tests do not pass" },
              { value: "unreachable", title: "without a model that is set up" },
            ]}
            onChange={choose("state")}
          />
        </Field>
      </Bar>
      <Previews />
      <Loaded resource={all}>
        {(personas) => (
          <Table
            caption="Personas"
            choose="personas"
            columns={columnsFor(counted !== undefined)}
            rows={personas.filter(fits).map((one): Row => {
              const sum = counted?.get(one.id);
              return { ...one, ...(sum && { sum }) };
            })}
            rowKey={({ id }) => id}
            rowHref={({ id }) => href("personas", [id])}
            rowTone={({ model, stopped_variants }) =>
              model === null ? "bad" : stopped_variants.length > 0 ? "warn" : undefined
            }
            empty={
              <Empty title="No persona fits these filters.">
                <a href={href("personas")}>Show all personas</a>
              </Empty>
            }
          />
        )}
      </Loaded>
      <Dialog title="New persona" open={isMaking} onClose={() => setMaking(false)}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (isName) go(href("personas", [name, "source"]));
          }}
        >
          <Field
            label="Its id"
            hint="What clients name as the model: lower-case letters, digits, '.', '_' and '-' on both sides of the slash"
          >
            <TextInput value={name} onInput={setName} placeholder="acme/support" autofocus />
          </Field>
          <Button type="submit" tone="primary" disabled={!isName}>
            Write it
          </Button>
        </form>
      </Dialog>
    </Page>
  );
}
