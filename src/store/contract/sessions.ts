/** Browsers that are signed in to the console. They live for hours, so a move to another store leaves them behind. */

/** A session as stored: never its cookie's value, only the SHA-256 of that. Times are Unix milliseconds. */
export type SessionRow = {
  readonly id: string;
  /** SHA-256 of the cookie's value, hexadecimal. */
  readonly hash: string;
  /** Id of the key that signed in. */
  readonly key: string;
  /** SHA-256 of the secret that signed in: the session ends with it. */
  readonly keyHash: string;
  /** Name of the browser, for people. */
  readonly client: string;
  readonly createdAt: number;
  /** To the minute. */
  readonly usedAt: number;
  /** When it ends however much it is used. */
  readonly endsAt: number;
};

export interface SessionRepository {
  insert(row: SessionRow): Promise<void>;
  /** Also one that has ended, until it is removed. */
  find(hash: string): Promise<SessionRow | undefined>;
  /** Notes that it was used; never moves the time backwards. */
  touch(id: string, at: number): Promise<void>;
  /** Newest first. Ids sort by time. */
  list(limit: number): Promise<SessionRow[]>;
  remove(id: string): Promise<void>;
  /** Removes those that end by then, and those last used before a time. */
  removeEnded(endsBy: number, usedBefore: number): Promise<void>;
  /** Removes all of a key but the newest. */
  removeBeyond(key: string, most: number): Promise<void>;
}
