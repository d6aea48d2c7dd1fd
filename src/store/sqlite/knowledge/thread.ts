/** The index of knowledge in a thread of its own, which starts with the first request: neither indexing nor a search holds up calls. */
import { join } from "node:path";
import type { FoundSection } from "../../../lib/text-sections.ts";
import type { KnowledgeIndex, KnowledgeReport } from "../../knowledge.ts";
import { makeDataFolder } from "../store.ts";
import { knowledgeName } from "./database.ts";
import type { KnowledgeAnswer, KnowledgeRequest } from "./worker.ts";

/** A change may be under way, which ends first. */
const endMs = 2_000;

/** Path of the thread's code in the executable; `build.ts` compiles it in. */
declare const TROUPE_KNOWLEDGE_WORKER: string | undefined;

type Waiting = { readonly resolve: (value: never) => void; readonly reject: (error: Error) => void };
type Asked<T> = T extends { readonly number: number } ? Omit<T, "number"> : never;

class KnowledgeThread implements KnowledgeIndex {
  readonly #folder: string;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #number = 0;
  #gone: Promise<void> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
  }

  sync(collections: Parameters<KnowledgeIndex["sync"]>[0]): Promise<KnowledgeReport> {
    return this.#ask({ sync: collections });
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
    this.#worker ??= this.#start();
    return this.#send(this.#worker, request);
  }

  #send<T>(worker: Worker, request: Asked<KnowledgeRequest>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#number += 1;
    this.#waiting.set(this.#number, { resolve, reject });
    worker.postMessage({ ...request, number: this.#number });
    return promise;
  }

  #start(): Worker {
    makeDataFolder(this.#folder);
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
    // A file that can't be opened ends the thread, so that the next request tries again.
    this.#send(worker, { path: join(this.#folder, knowledgeName) }).catch(() => worker.terminate());
    return worker;
  }
}

/** @param folder for data */
export const openKnowledgeIndex = (folder: string): KnowledgeIndex => new KnowledgeThread(folder);
