/** All keys: found by name, tag or the beginning of the key. */
import { useState } from "preact/hooks";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { askedTime, rangeWords } from "../../range.ts";
import { go, href, route } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import type { Filter } from "../../ui/filter-bar.tsx";
import { Button, Dialog } from "../../ui/form.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Bar, Page, State } from "../../ui/layout.tsx";
import { askedOrder, ListPage } from "../../ui/list-page.tsx";
import { Failure } from "../../ui/states.tsx";
import { type Column, moneyColumn } from "../../ui/table.tsx";
import { getSums } from "../spend/sums.ts";
import { KeyForm, type Made } from "./form.tsx";
import { Secret } from "./secret.tsx";
import { KeyTabs } from "./tabs.tsx";
import { type Key, type KeyPage, stateTones, surfaces, tiers, withoutSecret } from "./types.ts";

type Costs = ReadonlyMap<string, { readonly calls: number; readonly cost: number }>;

const columnsFor = (costs: Costs | undefined): readonly Column<Key>[] => [
  { id: "name", title: "Name", sortsBy: "name", cell: ({ name }) => name },
  { id: "state", title: "State", cell: ({ state }) => <State tone={stateTones[state]}>{state}</State> },
  { id: "prefix", title: "Prefix", cell: ({ prefix }) => <code>{prefix}</code> },
  { id: "surfaces", title: "Access", cell: (key) => key.surfaces.join(", ") },
  { id: "tags", title: "Tags", cell: ({ tags }) => tags.join(", ") || "–" },
  { id: "tier", title: "Plan", cell: ({ tier }) => tier },
  { id: "used", title: "Last used", sortsBy: "last_used_at", cell: (key) => <Time at={key.last_used_at} /> },
  moneyColumn(
    "cost",
    "Cost",
    ({ id }) => costs?.get(id)?.cost ?? 0,
    (words, { id, name }) => (
      <a href={href("spend", [], { key: id })}>
        {costs === undefined ? "…" : words}
        <span class="unseen"> spent by {name}</span>
      </a>
    ),
  ),
  {
    id: "calls",
    title: "Attempts",
    align: "end",
    cell: ({ id, name }) => (
      <a href={href("calls", [], { key: id })}>
        {costs === undefined ? "…" : count(costs.get(id)?.calls ?? 0)}
        <span class="unseen"> attempts of {name}</span>
      </a>
    ),
  },
  { id: "expires", title: "Expires", sortsBy: "expires_at", cell: (key) => <Time at={key.expires_at} />, hidden: true },
  { id: "created", title: "Created", sortsBy: "created_at", cell: (key) => <Time at={key.created_at} />, hidden: true },
  { id: "models", title: "Models", cell: ({ models }) => models.join(", "), hidden: true },
];

const filters = ["search", "state", "tier", "surface", "tag"] as const;
const given = (values: readonly string[]) => () => values.map((value) => ({ value }));
const offered: readonly Filter[] = [
  { name: "search", title: "a part of its name or a tag, or the beginning of the key" },
  { name: "state", title: "State", suggest: given(Object.keys(stateTones)), isClosed: true },
  { name: "surface", title: "Access", suggest: given(surfaces), isClosed: true },
  { name: "tier", title: "Plan", suggest: given(tiers), isClosed: true },
  {
    ...{ name: "tag", title: "Tag" },
    suggest: (signal) =>
      getSums({ by: "tag", since: "30d", top: "100" }, signal).then(({ data }) =>
        data.map((row) => ({ value: String(row["tag"] ?? "") })).filter(({ value }) => value !== ""),
      ),
  },
];

const actionsOf = ({ id, name, state }: Key) => ({
  of: name,
  all: [
    { title: "Calls", href: href("calls", [], { key: id }) },
    { title: "Spend", href: href("spend", [], { key: id }) },
    ...(state === "revoked"
      ? []
      : [
          { title: "Change…", href: href("keys", [id], { act: "edit" }) },
          { title: "Rotate…", href: href("keys", [id], { act: "rotate" }) },
          { title: "Revoke…", href: href("keys", [id], { act: "revoke" }), isDanger: true },
        ]),
  ],
});

/** As many ids as fit into an address that any proxy takes. */
const pageSize = 100;

export function KeyList() {
  const { query } = route.value;
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<Made>();
  const of = (name: string) => query.get(name) ?? undefined;
  const asked = {
    ...Object.fromEntries(filters.map((name) => [name, of(name) || undefined])),
    ...askedOrder(),
    limit: String(pageSize),
    after: of("after"),
  };
  const keys = useResource((signal) => get<KeyPage>("v1/keys", asked, { signal }), [asked]);
  const ids = keys.data?.data.map(({ id }) => id).join() ?? "";
  const time = askedTime();
  const sums = useResource(
    async (signal) => (ids === "" ? [] : (await getSums({ by: "key", ...time, key: ids }, signal)).data),
    [ids, time],
  );
  const costs =
    sums.data &&
    new Map(sums.data.map((row) => [String(row["key"]), { calls: row.calls, cost: row.cost_micro_dollars }]));
  const close = () => {
    setMaking(false);
    if (made !== undefined) go(href("keys", [made.made.id]));
  };
  return (
    <Page
      title="Keys and budgets"
      isOfTime
      note={
        keys.data?.total === undefined
          ? undefined
          : `${count(keys.data.total)} ${keys.data.total === 1 ? "key" : "keys"}; cost and attempts: ${rangeWords()}`
      }
      actions={
        <>
          <Curl path="v1/keys" query={asked} />
          <Button tone="primary" onClick={() => setMaking(true)}>
            Create a key
          </Button>
        </>
      }
    >
      <KeyTabs current="keys" />
      <ListPage
        list={keys}
        caption="Keys"
        choose="keys"
        order="created_at.desc"
        columns={columnsFor(costs)}
        filters={{ filters: offered, free: "search", cleaned: withoutSecret }}
        rowKey={({ id }) => id}
        rowHref={({ id }) => href("keys", [id])}
        actions={actionsOf}
        none={{ title: "There are no keys yet.", hint: "Create one, and hand it to who calls." }}
      />
      <Dialog
        title={made === undefined ? "Create a key" : `${made.made.name} is ready`}
        open={isMaking}
        onClose={close}
      >
        {made === undefined ? (
          <KeyForm onDone={setMade} />
        ) : (
          <>
            {made.budgetFailure !== undefined && (
              <>
                <p>The key was made, but not its budget. Set it on the key's page.</p>
                <Failure error={made.budgetFailure} />
              </>
            )}
            <Secret made={made.made} />
            <Bar>
              <Button tone="primary" onClick={close}>
                I have copied it
              </Button>
            </Bar>
          </>
        )}
      </Dialog>
    </Page>
  );
}
