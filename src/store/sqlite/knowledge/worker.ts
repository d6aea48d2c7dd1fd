/** The thread that reads, indexes and searches files. */
import type { FoundSection } from "../../../lib/text/sections.ts";
import type { Collection, KnowledgeReport } from "../../contract/knowledge.ts";
import { KnowledgeDatabase } from "./database.ts";

declare const self: Worker;

export type KnowledgeRequest = { readonly number: number } & (
  | { readonly sync: readonly Collection[] }
  | { readonly collection: string; readonly question: string; readonly limit: number }
  | { readonly end: true }
);
export type KnowledgeAnswer = {
  readonly number: number;
  readonly value?: KnowledgeReport | readonly FoundSection[] | undefined;
  readonly error?: string;
};

const database = new KnowledgeDatabase();
let running: Promise<unknown> = Promise.resolve();

self.onmessage = async ({ data }: MessageEvent<KnowledgeRequest>) => {
  if ("end" in data) process.exit(0);
  const { number } = data;
  try {
    postMessage({ number, value: await answerTo(data) } satisfies KnowledgeAnswer);
  } catch (error) {
    postMessage({ number, error: (error as Error).message } satisfies KnowledgeAnswer);
  }
};

function answerTo(request: Exclude<KnowledgeRequest, { end: true }>): Promise<KnowledgeAnswer["value"]> {
  return inTurn(async () => {
    if ("sync" in request) return database.sync(request.sync, pause);
    const { collection, question, limit } = request;
    return database.search(collection, question, limit);
  });
}

/** One request at a time: within a change the index is no whole state. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const result = running.catch(() => {}).then(work);
  running = result;
  return result;
}

/** The end is heard between two slices of a change. */
const pause = () => new Promise<void>((resolve) => setImmediate(resolve));
