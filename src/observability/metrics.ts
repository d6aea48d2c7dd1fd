/**
 * The metrics of this process: what its parts declare, and what it knows of itself. Names follow OpenTelemetry where it has one
 * (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/); the rest begin with `troupe_`.
 */
import { BoundedLabels, Registry, type SampledTable } from "../lib/process/metrics.ts";
import { prometheusContentType, renderPrometheus } from "./prometheus.ts";

/** Number of models with series of their own that the operator names nowhere: callers choose names freely. */
const maxUnlistedModels = 100;

type Build = { readonly version: string; readonly commit: string };

const processMetrics: SampledTable<Build & { readonly startedAt: number }> = {
  troupe_build_info: {
    help: "Always 1.",
    aggregate: "max",
    labels: ["version", "commit"],
    series: ({ version, commit }) => [{ labels: [version, commit], value: 1 }],
  },
  process_resident_memory_bytes: { help: "Resident memory.", read: () => process.memoryUsage.rss() },
  process_cpu_seconds_total: {
    help: "Processor time used.",
    read: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
  },
  process_start_time_seconds: { help: "Unix time of the start.", aggregate: "min", read: ({ startedAt }) => startedAt },
};

export class Metrics extends Registry {
  readonly contentType = prometheusContentType;
  /** The label values of models. */
  readonly models = new BoundedLabels(maxUnlistedModels);

  constructor(build: Build) {
    super();
    this.sample(processMetrics, { ...build, startedAt: Date.now() / 1000 });
  }

  render(): string {
    return renderPrometheus(this.snapshot());
  }
}
