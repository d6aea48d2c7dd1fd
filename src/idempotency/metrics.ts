/** The metrics of idempotency records. */
import type { SampledTable } from "../lib/process/metrics.ts";
import type { Idempotency } from "./idempotency.ts";

export const idempotencyMetrics: SampledTable<Idempotency> = {
  troupe_idempotent_released_total: {
    help: "Ids freed by errors and cancellation.",
    read: ({ counts }) => counts.released,
  },
  troupe_idempotent_interrupted_total: {
    help: "Calls found half done after a crash.",
    read: ({ counts }) => counts.interrupted,
  },
  troupe_idempotent_running: {
    help: "Calls with a service-request-id in flight.",
    read: ({ running }) => running,
  },
  troupe_store_failures_total: {
    help: "Answers that could not be stored.",
    read: ({ counts }) => counts.storeFailures,
  },
  troupe_joined_stored: {
    help: "Readers of calls in other processes who get events from the store.",
    read: ({ joined }) => joined,
  },
};
