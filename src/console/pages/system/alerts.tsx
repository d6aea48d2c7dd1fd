/** What operators were alerted of, and whether it reached them. */
import type { ActiveAlert, Alert, Alerts } from "../../../api/alerts.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href, route } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Bar, Panel, Stat, Stats } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { valueText } from "./values.ts";

const tones = { waiting: "warn", delivered: "ok", given_up: "bad", dropped: "quiet" } as const;

/** Where the subject of an alert is shown. */
function linkOf({ kind, subject }: Pick<ActiveAlert, "kind" | "subject">): string | undefined {
  if (subject === null) return undefined;
  const [what] = kind.split(".", 1);
  if (what === "provider") return href("providers", [subject]);
  if (what === "model") return href("calls", [], { model: subject });
  if (what === "variant") return href("personas", [subject.split("@", 1)[0]!, "numbers"]);
  return what === "budget" ? href("keys", ["budgets"]) : undefined;
}

function Subject({ of }: { readonly of: Pick<ActiveAlert, "kind" | "subject"> }) {
  const link = linkOf(of);
  return link === undefined ? <span>{of.subject ?? "the server"}</span> : <a href={link}>{of.subject}</a>;
}

const activeColumns: readonly Column<ActiveAlert>[] = [
  { id: "kind", title: "What", cell: ({ kind }) => <Badge tone="warn">{kind}</Badge> },
  { id: "subject", title: "Of", cell: (one) => <Subject of={one} /> },
  { id: "cause", title: "Cause", cell: ({ cause }) => <span class="mono">{cause}</span> },
  { id: "since", title: "Since", cell: ({ since }) => <Time at={since} /> },
];

const columns: readonly Column<Alert>[] = [
  { id: "at", title: "When", cell: ({ at }) => <Time at={at} />, sort: (a, b) => a.at.localeCompare(b.at) },
  { id: "kind", title: "What", cell: ({ kind }) => kind, sort: (a, b) => a.kind.localeCompare(b.kind) },
  { id: "subject", title: "Of", cell: (one) => <Subject of={one} /> },
  {
    id: "data",
    title: "Said",
    cell: ({ data }) => (
      <span class="whole">
        {Object.entries(data)
          .map(([name, value]) => `${name.replaceAll("_", " ")} ${valueText(value)}`)
          .join(", ")}
      </span>
    ),
  },
  {
    id: "deliveries",
    title: "Delivery",
    cell: ({ deliveries }) =>
      deliveries.map(({ target, state, attempts, failure, next_at }) => (
        <div key={`${target} ${state}`}>
          <Badge tone={tones[state]}>{state.replace("_", " ")}</Badge> {target ?? "an address that is gone"}
          {attempts > 1 && `, tried ${count(attempts)} times`}
          {failure !== null && `: ${failure}`}
          {next_at !== null && (
            <>
              , again <Time at={next_at} />
            </>
          )}
        </div>
      )),
  },
  { id: "id", title: "webhook-id", cell: ({ id }) => <span class="mono">{id}</span>, hidden: true },
];

const NotConfigured = () => (
  <Empty title="No address is configured: nothing is watched, and nobody is alerted.">
    Name one under <code>alerts.url</code> with <code>alerts.secret</code> in the configuration; budgets, providers,
    variants, ends of models, the ledger and the storage are watched from then on.
  </Empty>
);

export function AlertsPanel() {
  const after = route.value.query.get("after") ?? undefined;
  const asked = { limit: "50", after };
  const alerts = useResource((signal) => get<Alerts>("v1/alerts", asked, { signal }), [asked], { everyMs: 10_000 });
  return (
    <Loaded resource={alerts}>
      {({ configured, targets, remembered_since, counts, active, data, has_more, last_id }) => (
        <>
          {configured && (
            <Stats>
              <Stat label="Not over" value={count(active.length)} tone={active.length > 0 ? "warn" : "ok"} />
              <Stat label="Delivered" value={count(counts.delivered)} note="by this process, since its start" />
              <Stat label="Tries that failed" value={count(counts.failed_tries)} note="of this process" />
              <Stat
                label="Waiting"
                value={count(counts.waiting)}
                note="of all nodes"
                tone={counts.waiting > 0 ? "warn" : "quiet"}
              />
              <Stat
                label="Lost"
                value={count(counts.lost)}
                note="by this process"
                tone={counts.lost > 0 ? "bad" : "quiet"}
              />
            </Stats>
          )}
          {(configured || active.length > 0) && (
            <Panel title="Not over" note="was reported, on any node, and has not ended">
              <Table
                caption="What was reported and has not ended"
                columns={activeColumns}
                rows={active}
                rowKey={({ cause }) => cause}
                empty={<Empty title="Nothing is on.">What begins is reported once, and once when it is over.</Empty>}
              />
            </Panel>
          )}
          <Panel
            title="Messages"
            note={configured ? `to ${targets.join(", ")}` : undefined}
            actions={<Curl path="v1/alerts" query={asked} />}
          >
            <Table
              caption="Messages to operators"
              choose="alerts"
              columns={columns}
              rows={data}
              isPart={has_more || after !== undefined}
              rowKey={({ id }) => id}
              rowTone={({ deliveries }) => (deliveries.some(({ state }) => state === "given_up") ? "bad" : undefined)}
              empty={
                configured ? (
                  <Empty title="No message was sent.">
                    <code>troupe alerts test</code> sends one to each address.
                  </Empty>
                ) : (
                  <NotConfigured />
                )
              }
            />
            {configured && (
              <p class="muted">
                Messages that wait are kept by the store; of those that are done this process remembers the latest 200,
                since <Time at={remembered_since} exact />.
              </p>
            )}
            <Bar>
              {after !== undefined && <a href={href("system", ["alerts"])}>Newest</a>}
              {has_more && <a href={href("system", ["alerts"], { after: last_id! })}>Older</a>}
            </Bar>
          </Panel>
        </>
      )}
    </Loaded>
  );
}
