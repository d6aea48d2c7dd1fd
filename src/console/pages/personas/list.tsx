/** All personas: found by id, description, tag or model, with their calls and costs. */

import { useState } from "preact/hooks";
import type { Listed } from "../../../api/shape.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { askedTime, linkedTime, rangeWords } from "../../range.ts";
import { go, href, route } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import type { Filter } from "../../ui/filter-bar.tsx";
import { Button, Dialog, Field, TextInput } from "../../ui/form.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Page } from "../../ui/layout.tsx";
import { ListPage } from "../../ui/list-page.tsx";
import { type Column, moneyColumn } from "../../ui/table.tsx";
import { errorsOf, failedEnds, getSums, type Totals } from "../spend/sums.ts";
import { Previews } from "./previews.tsx";
import type { Persona } from "./types.ts";

type Row = Persona & { readonly sum?: Totals };

async function loadAll(signal: AbortSignal): Promise<Came> {
  const all: Persona[] = [];
  for (let after: string | undefined; ; ) {
    const page = await get<Listed<Persona>>("v1/personas", { limit: "1000", after }, { signal });
    all.push(...page.data);
    if (!page.has_more) return { data: all };
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
  { id: "version", title: "Version", cell: ({ version }) => <code>{version}</code>, hidden: true },
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
  { id: "description", title: "Description", cell: ({ description }) => description },
  { id: "tier", title: "Plan", cell: ({ tier }) => tier, hidden: true },
  { id: "owner", title: "Owner", cell: ({ owned_by }) => owned_by, hidden: true },
  { id: "tags", title: "Tags", cell: ({ tags }) => tags.join(", ") || "–", hidden: true },
  { id: "models", title: "All models", cell: ({ models }) => models.join(", "), hidden: true },
];

type Came = { readonly data: readonly Persona[] };

const states = {
  stopped: (one: Persona) => one.stopped_variants.length > 0,
  failing: ({ last_test_run: run }: Persona) => run !== null && run.failed + run.errors > 0,
  unreachable: ({ model }: Persona) => model === null,
};

const stateWords: Readonly<Record<string, string>> = {
  stopped: "with a stopped variant",
  failing: "whose tests do not pass",
  unreachable: "without a model that is set up",
} satisfies Record<keyof typeof states, string>;
const shownState = (name: string, value: string) => (name === "state" ? stateWords[value] : undefined);

const filtersOf = (all: readonly Persona[]): readonly Filter[] => [
  { name: "search", title: "a part of its id, description, tags or models" },
  {
    ...{ name: "namespace", title: "Namespace", isClosed: true },
    suggest: () => [...new Set(all.map(({ id }) => namespaceOf(id)))].map((value) => ({ value })),
  },
  {
    ...{ name: "state", title: "State", isClosed: true },
    suggest: () => Object.entries(stateWords).map(([value, title]) => ({ value, title })),
  },
];

const actionsOf = ({ id }: Persona) => ({
  of: id,
  all: [
    { title: "Try it in the playground", href: href("playground", [], { model: id }) },
    ...(["source", "tests", "versions", "numbers"] as const).map((tab) => ({
      title: { source: "Source", tests: "Tests", versions: "Versions", numbers: "Numbers" }[tab],
      href: href("personas", [id, tab]),
    })),
  ],
});

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
  return (
    <Page
      title="Personas"
      isOfTime
      note={all.data && `${count(all.data.data.length)} served; attempts and cost: ${rangeWords()}`}
      actions={
        <>
          <Curl path="v1/personas" query={{ limit: "1000" }} />
          <Button tone="primary" onClick={() => setMaking(true)}>
            New persona
          </Button>
        </>
      }
    >
      <Previews />
      <ListPage<Row, Came>
        list={all}
        rows={({ data }) =>
          data.filter(fits).map((one) => {
            const sum = counted?.get(one.id);
            return { ...one, ...(sum && { sum }) };
          })
        }
        caption="Personas"
        choose="personas"
        columns={columnsFor(counted !== undefined)}
        filters={{ filters: filtersOf(all.data?.data ?? []), free: "search", shown: shownState }}
        rowKey={({ id }) => id}
        rowHref={({ id }) => href("personas", [id])}
        rowTone={({ model, stopped_variants }) =>
          model === null ? "bad" : stopped_variants.length > 0 ? "warn" : undefined
        }
        actions={actionsOf}
        none={{ title: "There are no personas.", hint: "Write one: it is a file in the folder of personas." }}
      />
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
