/** The index of the files that personas know: in memory, made from the files at each start. */

import type { FoundSection } from "../../lib/text/sections.ts";

/** The files of one persona's `knowledge`. */
export type Collection = {
  /** Made by `collectionOf`. */
  readonly id: string;
  /** The personas' folder: no file outside of it is read. */
  readonly root: string;
  /** The folder that the globs begin at. */
  readonly folder: string;
  readonly globs: readonly string[];
  /** The files themselves, of a persona that brings them along; absent: they are in the folder. */
  readonly texts?: readonly CollectionText[];
};

type CollectionText = { readonly file: string; readonly text: string };

export type IndexedFile = { readonly file: string; readonly sections: number; readonly bytes: number };

export type KnowledgeReport = {
  readonly files: number;
  readonly sections: number;
  /** Files that were read and indexed now, and such as were removed. */
  readonly indexed: number;
  readonly removed: number;
  /** Files that can't be read, as sentences. */
  readonly problems: readonly string[];
};

export interface KnowledgeIndex {
  /** Brings the index up to date with the files of these collections, all at once: until then searches find what stood before. */
  sync(collections: readonly Collection[]): Promise<KnowledgeReport>;
  /** @returns the best first; none where nothing fits. Any text is a question */
  search(collection: string, question: string, limit: number): Promise<FoundSection[]>;
  close(): Promise<void>;
}

/** Of files that are nowhere but here. */
export function textCollectionOf(texts: readonly CollectionText[]): Collection {
  const id = Bun.SHA256.hash(JSON.stringify(texts), "hex").slice(0, 32);
  return { id, root: "", folder: "", globs: [], texts };
}

export function collectionOf(root: string, folder: string, globs: readonly string[]): Collection {
  const id = Bun.SHA256.hash(JSON.stringify([root, folder, globs]), "hex").slice(0, 32);
  return { id, root, folder, globs };
}
