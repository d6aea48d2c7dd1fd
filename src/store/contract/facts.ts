/** Facts of models that were taken in place of the executable's, and which of them count: the same for all nodes. */

/** @property sha256 of its content, hexadecimal @property source the file or address that it came from */
export type FactsListInfo = {
  readonly sha256: string;
  /** YYYY-MM-DD. */
  readonly asOf: string;
  readonly source: string;
  /** 1 where it counts though what the executable has is newer. */
  readonly isForced: number;
  readonly takenAt: number;
};
export type FactsList = FactsListInfo & { readonly content: Uint8Array };

export type FactsState = {
  /** The list that counts; null: what the executable has. */
  readonly inForce: string | null;
  /** The list that somebody went back from, which is not taken again by itself. */
  readonly refused: string | null;
  /** When a newer one is looked for next, and when it was last, by anybody. */
  readonly due: number;
  readonly triedAt: number | null;
  /** Why that failed; null: it did not. */
  readonly failure: string | null;
};

/** Beyond so many those that were taken first are forgotten. */
export const maxFactsLists = 3;

export interface FactsRepository {
  /** @returns undefined before anything was taken or looked for */
  state(): Promise<FactsState | undefined>;
  /** Newest first, by when they were taken. */
  lists(): Promise<FactsListInfo[]>;
  get(sha256: string): Promise<FactsList | undefined>;
  /** Has a list count from now on, for all. */
  take(list: FactsList): Promise<void>;
  /** Has an earlier one count, or what the executable has (null). @param refused is not taken again by itself */
  goBack(to: string | null, refused: string | null): Promise<void>;
  /** @param due when it is looked for next @returns true for one of all that ask once the time has come */
  claim(now: number, due: number): Promise<boolean>;
  /** Notes how a look for a newer one went. */
  tried(at: number, failure: string | null, due: number): Promise<void>;
}
