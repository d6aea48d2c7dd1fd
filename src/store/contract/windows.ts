/**
 * Windows of requests that several nodes share: in any 60 s no caller has more than its limit, whichever nodes it calls. A hit is
 * counted and decided in one atomic step, on the server's clock alone: a node says how long ago something was, never when.
 *
 * Each call may be sent twice, and may come late: a request has an id, and counts once however often it is sent, as long as its caller's
 * latest requests are few. What a window takes does not grow with its limit.
 */

/**
 * For so long an answer is good, in milliseconds. Windows are longer by it, so that requests keep to the limit as the nodes admit them,
 * which is a little after they are counted.
 */
export const goodForMs = 250;

/** Windows are counted by this many parts, and a request counts until its part has left: for that much longer at most. */
export const windowParts = 500;

/** So many of a caller's latest requests are known by their ids: one whose answer was lost is sent again soon. */
export const recentIds = 32;

/** A request, or several that one id names: the id, how many milliseconds ago they were, and how many. Default: 1 */
export type WindowHit = readonly [id: string, ageMs: number, hits?: number];

export type WindowState = {
  /** True if the request was counted. */
  readonly allowed: boolean;
  /** Requests in the window now. */
  readonly used: number;
  /** Milliseconds until `used` next falls; of a refusal, until there is room. 0 where nothing is used. */
  readonly growsMs: number;
  /** Another one than before: what was counted until then is lost. */
  readonly life: string;
};

export interface StoredWindows {
  /** Counts one request where it has room. Rejects where the server can't be asked in time: it may have been counted, then or later. */
  hit(caller: string, limit: number, id: string): Promise<WindowState>;
  /** Counts requests that were admitted without asking. Rejects as `hit` does */
  add(caller: string, hits: readonly WindowHit[]): Promise<WindowState>;
  /** Removes what counts no more. */
  tidy(): Promise<void>;
  close(): Promise<void>;
}
