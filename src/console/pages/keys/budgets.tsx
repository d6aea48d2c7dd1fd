/** Budgets: how much is left of each, until when it lasts, and changes of it. */

import { useState } from "preact/hooks";
import type { Listed } from "../../../api/shape.ts";
import { get, post, put, remove } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { href, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Dialog, Field, Select, TextInput } from "../../ui/form.tsx";
import { Dollars, Time } from "../../ui/format.tsx";
import { Badge, Bar, Page } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { type Column, moneyColumn, Table } from "../../ui/table.tsx";
import { KeyTabs } from "./tabs.tsx";
import { anyOf, type Budget, periods } from "./types.ts";

const kinds = ["key", "tag", "tier", "all"];
const tones = { ok: "ok", low: "warn", spent: "bad" } as const;
const nameOf = ({ scope, model, name }: Pick<Budget, "scope" | "model" | "name">) => {
  const whose = name ?? (scope.startsWith("all") ? "All calls" : scope.replace(/ .*/, "").replace(":", " "));
  return model === undefined ? whose : `${whose}, ${model}`;
};

/** Where a budget's spenders are shown. */
export function linkOfScope(scope: string): string {
  const [kind, id = ""] = scope.replace(/ .*/, "").split(":", 2);
  if (kind === "key") return href("keys", [id]);
  return href("spend", [], kind === "tag" ? { tag: id } : {});
}

type Change = { readonly act: "set" | "raise" | "remove"; readonly budget?: Budget };

const acts = { set: "Change", raise: "Raise", remove: "Remove" } as const;

/** @param scope of a new budget, where it is known */
function ChangeForm({
  change: { act, budget },
  scope,
  onDone,
}: {
  readonly change: Change;
  readonly scope?: string | undefined;
  readonly onDone: () => void;
}) {
  const isFixed = (budget?.scope ?? scope) !== undefined;
  const [kind, setKind] = useState("tag");
  const [name, setName] = useState("");
  const [model, setModel] = useState("");
  const [period, setPeriod] = useState<string>(budget?.period ?? "month");
  const [sum, setSum] = useState(act === "set" ? String(budget?.dollars ?? "") : "");
  const { busy, error, run } = useAction();
  const submit = async () => {
    const whose = scope ?? (kind === "all" ? kind : `${kind}:${name.trim()}`);
    const held = budget?.scope ?? (model.trim() === "" ? whose : `${whose} model:${model.trim()}`);
    const path = `v1/budgets/${encodeURIComponent(held)}/${period}`;
    const body = { dollars: Number(sum) };
    const isDone = await run(() =>
      act === "remove" ? remove(path) : act === "raise" ? post(`${path}/top-up`, body) : put(path, body),
    );
    if (isDone) onDone();
  };
  const wrong = (field: string) => (error?.param === field ? error.message : undefined);
  const shown = budget && `${nameOf(budget)}, ${budget.period}`;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {act === "remove" ? (
        <p>
          From the next call on, {shown} is held to no budget that was set here; one of the configuration applies again.
        </p>
      ) : (
        <Bar>
          {!isFixed && (
            <Field label="Scope">
              <Select value={kind} options={kinds} onChange={setKind} />
            </Field>
          )}
          {!isFixed && kind !== "all" && (
            <Field label={kind === "key" ? "Key's id" : kind === "tier" ? "Plan" : "Tag"} error={wrong("scope")}>
              <TextInput value={name} onInput={setName} required />
            </Field>
          )}
          {budget === undefined && (
            <Field label="Models" error={isFixed || kind === "all" ? wrong("scope") : undefined}>
              <TextInput value={model} onInput={setModel} placeholder="all, or openai/*" />
            </Field>
          )}
          {budget === undefined && (
            <Field label="Period">
              <Select value={period} options={periods} onChange={setPeriod} />
            </Field>
          )}
          <Field label={act === "raise" ? "Dollars more" : "Dollars"} error={wrong("dollars")}>
            <TextInput type="number" min={0} step="any" value={sum} onInput={setSum} required autofocus />
          </Field>
        </Bar>
      )}
      {act === "set" && budget?.origin === "configuration" && (
        <p class="muted">
          It goes before the one of the configuration, <Dollars of={budget.dollars} />.
        </p>
      )}
      {error !== undefined &&
        wrong("dollars") === undefined &&
        (budget !== undefined || wrong("scope") === undefined) && <Failure error={error} />}
      <Button type="submit" tone={act === "remove" ? "danger" : "primary"} busy={busy}>
        {act === "remove" ? `Remove the budget of ${shown}` : act === "raise" ? "Raise" : "Set the budget"}
      </Button>
    </form>
  );
}

const micro = (dollars: number) => Math.round(dollars * 1e6);

const columns = (choose: (change: Change) => void): readonly Column<Budget>[] => [
  { id: "name", title: "Scope", cell: (budget) => <a href={linkOfScope(budget.scope)}>{nameOf(budget)}</a> },
  { id: "period", title: "Period", cell: ({ period }) => period },
  { id: "state", title: "State", cell: ({ state }) => <Badge tone={tones[state]}>{state}</Badge> },
  {
    id: "part",
    title: "Used",
    cell: (budget) => {
      const used = budget.dollars - budget.left;
      return (
        <meter
          aria-label={`Used of the budget of ${nameOf(budget)}`}
          value={budget.dollars === 0 ? 1 : used}
          max={budget.dollars || 1}
          low={budget.dollars * 0.8}
          high={budget.dollars * 0.95}
          optimum={0}
        />
      );
    },
  },
  moneyColumn("left", "Left", ({ left }) => micro(left)),
  moneyColumn("of", "Of", ({ dollars }) => micro(dollars)),
  moneyColumn("spent", "Spent", ({ spent }) => micro(spent)),
  { ...moneyColumn<Budget>("reserved", "Reserved", ({ reserved }) => micro(reserved)), hidden: true },
  {
    id: "runs_out",
    title: "At this pace",
    cell: ({ state, runs_out_at }) =>
      state === "spent" ? (
        "nothing left"
      ) : runs_out_at === null ? (
        <span class="muted">lasts</span>
      ) : (
        <>
          runs out <Time at={runs_out_at} />
        </>
      ),
    sort: (a, b) => (b.runs_out_at ?? "9").localeCompare(a.runs_out_at ?? "9"),
  },
  {
    id: "resets",
    title: "Resets",
    cell: ({ resets_at }) => (resets_at === null ? "when raised" : <Time at={resets_at} />),
  },
  { id: "origin", title: "From", cell: ({ origin }) => origin, hidden: true },
  {
    id: "acts",
    title: "Actions",
    cell: (budget) => (
      <span class="actions">
        {(["set", "raise", "remove"] as const)
          .filter((act) => act === "set" || budget.origin === "set")
          .map((act) => (
            <Button
              key={act}
              label={`${acts[act]}: ${nameOf(budget)}, ${budget.period}`}
              onClick={() => choose({ act, budget })}
            >
              {acts[act]}
            </Button>
          ))}
      </span>
    ),
  },
];

/** Budgets with their changes. @param scope of what can be set here; absent: any */
export function BudgetTable({
  rows,
  isPart = false,
  scope,
  onChange,
  empty,
}: {
  readonly rows: readonly Budget[];
  /** Whether there are more. */
  readonly isPart?: boolean;
  readonly scope?: string;
  readonly onChange: () => void;
  readonly empty: string;
}) {
  const [change, setChange] = useState<Change>();
  const title =
    change?.budget === undefined
      ? "Set a budget"
      : `${acts[change.act]}: ${nameOf(change.budget)}, ${change.budget.period}`;
  return (
    <>
      <Table
        caption="Budgets"
        choose="budgets"
        columns={columns(setChange)}
        rows={rows}
        isPart={isPart}
        rowKey={({ id }) => id}
        rowTone={({ state }) => (state === "spent" ? "bad" : state === "low" ? "warn" : undefined)}
        empty={<Empty title={empty}>A budget ends calls before they cost more than you want.</Empty>}
      />
      <Bar>
        <Button onClick={() => setChange({ act: "set" })}>Set a budget</Button>
      </Bar>
      <Dialog title={title} open={change !== undefined} onClose={() => setChange(undefined)}>
        {change !== undefined && (
          <ChangeForm
            change={change}
            scope={scope}
            onDone={() => {
              setChange(undefined);
              onChange();
            }}
          />
        )}
      </Dialog>
    </>
  );
}

export function BudgetsPage() {
  const { query } = route.value;
  const of = (name: string) => query.get(name) ?? "";
  const asked = {
    ...Object.fromEntries(["kind", "period", "state"].map((name) => [name, of(name) || undefined])),
    limit: "1000",
    after: of("after") || undefined,
  };
  const budgets = useResource((signal) => get<Listed<Budget>>("v1/budgets", asked, { signal }), [asked], {
    everyMs: 60_000,
  });
  const choose = (name: string) => (value: string) => setQuery({ [name]: value, after: undefined }, { replace: true });
  const filter = (label: string, name: string, values: readonly string[]) => (
    <Field label={label}>
      <Select value={of(name)} options={anyOf("all", values)} onChange={choose(name)} />
    </Field>
  );
  return (
    <Page title="Keys and budgets" actions={<Curl path="v1/budgets" query={asked} />}>
      <KeyTabs current="budgets" />
      <Bar label="Filters">
        {filter("Scope", "kind", kinds)}
        {filter("Period", "period", periods)}
        {filter("State", "state", Object.keys(tones))}
      </Bar>
      <Loaded resource={budgets}>
        {({ data, has_more, last_id }) => (
          <>
            <BudgetTable
              rows={data}
              isPart={has_more || asked.after !== undefined}
              onChange={budgets.reload}
              empty={
                of("kind") + of("period") + of("state") === "" ? "No budgets are set." : "No budget fits these filters."
              }
            />
            {has_more && (
              <a href={href("keys", ["budgets"], { ...Object.fromEntries(query), after: last_id ?? undefined })}>
                Next page
              </a>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}
