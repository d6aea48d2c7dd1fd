/** The index of knowledge in a thread of its own, which starts with the first request: neither indexing nor a search holds up calls. */
import type { FoundSection } from "../../../lib/text/sections.ts";
import type { Collection, KnowledgeIndex, KnowledgeReport } from "../../contract/knowledge.ts";
import type { KnowledgeAnswer, KnowledgeRequest } from "./worker.ts";

/** A thread that has not ended after so long is terminated. */
const endMs = 2_000;

/** Path of the thread's code in the executable; `build.ts` compiles it in. */
declare const TROUPE_KNOWLEDGE_WORKER: string | undefined;

type Waiting = { readonly resolve: (value: never) => void; readonly reject: (error: Error) => void };
type Asked<T> = T extends { readonly number: number } ? Omit<T, "number"> : never;

class KnowledgeThread implements KnowledgeIndex {
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #number = 0;
  #gone: Promise<void> = Promise.resolve();
  /** What the index holds: a thread that takes the place of one that failed begins with it. */
  #latest: readonly Collection[] | undefined;

  sync(collections: readonly Collection[]): Promise<KnowledgeReport> {
    this.#latest = undefined;
    const syncing = this.#ask<KnowledgeReport>({ sync: collections });
    this.#latest = collections;
    return syncing;
  }

  search(collection: string, question: string, limit: number): Promise<FoundSection[]> {
    return this.#ask({ collection, question, limit });
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    void this.#ask({ end: true }).catch(() => {});
    const overdue = setTimeout(() => worker.terminate(), endMs);
    await this.#gone;
    clearTimeout(overdue);
  }

  #ask<T>(request: Asked<KnowledgeRequest>): Promise<T> {
    if (this.#worker === undefined) {
      this.#worker = this.#start();
      if (this.#latest !== undefined) void this.#ask({ sync: this.#latest }).catch(() => {});
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#number += 1;
    this.#waiting.set(this.#number, { resolve, reject });
    this.#worker.postMessage({ ...request, number: this.#number });
    return promise;
  }

  #start(): Worker {
    const code = typeof TROUPE_KNOWLEDGE_WORKER === "string" ? TROUPE_KNOWLEDGE_WORKER : "./worker.ts";
    const worker = new Worker(new URL(code, import.meta.url).href, { smol: true });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gone = promise;
    worker.onmessage = ({ data: { number, value, error } }: MessageEvent<KnowledgeAnswer>) => {
      const waiting = this.#waiting.get(number);
      this.#waiting.delete(number);
      if (error === undefined) waiting?.resolve(value as never);
      else waiting?.reject(new Error(error));
    };
    worker.onerror = (event) => event.preventDefault();
    worker.addEventListener("close", () => {
      this.#worker = undefined;
      for (const { reject } of this.#waiting.values()) reject(new Error("the thread ended"));
      this.#waiting.clear();
      resolve();
    });
    // A process that has nothing else to do ends.
    worker.unref();
    return worker;
  }
}

export const openKnowledgeIndex = (): KnowledgeIndex => new KnowledgeThread();
