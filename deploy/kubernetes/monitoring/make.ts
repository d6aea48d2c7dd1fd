/** Makes prometheusrule.yaml of deploy/alerts.yaml, so that both have the same rules: `bun deploy/kubernetes/monitoring/make.ts` */
import { readFileSync, writeFileSync } from "node:fs";

const head = `# Made of deploy/alerts.yaml by make.ts: change that file, and run this one.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: troupe
  labels: { app.kubernetes.io/name: troupe }
spec:
`;

export function prometheusRule(alerts: string): string {
  const groups = alerts.slice(alerts.indexOf("groups:"));
  return head + groups.replace(/^(?=.)/gm, "  ");
}

if (import.meta.main)
  writeFileSync(`${import.meta.dir}/prometheusrule.yaml`, prometheusRule(readFileSync("deploy/alerts.yaml", "utf8")));
