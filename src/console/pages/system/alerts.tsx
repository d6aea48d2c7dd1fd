/** What operators were alerted of, and whether it reached them. */
import type { ActiveAlert, Alert, Alerts } from "../../../api/alerts.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href, route } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Panel, Stat, State, Stats } from "../../ui/layout.tsx";
import { ListPage } from "../../ui/list-page.tsx";
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
  { id: "at", title: "When", isOrder: true, cell: ({ at }) => <Time at={at} /> },
  { id: "kind", title: "What", cell: ({ kind }) => kind },
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
          <State tone={tones[state]}>{state.replace("_", " ")}</State> {target ?? "an address that is gone"}
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

const unsent = {
  title: "No message was sent.",
  hint: (
    <>
      <code>troupe alerts test</code> sends one to each address.
    </>
  ),
};
const unconfigured = {
  title: "No address is configured: nothing is watched, and nobody is alerted.",
  hint: (
    <>
      Name one under <code>alerts.url</code> with <code>alerts.secret</code> in the configuration; budgets, providers,
      variants, ends of models, the ledger and the storage are watched from then on.
    </>
  ),
};

export function AlertsPanel() {
  const after = route.value.query.get("after") ?? undefined;
  const asked = { limit: "50", after };
  const alerts = useResource((signal) => get<Alerts>("v1/alerts", asked, { signal }), [asked], { everyMs: 10_000 });
  return (
    <Loaded resource={alerts}>
      {({ configured, targets, remembered_since, counts, active }) => (
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
            <ListPage
              list={alerts}
              caption="Messages to operators"
              choose="alerts"
              columns={columns}
              rowKey={({ id }) => id}
              rowHref={linkOf}
              rowTone={({ deliveries }) => (deliveries.some(({ state }) => state === "given_up") ? "bad" : undefined)}
              none={configured ? unsent : unconfigured}
            />
            {configured && (
              <p class="muted">
                Messages that wait are kept by the store; of those that are done this process remembers the latest 200,
                since <Time at={remembered_since} exact />.
              </p>
            )}
          </Panel>
        </>
      )}
    </Loaded>
  );
}
