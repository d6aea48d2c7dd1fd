/**
 * The metrics of several processes as one. What only grows never falls: of a process that ended, its counts stay, as
 * they were seen last. So no reader takes a restart of one for a restart of all.
 */
import type { MetricObjectWithValues, MetricValue } from "prom-client";
import AggregatorRegistry from "prom-client/lib/cluster.js";
import Registry from "prom-client/lib/registry.js";

/** What one process counts, as JSON. */
export type Snapshot = readonly MetricObjectWithValues<MetricValue<string>>[];

export class MetricsSum {
  readonly #latest = new Map<number, Snapshot>();
  #past: Snapshot = [];
  #draining = Promise.resolve();

  get contentType(): string {
    return Registry.PROMETHEUS_CONTENT_TYPE;
  }

  keep(worker: number, snapshot: Snapshot): void {
    this.#latest.set(worker, snapshot);
  }

  /** That worker's process has ended. */
  retire(worker: number): void {
    const growing = (this.#latest.get(worker) ?? []).filter(onlyGrows);
    this.#latest.delete(worker);
    this.#draining = this.#draining.then(async () => {
      this.#past = (await sum([this.#past, growing]).getMetricsAsJSON()) as Snapshot;
    });
  }

  /** As Prometheus' text. @param own of the process that asks */
  async render(own: Snapshot): Promise<string> {
    await this.#draining;
    return sum([own, ...this.#latest.values(), this.#past]).metrics();
  }
}

/** The processor's time is a sample to us, but a counter to its readers. */
const onlyGrows = ({ type, name }: { type: unknown; name: string }) =>
  type === "counter" || type === "histogram" || name.endsWith("_total");

const sum = (snapshots: readonly Snapshot[]) => AggregatorRegistry.aggregate([...snapshots]);
