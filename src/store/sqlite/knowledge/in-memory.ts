/** The index of knowledge of a command that runs without a server: in memory, and in this thread. */
import type { IndexedFile, KnowledgeIndex } from "../../contract/knowledge.ts";
import { KnowledgeDatabase } from "./database.ts";

export type LocalKnowledge = KnowledgeIndex & {
  /** In order of their names. */
  files(collection: string): IndexedFile[];
};

export function openKnowledgeInMemory(): LocalKnowledge {
  const database = new KnowledgeDatabase();
  return {
    sync: (collections) => database.sync(collections),
    search: async (collection, question, limit) => database.search(collection, question, limit),
    files: (collection) => database.files(collection),
    close: async () => database.close(),
  };
}
