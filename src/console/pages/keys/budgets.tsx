/** Budgets: how much is left of each, until when it lasts, and changes of it. */

import { useState } from "preact/hooks";
import type { Listed } from "../../../api/shape.ts";
import { get, post, put, remove } from "../../api.ts";
import { type Resource, useAction, useResource } from "../../data.ts";
import { href, route } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import type { Filter } from "../../ui/filter-bar.tsx";
import { Button, Dialog, Field, Select, TextInput } from "../../ui/form.tsx";
import { Dollars, Time } from "../../ui/format.tsx";
import { Bar, Page, Panel, State } from "../../ui/layout.tsx";
import { ListPage } from "../../ui/list-page.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { type Column, moneyColumn, Table } from "../../ui/table.tsx";
import { KeyTabs } from "./tabs.tsx";
import { type Budget, type KeyStatus, periods } from "./types.ts";

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

const columns: readonly Column<Budget>[] = [
  { id: "name", title: "Scope", cell: nameOf },
  { id: "period", title: "Period", cell: ({ period }) => period },
  { id: "state", title: "State", cell: ({ state }) => <State tone={tones[state]}>{state}</State> },
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
];

const rowOf = {
  ...{ caption: "Budgets", choose: "budgets", columns },
  rowKey: ({ id }: Budget) => id,
  rowHref: ({ scope }: Budget) => linkOfScope(scope),
  rowTone: ({ state }: Budget) => (state === "spent" ? "bad" : state === "low" ? "warn" : undefined),
};

/** What can be done with budgets. @param scope of what is set anew; absent: any */
function useBudgetActs(onChange: () => void, scope?: string) {
  const [change, setChange] = useState<Change>();
  const title =
    change?.budget === undefined
      ? "Set a budget"
      : `${acts[change.act]}: ${nameOf(change.budget)}, ${change.budget.period}`;
  const end = () => setChange(undefined);
  return {
    button: (
      <Button tone={scope === undefined ? "primary" : "plain"} onClick={() => setChange({ act: "set" })}>
        Set a budget
      </Button>
    ),
    actions: (budget: Budget) => ({
      of: `${nameOf(budget)}, ${budget.period}`,
      all: (["set", "raise", "remove"] as const)
        .filter((act) => act === "set" || budget.origin === "set")
        .map((act) => ({
          title: `${acts[act]}…`,
          run: () => setChange({ act, budget }),
          isDanger: act === "remove",
        })),
    }),
    dialog: (
      <Dialog title={title} open={change !== undefined} onClose={end}>
        {change !== undefined && (
          <ChangeForm
            change={change}
            scope={scope}
            onDone={() => {
              end();
              onChange();
            }}
          />
        )}
      </Dialog>
    ),
  };
}

const hint = "A budget ends calls before they cost more than you want.";

/** The budgets that hold one key. */
export function KeyBudgets({ id, status }: { readonly id: string; readonly status: Resource<KeyStatus> }) {
  const { button, actions, dialog } = useBudgetActs(status.reload, `key:${id}`);
  return (
    <Panel
      title="Budgets"
      note="Each that its calls count against; one of unknown cost counts as the most it may have cost"
      actions={button}
    >
      <Loaded resource={status}>
        {({ budgets }) => (
          <Table
            {...rowOf}
            rows={budgets}
            actions={actions}
            empty={<Empty title="No budget holds this key.">{hint}</Empty>}
          />
        )}
      </Loaded>
      {dialog}
    </Panel>
  );
}

const given = (values: readonly string[]) => () => values.map((value) => ({ value }));
const filters: readonly Filter[] = [
  { name: "kind", title: "Scope", suggest: given(kinds), isClosed: true },
  { name: "period", title: "Period", suggest: given(periods), isClosed: true },
  { name: "state", title: "State", suggest: given(Object.keys(tones)), isClosed: true },
];

export function BudgetsPage() {
  const { query } = route.value;
  const asked = {
    ...Object.fromEntries(
      [...filters.map(({ name }) => name), "after"].map((name) => [name, query.get(name) || undefined]),
    ),
    limit: "1000",
  };
  const budgets = useResource((signal) => get<Listed<Budget>>("v1/budgets", asked, { signal }), [asked], {
    everyMs: 60_000,
  });
  const { button, actions, dialog } = useBudgetActs(budgets.reload);
  return (
    <Page
      title="Keys and budgets"
      actions={
        <>
          <Curl path="v1/budgets" query={asked} />
          {button}
        </>
      }
    >
      <KeyTabs current="budgets" />
      <ListPage
        {...rowOf}
        list={budgets}
        filters={{ filters }}
        actions={actions}
        none={{ title: "No budgets are set.", hint }}
      />
      {dialog}
    </Page>
  );
}
