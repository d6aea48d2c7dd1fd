/**
 * Sums the metrics of several worker processes. Counters and histograms never fall: what a worker counted stays when
 * its process ends, so that no scraper takes the restart of one for a restart of all.
 */

import type { Aggregate, Family, Series, Snapshot } from "../lib/process/metrics.ts";
import { renderPrometheus } from "./prometheus.ts";

export class MetricsSum {
  readonly #latest = new Map<number, Snapshot>();
  /** Counters and histograms of workers that ended. */
  #past: Snapshot = [];

  keep(worker: number, snapshot: Snapshot): void {
    this.#latest.set(worker, snapshot);
  }

  /** That worker's process has ended. */
  retire(worker: number): void {
    const growing = (this.#latest.get(worker) ?? []).filter(({ type }) => type !== "gauge");
    this.#latest.delete(worker);
    this.#past = sumOf([this.#past, growing]);
  }

  /** Renders the sums as Prometheus' text. @param own of the process that asks */
  render(own: Snapshot): string {
    return renderPrometheus(sumOf([own, ...this.#latest.values(), this.#past]));
  }
}

function sumOf(snapshots: readonly Snapshot[]): Snapshot {
  const byName = Map.groupBy(snapshots.flat(), ({ name }) => name);
  return Array.from(byName.values(), (families) => ({ ...families[0]!, series: mergeSeries(families) }));
}

function mergeSeries(families: readonly Family[]): Series[] {
  const merged = new Map<string, Series>();
  for (const { aggregate, series } of families) {
    for (const one of series) {
      const key = JSON.stringify(one.labels);
      const known = merged.get(key);
      merged.set(key, known === undefined ? one : merge(known, one, aggregate));
    }
  }
  return [...merged.values()];
}

function merge(a: Series, b: Series, aggregate: Aggregate): Series {
  const value = aggregate === "sum" ? a.value + b.value : Math[aggregate](a.value, b.value);
  const counts = a.counts?.map((count, at) => count + (b.counts?.[at] ?? 0));
  return { labels: a.labels, value, ...(counts && { counts }) };
}
