/** What runs, and what there is to do about it. */
import "./system.css";
import type { FunctionComponent } from "preact";
import { href, route } from "../router.ts";
import { Page, Tabs } from "../ui/layout.tsx";
import { Empty } from "../ui/states.tsx";
import { SessionsPanel } from "./sessions.tsx";
import { AlertsPanel } from "./system/alerts.tsx";
import { AuditPanel } from "./system/audit.tsx";
import { ConfigurationPanel } from "./system/configuration.tsx";
import { DoctorPanel } from "./system/doctor.tsx";
import { FactsPanel } from "./system/facts.tsx";
import { NodesPanel } from "./system/nodes.tsx";
import { RunsPanel } from "./system/runs.tsx";

type Section = { readonly id: string; readonly title: string; readonly component: FunctionComponent };

const sections: readonly Section[] = [
  { id: "", title: "What runs", component: RunsPanel },
  { id: "doctor", title: "Doctor", component: DoctorPanel },
  { id: "alerts", title: "Alerts", component: AlertsPanel },
  { id: "facts", title: "Facts and bills", component: FactsPanel },
  { id: "nodes", title: "Nodes", component: NodesPanel },
  { id: "configuration", title: "Configuration", component: ConfigurationPanel },
  { id: "sessions", title: "Sessions", component: SessionsPanel },
  { id: "audit", title: "Audit", component: AuditPanel },
];

const Missing = () => (
  <Empty title="There is no such part of the system.">
    <a href={href("system")}>What runs</a>
  </Empty>
);

export function SystemPage() {
  const [current = ""] = route.value.rest;
  const Shown = sections.find(({ id }) => id === current)?.component ?? Missing;
  return (
    <Page title="System" isOfTime={current === "audit"}>
      <Tabs
        label="System"
        current={current}
        tabs={sections.map(({ id, title }) => ({ id, title, href: href("system", id === "" ? [] : [id]) }))}
      />
      <Shown key={current} />
    </Page>
  );
}
