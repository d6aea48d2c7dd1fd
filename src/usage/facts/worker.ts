/** The thread that checks files of facts: it takes some 50 ms that no call should wait for. */
import { readBundle } from "../../facts/bundle.ts";
import { factsPartsOf } from "./copy.ts";
import type { Checked, CheckJob } from "./thread.ts";

declare const self: Worker;

self.onmessage = ({ data: { bytes, file, today } }: MessageEvent<CheckJob>) => {
  try {
    const bundle = readBundle(bytes, file, today);
    const days = { asOf: bundle.as_of, modelsAsOf: bundle.models.as_of, pricesAsOf: bundle.prices.as_of };
    postMessage({ ...days, ...factsPartsOf(bundle) } satisfies Checked);
  } catch (error) {
    postMessage({ failure: (error as Error).message });
  }
};
