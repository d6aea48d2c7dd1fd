/** What the doctor finds, the worst first, each with what to do. */

import { useState } from "preact/hooks";
import type { DoctorFinding, DoctorReport } from "../../../api/doctor.ts";
import { get, post } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Check, Dialog } from "../../ui/form.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Failure, Loaded } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/table.tsx";

const tones = { error: "bad", warning: "warn", ok: "ok" } as const;

const columns: readonly Column<DoctorFinding>[] = [
  { id: "level", title: "Level", cell: ({ level }) => <Badge tone={tones[level]}>{level}</Badge> },
  { id: "place", title: "Where", cell: ({ place }) => place, sort: (a, b) => a.place.localeCompare(b.place) },
  {
    id: "message",
    title: "Found, and what to do",
    cell: ({ message, advice }) => (
      <div class="whole">
        {message}
        {advice !== null && <p class="muted">→ {advice}</p>}
      </div>
    ),
  },
];

const plural = (n: number, word: string) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export function DoctorPanel() {
  const asksNetwork = route.value.query.get("network") === "true";
  const query = { network: asksNetwork ? "true" : undefined };
  const report = useResource((signal) => get<DoctorReport>("v1/doctor", query, { signal }), [query]);
  const [called, setCalled] = useState<DoctorReport>();
  const [isAsking, setAsking] = useState(false);
  const { busy, error, run } = useAction();
  const call = async () => {
    setAsking(false);
    await run(async () => setCalled(await post<DoctorReport>("v1/doctor")));
  };
  const again = () => {
    setCalled(undefined);
    report.reload();
  };
  return (
    <Panel
      title="Doctor"
      note="what the command 'troupe doctor' finds, in the server that answers"
      actions={<Curl path="v1/doctor" query={query} />}
    >
      <Bar label="What is looked at">
        <Check
          label="Ask the database's server and Redis too"
          checked={asksNetwork}
          onChange={(checked) => {
            setCalled(undefined);
            setQuery({ network: checked ? "true" : undefined }, { replace: true });
          }}
        />
        <Button onClick={again} busy={report.loading}>
          Look again
        </Button>
        <Button onClick={() => setAsking(true)} busy={busy}>
          Call providers too…
        </Button>
      </Bar>
      {error !== undefined && <Failure error={error} />}
      <Loaded resource={called === undefined ? report : { ...report, data: called }}>
        {({ at, counts, findings }) => (
          <>
            <p role="status">
              <Badge tone={counts.error > 0 ? "bad" : counts.warning > 0 ? "warn" : "ok"}>
                {counts.error + counts.warning === 0 ? "all is well" : "look at these"}
              </Badge>{" "}
              {plural(counts.error, "error")}, {plural(counts.warning, "warning")}, {count(counts.ok)} in order; looked{" "}
              <Time at={at} />
              {called !== undefined && ", providers called"}.
            </p>
            <Table
              caption="What the doctor found"
              columns={columns}
              rows={findings}
              rowKey={({ place, message }) => `${place} ${message}`}
              rowTone={({ level }) => (level === "error" ? "bad" : level === "warning" ? "warn" : undefined)}
              empty=""
            />
          </>
        )}
      </Loaded>
      <Dialog title="Call providers" open={isAsking} onClose={() => setAsking(false)}>
        <p>
          Each key at each endpoint gets one small call, which costs a few tokens, and each MCP server is started or
          reached. It takes up to 45 seconds, and is a line of the audit.
        </p>
        <Bar>
          <Button tone="primary" onClick={call}>
            Call them
          </Button>
          <Curl method="POST" path="v1/doctor" />
        </Bar>
      </Dialog>
    </Panel>
  );
}
