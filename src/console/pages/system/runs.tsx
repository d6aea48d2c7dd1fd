/** What runs: program, store, addresses, and the checks of its health. */
import type { SystemHealth } from "../../../api/system.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { bytes, count, duration, Time } from "../../ui/format.tsx";
import { Badge, Facts, Panel, Stat, Stats } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/table.tsx";

type Listener = SystemHealth["listeners"][number];
type Check = SystemHealth["checks"][string] & { readonly name: string };

const stores = { sqlite: "SQLite, in the data folder", postgres: "PostgreSQL" };
/** Where more of a check is shown. */
const places: Readonly<Record<string, string>> = {
  personas: href("personas"),
  providers: href("providers"),
  configuration: href("system", ["configuration"]),
};

/** Times as the server's build has them; a build by hand has none. */
const built = (at: string) => (Number.isNaN(Date.parse(at)) ? at : <Time at={at} exact />);

const checkColumns: readonly Column<Check>[] = [
  {
    id: "name",
    title: "Check",
    cell: ({ name }) => (places[name] === undefined ? name : <a href={places[name]}>{name}</a>),
  },
  { id: "status", title: "State", cell: ({ status }) => <Badge tone={status === "ok" ? "ok" : "bad"}>{status}</Badge> },
  {
    id: "more",
    title: "What it found",
    cell: ({ name: _, status: __, message, ...numbers }) => {
      const found = Object.entries(numbers).filter(([, value]) => typeof value !== "object");
      return [message, found.map(([what, value]) => `${what.replaceAll("_", " ")} ${value}`).join(", ")]
        .filter(Boolean)
        .join(" ");
    },
  },
];

const listenerColumns: readonly Column<Listener>[] = [
  { id: "address", title: "Address", cell: ({ address }) => <span class="mono">{address}</span> },
  { id: "tls", title: "TLS", cell: ({ tls }) => (tls ? "yes" : "no") },
  { id: "surfaces", title: "Surfaces", cell: ({ surfaces }) => surfaces.join(", ") },
];

export function RunsPanel() {
  const health = useResource((signal) => get<SystemHealth>("v1/health", {}, { signal }), [], { everyMs: 10_000 });
  return (
    <Loaded resource={health}>
      {(one) => (
        <>
          <Stats>
            <Stat
              label="State"
              value={one.draining ? "ending" : one.status}
              tone={one.status === "ok" && !one.draining ? "ok" : "bad"}
              note={one.draining ? "It takes no new calls." : undefined}
            />
            <Stat label="Version" value={one.version} note={`commit ${one.commit.slice(0, 12)}`} />
            <Stat
              label="Up for"
              value={duration(one.uptime_seconds * 1_000)}
              note={<Time at={one.started_at} exact />}
            />
            <Stat
              label="Database"
              value={one.database_bytes === null ? "unknown" : bytes(one.database_bytes)}
              note={stores[one.store]}
            />
            <Stat label="Memory" value={bytes(one.memory_bytes)} note="of the process that answers" />
            <Stat
              label="Requests under way"
              value={count(one.requests_under_way)}
              note="this one included"
              href={href("calls")}
            />
          </Stats>
          <Panel title="Process" actions={<Curl path="v1/health" />}>
            <Facts
              items={[
                ["Runtime", one.runtime],
                ["Built", built(one.built_at)],
                ["Processes", one.workers === null ? "one" : `${count(one.workers)} workers`],
                [
                  "Ledger",
                  `${count(one.ledger.lines_waiting)} lines wait, the oldest for ${duration(one.ledger.lag_seconds * 1_000)}; ${count(one.ledger.lines_lost)} lost`,
                ],
                [
                  "Configuration read anew",
                  one.last_reload === null ? (
                    "not since the start"
                  ) : (
                    <>
                      <Time at={one.last_reload.at} />
                      {": "}
                      {one.last_reload.error ?? (one.last_reload.changed.join(", ") || "nothing changed")}
                    </>
                  ),
                ],
              ]}
            />
          </Panel>
          <Panel title="Checks" note="A balancer asks them at /health.">
            <Table
              caption="Checks of its health"
              columns={checkColumns}
              rows={Object.entries(one.checks).map(([name, check]) => ({ ...check, name }))}
              rowKey={({ name }) => name}
              rowTone={({ status }) => (status === "ok" ? undefined : "bad")}
              empty=""
            />
            <p class="muted">
              <a href={href("system", ["doctor"])}>The doctor</a> looks at more, and says what to do.
            </p>
          </Panel>
          <Panel title="Addresses" note="as they are configured">
            <Table
              caption="Addresses"
              columns={listenerColumns}
              rows={one.listeners}
              rowKey={({ address }) => address}
              empty=""
            />
          </Panel>
        </>
      )}
    </Loaded>
  );
}
