/**
 * What is remembered, behind interfaces that every database can keep. A method is one atomic step: it happens whole or not
 * at all, and its promise resolves once others can read what it wrote. It rejects with StorageError when the database fails;
 * then it may have happened all the same, so a write that matters is one that may be repeated. Times are Unix milliseconds.
 */
import type { Tier } from "../protocols/models.ts";

export interface Store {
  readonly keys: KeyRepository;
  readonly runs: RunRepository;
  readonly conversations: ConversationRepository;
  readonly maintenance: Maintenance;
  /** Gives up this process' leases. Nothing may be called afterwards. */
  close(): Promise<void>;
}

/** An API key as it is kept: never the key itself, only its SHA-256. */
export type KeyRow = {
  id: string;
  name: string;
  /** The key's first characters, for people. */
  prefix: string;
  /** SHA-256 of the whole key, hexadecimal. */
  hash: string;
  tier: Tier;
  /** Requests per minute, where the key has a number of its own. */
  perMinute: number | null;
  /** JSON arrays of strings. */
  surfaces: string;
  models: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
  revokedAt: number | null;
};

export interface KeyRepository {
  /**
   * Grows with every change of a key that matters to calls, by any process. Synchronous, as every call asks: it takes
   * microseconds and never waits for a network; a remote database gives what it learned last, at most 1 s ago.
   * @throws StorageError
   */
  version(): number;
  /** All keys, revoked ones included, by time of birth. Rejects with StorageError also when the rights of one can't be read. */
  list(): Promise<KeyRow[]>;
  insert(row: KeyRow): Promise<void>;
  /**
   * Only if there is no key at all, revoked ones included. Of several processes one gets true.
   * @param beforeCommit undoes the insert by throwing
   */
  insertFirst(row: KeyRow, beforeCommit: () => void): Promise<boolean>;
  /** @returns false when there is no such key, or it was revoked before */
  revoke(id: string, at: number): Promise<boolean>;
  /** Gives the key a new secret. @returns false when there is no such key, or it is revoked */
  replaceSecret(id: string, prefix: string, hash: string): Promise<boolean>;
  /** Notes when keys were last used; never moves a time backwards. */
  touch(uses: ReadonlyMap<string, number>): Promise<void>;
}

/** One upstream call. Its number alone is not enough: numbers come again after rows were removed. */
export type CallId = { readonly call: number; readonly run: string };

/**
 * The right to write the record of a call. `run` is its fencing token: new with each claim, so what is written with a lease
 * that was lost meets no record.
 */
export type Lease = CallId;

export type NewCall = {
  readonly scope: string;
  readonly requestId: string;
  readonly fingerprint: string;
  readonly run: string;
  readonly createdAt: number;
};

/** The rest is null unless known. */
export type IdempotencyRecord = CallId & {
  fingerprint: string;
  state: "running" | "finished" | "interrupted";
  /** Of a running call: who has its lease; `gone`: a process that ended, or whose lease lapsed. */
  holder: "self" | "other" | "gone" | null;
  expiresAt: number | null;
  status: number | null;
  /** JSON object. */
  headers: string | null;
  /** How many events a stream has; null for a whole answer. */
  events: number | null;
  /** The number of the first event in the body; the ones before are rows of their own. Likewise a whole answer's pieces. */
  bodyFrom: number | null;
  /** 1: the stream's events are kept as whole texts; 0: as their data alone, by an older version. */
  wholeEvents: 0 | 1;
};

export type FinishedCall = {
  readonly status: number;
  readonly headers: string;
  readonly events: number | null;
  readonly bodyFrom: number | null;
  readonly body: Uint8Array;
  /** Of all that is kept of the answer. */
  readonly bytes: number;
  readonly expiresAt: number;
};

export type StoredEvents = { readonly firstId: number; readonly data: Uint8Array };

export type LeaseTerms = {
  /** How often a lease has to be renewed, in milliseconds. */
  readonly renewMs: number;
  /** After how many milliseconds without renewal it is lost. Infinity: it holds for as long as the process lives. */
  readonly lapseMs: number;
};

/** Idempotency records: calls that carry a service-request-id, and their answers. */
export interface RunRepository {
  readonly leaseTerms: LeaseTerms;
  /**
   * Of all that race for scope and request id, in whatever process, one gets the lease.
   * @param old the record in the way, which gives way if it is still as it was read
   * @returns undefined when scope and request id are taken
   */
  claim(call: NewCall, old?: CallId & Pick<IdempotencyRecord, "state">): Promise<Lease | undefined>;
  /** @returns those of the leases that are lost: their holder must stop at once */
  renew(leases: readonly Lease[]): Promise<Lease[]>;
  /**
   * Marks the running calls of holders that are gone as interrupted, from that time on expired. A start calls it before all
   * else: it rejects where leases can't be held.
   * @returns how many
   */
  interruptAbandoned(at: number): Promise<number>;
  find(scope: string, requestId: string): Promise<IdempotencyRecord | undefined>;
  get(id: CallId): Promise<IdempotencyRecord | undefined>;
  body(id: CallId): Promise<Uint8Array | undefined>;
  /** Asks the holder to write events down as they come. */
  watch(id: CallId): Promise<void>;
  /** This process' calls that someone watches. */
  watched(): Promise<number[]>;
  /**
   * Keeps events of a running call, or a piece of a whole answer.
   * @param headers those of a stream, which others may read from now on; null: of a whole answer, which is not for reading yet
   * @returns false when the lease is lost
   */
  append(lease: Lease, headers: string | null, events: StoredEvents): Promise<boolean>;
  /** The kept events that begin at or before that number, the latest of them. */
  eventsAt(id: CallId, number: number): Promise<StoredEvents | undefined>;
  /** @returns false when the lease is lost */
  finish(lease: Lease, finished: FinishedCall): Promise<boolean>;
  /** Removes the record of a running call, which frees its id; nothing happens when the lease is lost. */
  release(lease: Lease): Promise<void>;
  /** Removes the record of a finished call. */
  discard(id: CallId): Promise<void>;
}

/** A stored completion, as one turn of a conversation. The last three are packed JSON. */
export type Turn = {
  readonly id: string;
  /** The turn that this one continues. */
  readonly parent: string | null;
  /** Who may see it. */
  readonly holder: string;
  readonly model: string;
  readonly createdAt: number;
  /** JSON object of strings. */
  readonly metadata: string;
  /** Where the upstream holds the conversation too: which account's, and its id there. */
  readonly upstreamAccount: string | null;
  readonly upstreamId: string | null;
  /** What a reader may want to know of the request. */
  readonly request: Uint8Array;
  /** The messages that came with this turn. */
  readonly input: Uint8Array;
  readonly completion: Uint8Array;
};

export type TurnText = Pick<Turn, "id" | "input" | "completion">;

export type Page = {
  readonly holder: string;
  readonly now: number;
  readonly model: string | null;
  /** JSON object: only turns whose metadata has all of its pairs. */
  readonly metadata: string;
  /** The turn after which the page begins. */
  readonly after: string | null;
  readonly limit: number;
};

/** A turn is found only by its holder, neither deleted nor expired. */
export interface ConversationRepository {
  find(holder: string, id: string, now: number): Promise<Turn | undefined>;
  /** The turn and all that it continues, deleted ones included: oldest first. */
  chain(id: string): Promise<TurnText[]>;
  /** The conversation of that turn was used; never moves its end forward in time. */
  touch(id: string, expiresAt: number): Promise<void>;
  /**
   * @param alone the turn's input if the one it continues is gone by now
   * @param expiresAt of the whole conversation
   */
  insert(turn: Turn, alone: Uint8Array, expiresAt: number): Promise<void>;
  /** In order of birth. @returns undefined when `after` is no turn of that holder */
  list(page: Page, order: "asc" | "desc"): Promise<Turn[] | undefined>;
  /** @returns false when there is no such turn */
  setMetadata(holder: string, id: string, metadata: string, now: number): Promise<boolean>;
  /** @returns false when there is no such turn */
  markDeleted(holder: string, id: string, now: number): Promise<boolean>;
}

export type RunTotals = { running: number; finished: number; interrupted: number; bytes: number };
export type ConversationTotals = { conversations: number; turns: number; deleted: number; bytes: number };

/** What an operator and the sweeper do with it; nothing of it is needed to answer a call but `check`. */
export interface Maintenance {
  /** How large it is, and how much of that is free for new rows. */
  size(): Promise<{ readonly bytes: number; readonly freeBytes: number }>;
  /** Writes as much as a usual row. Rejects when nothing can be kept at the moment. */
  check(): Promise<void>;
  /** Reads everything. @returns the first damage, undefined when there is none */
  damage(): Promise<string | undefined>;
  /** Copies everything, as it is at this moment, into a new file, while others read and write. */
  copyTo(path: string): Promise<void>;
  /** Gives free pages back to the file system, that many at most. @returns how many */
  shrink(maxPages: number): Promise<number>;
  /** Removes finished and interrupted calls that expire by then, the earliest first. @returns how many */
  removeExpiredRuns(now: number, max: number): Promise<number>;
  /** Removes turns of expired conversations. @returns how many rows */
  removeExpiredTurns(now: number, max: number): Promise<number>;
  /** Removes turns deleted before that time that no other turn continues. @returns how many */
  removeDeletedTurns(before: number, max: number): Promise<number>;
  runTotals(): Promise<RunTotals>;
  conversationTotals(): Promise<ConversationTotals>;
  /** How many other processes serve from this store; what those that ended left behind is removed. */
  otherServers(): Promise<number>;
}
