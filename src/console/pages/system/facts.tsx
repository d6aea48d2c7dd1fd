/** Which facts of models and prices count, what is not known of the models in use, and how the ledger compares with bills. */
import { useState } from "preact/hooks";
import type { Facts, ModelInUse, Reconciliation, ReconciliationList } from "../../../api/facts.ts";
import { get, post } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Dialog } from "../../ui/form.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Bar, Facts as Names, Panel, State } from "../../ui/layout.tsx";
import { ListPage } from "../../ui/list-page.tsx";
import { Failure, Loaded } from "../../ui/states.tsx";
import { type Column, moneyColumn } from "../../ui/table.tsx";
import { bare, endTones } from "../providers/models.tsx";

const providerOf = (id: string) => id.split("/", 1)[0]!;

const modelColumns: readonly Column<ModelInUse>[] = [
  { id: "id", title: "Model", cell: ({ id }) => id },
  {
    id: "price",
    title: "Price",
    cell: ({ price }) => (price === null ? <Badge tone="warn">unknown</Badge> : price),
  },
  {
    id: "change",
    title: "Price changes",
    cell: ({ price_change: change }) => (change === null ? "–" : `${change.on}: ${change.words}`),
  },
  { id: "assumed", title: "Taken for", cell: ({ assumed }) => assumed ?? "–" },
  {
    id: "ends",
    title: "Ends",
    cell: ({ shutdown_date: date, end_state: state }) =>
      state === null ? (
        "–"
      ) : (
        <>
          <State tone={endTones[state]}>{state === "ended" ? "ended" : "ends"}</State> {date}
        </>
      ),
  },
];

const billColumns: readonly Column<Reconciliation>[] = [
  { id: "account", title: "Account", cell: ({ account }) => account },
  {
    id: "within",
    title: "State",
    cell: ({ within }) => <State tone={within ? "ok" : "warn"}>{within ? "agrees" : "differs"}</State>,
  },
  { id: "days", title: "Days", cell: ({ since, until }) => `${since} until ${until}` },
  moneyColumn("ledger", "Ledger", ({ ledger_micro_dollars: own }) => own),
  moneyColumn("reported", "Reported", ({ reported_micro_dollars: theirs }) => theirs),
  { id: "rows", title: "Rows that differ", align: "end", cell: ({ rows_that_differ: rows }) => count(rows) },
  {
    id: "tolerance",
    title: "Tolerance",
    align: "end",
    cell: ({ tolerance }) => `${Number((tolerance * 100).toFixed(3))} %`,
    hidden: true,
  },
  { id: "at", title: "Compared", cell: ({ at }) => <Time at={at} /> },
];

type Act = "update" | "rollback";
const titles = { update: "Look for newer facts", rollback: "Go back" } as const;

function Confirmation({
  act,
  facts,
  onDone,
}: {
  readonly act: Act;
  readonly facts: Facts;
  readonly onDone: () => void;
}) {
  const { busy, error, run } = useAction();
  return (
    <>
      {act === "update" ? (
        <p>
          What is published at <code>{facts.update.from}</code> is fetched, and counts for all nodes from their next
          call on, if it is proved by a key of this build and nothing speaks against it.
        </p>
      ) : (
        <p>
          The facts before those of {facts.as_of} count again, for all nodes. These are not taken again by themselves.
        </p>
      )}
      {error !== undefined && <Failure error={error} />}
      <Bar>
        <Button
          tone="primary"
          busy={busy}
          onClick={async () => {
            if (await run(() => post(`v1/facts/${act}`))) onDone();
          }}
        >
          {titles[act]}
        </Button>
        <Curl method="POST" path={`v1/facts/${act}`} />
      </Bar>
    </>
  );
}

const namesOf = ({
  as_of,
  days_old: days,
  source,
  sha256,
  models_as_of,
  prices_as_of,
  update,
  last_look: look,
}: Facts) =>
  [
    ["Of", `${as_of}, ${count(days)} ${days === 1 ? "day" : "days"} old`],
    ["From", source ?? "the executable"],
    ["Models of", models_as_of],
    ["Prices of", prices_as_of],
    ["SHA-256", sha256 === null ? undefined : <code title={sha256}>{sha256.slice(0, 12)}…</code>],
    ["Renewed", update.from === null ? update.mode : `${update.mode}, from ${update.from}`],
    ["Last look", look.at === null ? "none" : <Time at={look.at} />],
    ["It failed", look.failure ?? undefined],
    ["Not here yet", update.awaited === null ? undefined : <code>{update.awaited.slice(0, 12)}…</code>],
  ] as const;

export function FactsPanel() {
  const facts = useResource((signal) => get<Facts>("v1/facts", {}, { signal }), [], { everyMs: 60_000 });
  const bills = useResource((signal) => get<ReconciliationList>("v1/reconciliations", {}, { signal }), []);
  const [act, setAct] = useState<Act>();
  const known = facts.data;
  const canUpdate = known !== undefined && known.update.from !== null && known.update.keys > 0;
  return (
    <>
      <Panel
        title="Facts of models and prices"
        actions={
          <>
            <Curl path="v1/facts" />
            {canUpdate && <Button onClick={() => setAct("update")}>{titles.update}…</Button>}
            {known !== undefined && known.sha256 !== null && (
              <Button onClick={() => setAct("rollback")}>{titles.rollback}…</Button>
            )}
          </>
        }
      >
        <Loaded resource={facts} shape="numbers">
          {(found) => <Names items={namesOf(found)} />}
        </Loaded>
        {known !== undefined && known.update.from === null && (
          <p class="muted">
            <code>facts.from</code> in the configuration says where newer ones are; <code>troupe facts update</code>{" "}
            takes a file.
          </p>
        )}
        <Dialog title={act === undefined ? "" : titles[act]} open={act !== undefined} onClose={() => setAct(undefined)}>
          {act !== undefined && known !== undefined && (
            <Confirmation
              {...{ act, facts: known }}
              onDone={() => {
                setAct(undefined);
                facts.reload();
              }}
            />
          )}
        </Dialog>
      </Panel>
      <Panel
        title="What is not known, or changes"
        note={
          known && `of ${count(known.models_in_use)} models in use: that files name, or that were called within 30 days`
        }
      >
        <ListPage<ModelInUse, Facts>
          list={facts}
          rows={({ models }) => models}
          caption="Models in use of which something is to say"
          columns={modelColumns}
          rowKey={({ id }) => id}
          rowHref={({ id }) => href("providers", [providerOf(id)], { model: bare({ id }) })}
          rowTone={({ price, end_state: state }) =>
            state === "ended" ? "bad" : price === null || state === "ends_soon" ? "warn" : undefined
          }
          actions={({ id }) => ({
            of: id,
            all: [
              { title: "Calls", href: href("calls", [], { provider: providerOf(id), upstream_model: bare({ id }) }) },
              { title: "Its provider", href: href("providers", [providerOf(id)]) },
            ],
          })}
          none={{ title: "All is known of the models in use.", hint: "Each has a price, and none ends." }}
        />
      </Panel>
      <Panel
        title="Bills"
        note="how the ledger last compared with the vendors' own reports"
        actions={<Curl path="v1/reconciliations" />}
      >
        <ListPage<Reconciliation, ReconciliationList>
          list={bills}
          caption="Last reconciliations"
          columns={billColumns}
          rowKey={({ account }) => account}
          rowHref={({ account, since, until }) => href("spend", [], { provider: account, since, until, by: "model" })}
          rowTone={({ within }) => (within ? undefined : "warn")}
          none={{
            title: "The ledger was not held against a bill yet.",
            hint: (
              <>
                <code>troupe reconcile</code> does, with an admin key of the account or its exported files.
              </>
            ),
          }}
        />
      </Panel>
    </>
  );
}
