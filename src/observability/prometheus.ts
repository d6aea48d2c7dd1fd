/**
 * Prometheus' text format, version 0.0.4.
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
 */
import type { Family, Series, Snapshot } from "../lib/process/metrics.ts";

export const prometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

export function renderPrometheus(snapshot: Snapshot): string {
  return snapshot.map((family) => `${linesOf(family).join("\n")}\n`).join("");
}

function linesOf(family: Family): string[] {
  const { name, help, type } = family;
  return [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`, ...family.series.flatMap(samplesOf(family))];
}

function samplesOf({ name, labelNames, bounds = [] }: Family) {
  return ({ labels, value, counts }: Series): string[] => {
    const pairs = labels.map((label, at) => `${labelNames[at]}="${escapeLabel(label)}"`);
    if (counts === undefined) return [`${name}${braced(pairs)} ${numberText(value)}`];
    let count = 0;
    const buckets = counts.map((own, at) => {
      count += own;
      const le = numberText(bounds[at] ?? Number.POSITIVE_INFINITY);
      return `${name}_bucket${braced([`le="${le}"`, ...pairs])} ${count}`;
    });
    return [...buckets, `${name}_sum${braced(pairs)} ${numberText(value)}`, `${name}_count${braced(pairs)} ${count}`];
  };
}

const braced = (pairs: readonly string[]) => (pairs.length === 0 ? "" : `{${pairs.join(",")}}`);

const escapeHelp = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const escapeLabel = (text: string) => escapeHelp(text).replaceAll('"', '\\"');

/** The number as Go's ParseFloat reads it. */
const numberText = (value: number) => String(value).replace(/^(-?)Infinity$/, (_, sign) => `${sign || "+"}Inf`);
