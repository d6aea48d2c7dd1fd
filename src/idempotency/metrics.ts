/** The metrics of idempotency records, and of readers on other nodes. */
import type { SampledTable } from "../lib/metrics.ts";
import type { Idempotency } from "./idempotency.ts";
import type { LiveRuns } from "./live-runs.ts";

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
  troupe_joined_live: {
    help: "Readers of calls on other nodes who get events as they come.",
    read: ({ joined }) => joined.live,
  },
  troupe_joined_stored: {
    help: "Readers of calls in other processes who get events from the store.",
    read: ({ joined }) => joined.stored,
  },
};

export const liveMetrics: SampledTable<Pick<LiveRuns, "isConnected" | "counts">> = {
  troupe_live_connected: {
    help: "Whether calls on other nodes are followed live: 1, or 0.",
    aggregate: "min",
    read: ({ isConnected }) => Number(isConnected),
  },
  troupe_live_published_total: {
    help: "Entries published for readers on other nodes.",
    read: ({ counts }) => counts.published,
  },
  troupe_live_heard_total: { help: "Entries of other nodes.", read: ({ counts }) => counts.received },
  troupe_live_publish_failures_total: {
    help: "Failures to publish; readers then get events from the database.",
    read: ({ counts }) => counts.unpublished,
  },
  troupe_live_losses_total: {
    help: "How often the server of live streams was lost.",
    read: ({ counts }) => counts.lost,
  },
  troupe_live_fallbacks_total: {
    help: "How often a reader went on from the database.",
    read: ({ counts }) => counts.fellBack,
  },
};
