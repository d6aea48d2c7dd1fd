/** One key: who it is, what it may, when and by what it was used, what is left; changed, rotated and revoked. */

import { useState } from "preact/hooks";
import { get, post } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { askedTime, rangeWords } from "../../range.ts";
import { href, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Dialog, Field, Select } from "../../ui/form.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Bar, Facts, Page, Panel } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { moneyColumn, Table } from "../../ui/table.tsx";
import { getSums, type Row } from "../spend/sums.ts";
import { KeyBudgets } from "./budgets.tsx";
import { KeyForm } from "./form.tsx";
import { Secret } from "./secret.tsx";
import { type Key, type KeyStatus, type NewKey, stateTones } from "./types.ts";

const graces = [
  { value: "3600", title: "1 hour" },
  { value: "86400", title: "1 day" },
  { value: "604800", title: "7 days" },
  { value: "2592000", title: "30 days" },
  { value: "0", title: "No time: it is refused at once" },
];

function Rotation({ of, onDone }: { readonly of: Key; readonly onDone: () => void }) {
  const [grace, setGrace] = useState("86400");
  const [made, setMade] = useState<NewKey>();
  const { busy, error, run } = useAction();
  const rotate = () =>
    run(async () => setMade(await post<NewKey>(`v1/keys/${of.id}/rotate`, { grace_seconds: Number(grace) })));
  if (made !== undefined)
    return (
      <>
        {made.old_key_expires_at === null ? (
          <p>The old key is refused from now on.</p>
        ) : (
          <p>
            Both keys work until <Time at={made.old_key_expires_at} exact />. Give the new one to all clients before.
          </p>
        )}
        <Secret made={made} />
        <Bar>
          <Button tone="primary" onClick={onDone}>
            I have copied it
          </Button>
        </Bar>
      </>
    );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void rotate();
      }}
    >
      <p>{of.name} gets a new key and keeps its rights, budgets and history.</p>
      <Field label="The old key is taken for" hint="Long enough for each client to get the new one">
        <Select value={grace} options={graces} onChange={setGrace} />
      </Field>
      {grace !== "0" && (
        <p>
          Without an outage: both keys work until <Time at={Date.now() + Number(grace) * 1000} exact />.
        </p>
      )}
      {of.old_key_expires_at !== null && (
        <p class="notice warn">The key before the last rotation still works; it is refused at once when you go on.</p>
      )}
      {error !== undefined && <Failure error={error} />}
      <Button type="submit" tone="primary" busy={busy}>
        Rotate {of.name}
      </Button>
    </form>
  );
}

function Revocation({ of, onDone }: { readonly of: Key; readonly onDone: () => void }) {
  const { busy, error, run } = useAction();
  return (
    <>
      <p>
        Calls with {of.name} (<code>{of.prefix}…</code>) are refused from the next request on, and for ever. Its calls
        and spend stay in the ledger.
      </p>
      {error !== undefined && <Failure error={error} />}
      <Bar>
        <Button
          tone="danger"
          busy={busy}
          onClick={async () => {
            if (await run(() => post(`v1/keys/${of.id}/revoke`))) onDone();
          }}
        >
          Revoke {of.name}
        </Button>
        <Button onClick={onDone}>Keep it</Button>
      </Bar>
    </>
  );
}

const clientOf = (row: Row) => String(row["client"] ?? "");

function Clients({ id }: { readonly id: string }) {
  const query = { by: "client", key: id, ...askedTime() };
  const sums = useResource((signal) => getSums(query, signal), [query]);
  return (
    <Panel
      title="Clients"
      note={rangeWords()}
      actions={
        <>
          <a href={href("calls", [], { key: id })}>Calls</a>
          <a href={href("spend", [], { key: id })}>Spend</a>
        </>
      }
    >
      <Loaded resource={sums}>
        {({ data }) => (
          <Table
            caption="Clients"
            columns={[
              { id: "client", title: "Client", cell: (row) => clientOf(row) || "not named" },
              {
                id: "calls",
                title: "Attempts",
                align: "end",
                cell: ({ calls }) => count(calls),
                sort: (a, b) => a.calls - b.calls,
              },
              moneyColumn<Row>("cost", "Cost", (row) => row.cost_micro_dollars),
            ]}
            rows={data}
            rowKey={clientOf}
            rowHref={(row) => href("calls", [], { key: id, client: clientOf(row) })}
            empty={<Empty title="No calls in this time.">A key that nobody uses can be revoked.</Empty>}
          />
        )}
      </Loaded>
    </Panel>
  );
}

const factsOf = (key: Key, status: KeyStatus | undefined) =>
  [
    ["State", <Badge tone={stateTones[key.state]}>{key.state}</Badge>],
    ["Id", <code>{key.id}</code>],
    ["Prefix", <code>{key.prefix}…</code>],
    ["Access", key.surfaces.join(", ")],
    ["Models", key.models.join(", ")],
    ["Tags", key.tags.length === 0 ? "none" : key.tags.join(", ")],
    ["Plan", key.tier],
    ["Requests a minute", key.per_minute === null ? "its plan's" : count(key.per_minute)],
    ["Tokens a minute", key.tokens_per_minute === null ? "no limit" : count(key.tokens_per_minute)],
    ["Created", <Time at={key.created_at} />],
    ["Last used", <Time at={key.last_used_at} />],
    [
      "Last call",
      status === undefined ? (
        "…"
      ) : status.last_call === null ? (
        "none"
      ) : (
        <>
          <a href={href("calls", [status.last_call.request_id])}>{status.last_call.model}</a> by{" "}
          {status.last_call.client ?? "a client without a name"}, {status.last_call.ended},{" "}
          <Time at={status.last_call.at} />
        </>
      ),
    ],
    ["Expires", <Time at={key.expires_at} />],
    ["Revoked", key.revoked_at === null ? undefined : <Time at={key.revoked_at} />],
    ["Old key works until", key.old_key_expires_at === null ? undefined : <Time at={key.old_key_expires_at} exact />],
  ] as const;

type Act = "edit" | "rotate" | "revoke";
const titles = { edit: "Change", rotate: "Rotate", revoke: "Revoke" } as const;

export function OneKey({ id }: { readonly id: string }) {
  const asked = route.value.query.get("act") ?? "";
  const act = Object.hasOwn(titles, asked) ? (asked as Act) : undefined;
  const setAct = (next: Act | undefined) => setQuery({ act: next }, { replace: true });
  const path = `v1/keys/${encodeURIComponent(id)}`;
  const key = useResource((signal) => get<Key>(path, {}, { signal }), [id]);
  const status = useResource((signal) => get<KeyStatus>(`${path}/status`, {}, { signal }), [id], { everyMs: 60_000 });
  const done = () => {
    setAct(undefined);
    key.reload();
  };
  if (key.error?.status === 404)
    return (
      <Page title="There is no such key">
        <Empty title="Its id may be cut off.">
          <a href={href("keys")}>Show all keys</a>
        </Empty>
      </Page>
    );
  return (
    <Page
      title={key.data?.name ?? "Key"}
      note={<a href={href("keys")}>All keys</a>}
      isOfTime
      actions={
        <>
          <Curl path={path} />
          {key.data !== undefined &&
            key.data.state !== "revoked" &&
            (["edit", "rotate", "revoke"] as const).map((one) => (
              <Button key={one} tone={one === "revoke" ? "danger" : "plain"} onClick={() => setAct(one)}>
                {titles[one]}
              </Button>
            ))}
        </>
      }
    >
      <Loaded resource={key}>
        {(found) => (
          <>
            <Panel title="Identity and rights">
              <Facts items={factsOf(found, status.data)} />
            </Panel>
            <Dialog
              title={`${act === undefined ? "" : titles[act]} ${found.name}`}
              open={act !== undefined}
              onClose={done}
            >
              {act === "edit" && <KeyForm of={found} onDone={done} />}
              {act === "rotate" && <Rotation of={found} onDone={done} />}
              {act === "revoke" && <Revocation of={found} onDone={done} />}
            </Dialog>
          </>
        )}
      </Loaded>
      <KeyBudgets id={id} status={status} />
      <Clients id={id} />
    </Page>
  );
}
