/** The thread that reads, indexes and searches files. Its first message names the index's file. */
import type { FoundSection } from "../../../lib/text-sections.ts";
import type { Collection, KnowledgeReport } from "../../knowledge.ts";
import { isDamaged, KnowledgeDatabase } from "./database.ts";

declare const self: Worker;

export type KnowledgeRequest = { readonly number: number } & (
  | { readonly path: string }
  | { readonly sync: readonly Collection[] }
  | { readonly collection: string; readonly question: string; readonly limit: number }
  | { readonly end: true }
);
export type KnowledgeAnswer = {
  readonly number: number;
  readonly value?: KnowledgeReport | readonly FoundSection[] | undefined;
  readonly error?: string;
};

let database: KnowledgeDatabase | undefined;
let latest: readonly Collection[] = [];
let running: Promise<unknown> = Promise.resolve();

self.onmessage = async ({ data }: MessageEvent<KnowledgeRequest>) => {
  const { number } = data;
  try {
    postMessage({ number, value: await answerTo(data) } satisfies KnowledgeAnswer);
  } catch (error) {
    postMessage({ number, error: (error as Error).message } satisfies KnowledgeAnswer);
  }
};

async function answerTo(request: KnowledgeRequest): Promise<KnowledgeAnswer["value"]> {
  if ("path" in request) {
    database = new KnowledgeDatabase(request.path);
    return undefined;
  }
  if ("end" in request) {
    await running.catch(() => {});
    database?.close();
    process.exit(0);
  }
  if ("sync" in request) {
    latest = request.sync;
    return inTurn(() => database!.sync(request.sync, pause));
  }
  const { collection, question, limit } = request;
  try {
    return database!.search(collection, question, limit);
  } catch (error) {
    if (!isDamaged(error)) throw error;
    await inTurn(() => database!.sync(latest, pause, true));
    return database!.search(collection, question, limit);
  }
}

/** One change runs at a time, and questions are answered between its slices. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const result = running.catch(() => {}).then(work);
  running = result;
  return result;
}

const pause = () => new Promise<void>((resolve) => setImmediate(resolve));
