/** Has a file of facts checked in a thread of its own, which ends with it. */
import { FactsError } from "../../facts/bundle.ts";
import type { FactsParts } from "./copy.ts";

export type CheckJob = { readonly bytes: Uint8Array; readonly file: string; readonly today: string };
export type Checked = FactsParts & { readonly asOf: string; readonly modelsAsOf: string; readonly pricesAsOf: string };

/** Path of the thread's code in the executable; `build.ts` compiles it in. */
declare const TROUPE_FACTS_WORKER: string | undefined;

/** A file that takes so long is none of ours. */
const maxMs = 30_000;

/** @throws FactsError that names the place */
export async function checkInThread(job: CheckJob): Promise<Checked> {
  const path = typeof TROUPE_FACTS_WORKER === "string" ? TROUPE_FACTS_WORKER : "./worker.ts";
  const worker = new Worker(new URL(path, import.meta.url).href, { smol: true });
  worker.unref();
  const { promise, resolve, reject } = Promise.withResolvers<Checked | { readonly failure: string }>();
  const timer = setTimeout(() => reject(new FactsError(`${job.file}: it takes too long to read`)), maxMs);
  worker.onmessage = ({ data }: MessageEvent<Checked | { readonly failure: string }>) => resolve(data);
  worker.onerror = (event) => {
    event.preventDefault();
    reject(new FactsError(`${job.file}: ${event.message}`));
  };
  try {
    worker.postMessage(job);
    const answer = await promise;
    if ("failure" in answer) throw new FactsError(answer.failure);
    return answer;
  } finally {
    clearTimeout(timer);
    worker.terminate();
  }
}
