/** What is read off a load's result, with its unit and how it is set against the bare proxy. */
import type { LoadResult } from "./job.ts";
import { quantile } from "./statistics.ts";

export type Measure = {
  readonly label: string;
  readonly unit: string;
  /** ratio: so many times the bare proxy's; difference: so much on top of it. */
  readonly against: "ratio" | "difference";
  read(result: LoadResult, scale: Scale): number;
};

/** What "per stream" and "per body" mean in a scenario. */
export type Scale = { readonly streams: number; readonly bodyBytes: number };

const ratio = (label: string, unit: string, read: Measure["read"]): Measure => ({
  label,
  unit,
  against: "ratio",
  read,
});
const added = (label: string, unit: string, read: Measure["read"]): Measure => ({
  label,
  unit,
  against: "difference",
  read,
});

const kilobyte = 1024;
const megabyte = 1024 * 1024;

export const cpuPerCall = ratio("CPU per call", "µs", ({ cpuSeconds, calls }) => (cpuSeconds * 1e6) / calls);
export const cpuPerFragment = ratio(
  "CPU per fragment",
  "µs",
  ({ cpuSeconds, fragments }) => (cpuSeconds * 1e6) / fragments,
);
export const callsPerSecond = ratio("calls", "/s", ({ calls, seconds }) => calls / seconds);
export const fragmentsPerSecond = ratio("fragments", "/s", ({ fragments, seconds }) => fragments / seconds);
export const callTime = [0.5, 0.99].map((share) =>
  added(`call, p${share * 100}`, "ms", ({ callMs }) => quantile(callMs, share)),
);
export const besideTime = [0.5, 0.99].map((share) =>
  added(`/healthz beside it, p${share * 100}`, "ms", ({ besideMs }) => quantile(besideMs, share)),
);
export const firstFragmentTime = [0.5, 0.99].map((share) =>
  added(`first fragment, p${share * 100}`, "ms", ({ firstFragmentMs }) => quantile(firstFragmentMs, share)),
);
export const firstFragmentRatio = [0.5, 0.99].map((share) =>
  ratio(`first fragment, p${share * 100}`, "ms", ({ firstFragmentMs }) => quantile(firstFragmentMs, share)),
);
/** From the provider's sending to the client's receiving. */
export const fragmentTime = [0.5, 0.99].map((share) =>
  added(`fragment under way, p${share * 100}`, "ms", ({ lagMs }) => quantile(lagMs, share)),
);
/** Sent apart, received together: of a thousand. */
export const heldBack = added(
  "fragments held back",
  "‰",
  ({ heldBack, fragments }) => (heldBack * 1e3) / Math.max(1, fragments),
);
export const memoryPerStream = [
  ratio(
    "memory per open stream",
    "KB",
    ({ memory }, { streams }) => ((memory.heldBytes ?? Number.NaN) - memory.idleBytes) / streams / kilobyte,
  ),
  ratio(
    "the same, shared pages by share",
    "KB",
    ({ memory }, { streams }) =>
      ((memory.heldProportionalBytes ?? Number.NaN) - memory.idleProportionalBytes) / streams / kilobyte,
  ),
];
export const peakPerBody = ratio(
  "peak memory per body",
  "× body",
  ({ memory }, { bodyBytes }) => (memory.peakBytes - memory.idleBytes) / bodyBytes,
);
export const residentAfter = ratio("resident after the load", "MB", ({ memory }) => memory.endBytes / megabyte);

export const plainMeasures = [cpuPerCall, callsPerSecond, ...callTime, residentAfter];
export const pacedMeasures = [cpuPerFragment, fragmentsPerSecond, ...fragmentTime, heldBack];
export const burstMeasures = [cpuPerFragment, fragmentsPerSecond];
