/**
 * The repositories of stored data, independent of the database. Each method is atomic, and its promise resolves once its write
 * is visible to other processes. It rejects with StorageError when the database fails; the write may have happened all the same,
 * so important writes must be repeatable. Times are Unix milliseconds.
 */

import type { Tier } from "../../protocols/tiers.ts";
import type { DatabaseState } from "../metrics.ts";
import type { AuditRow } from "./audit.ts";
import type { FactsRepository } from "./facts.ts";
import type { TestRunRepository } from "./persona-test-runs.ts";
import type { PersonaVersionRepository } from "./persona-versions.ts";
import type { PreviewRepository } from "./previews.ts";
import type { SessionRepository } from "./sessions.ts";
import type { StorageError } from "./storage-error.ts";
import type { BudgetRepository, LedgerRepository } from "./usage.ts";
import type { VariantRepository } from "./variants.ts";

export interface Store {
  readonly keys: KeyRepository;
  readonly runs: RunRepository;
  readonly conversations: ConversationRepository;
  readonly budgets: BudgetRepository;
  readonly audit: AuditRepository;
  readonly sessions: SessionRepository;
  readonly personaVersions: PersonaVersionRepository;
  readonly previews: PreviewRepository;
  /** What is said of personas' changes, kept as previews are. */
  readonly reports: PreviewRepository;
  readonly testRuns: TestRunRepository;
  readonly alerts: AlertRepository;
  readonly facts: FactsRepository;
  readonly ledger: LedgerRepository;
  readonly variants: VariantRepository;
  readonly maintenance: Maintenance;
  /** Present where several nodes share the store. */
  readonly nodes?: NodeRepository;
  /** Under which this process' calls are found once it has ended; absent where that name may change. @throws StorageError */
  processName?(): string;
  /** State of a database server, as last seen; absent where there is none. */
  database?(): DatabaseState;
  /** Releases this process' leases. No method may be called afterwards. */
  close(): Promise<void>;
}

/** Versions that a node serves: of its program, of its configuration, and of its personas. */
export type NodeVersions = { readonly program: string; readonly configuration: string; readonly personas: string };

/** What the other nodes reported in the last minute, and the time by the store's own clock, in milliseconds since 1970. */
type NodeReport = { readonly others: (NodeVersions & { readonly node: string })[]; readonly now: number };

/** The nodes that serve from this store, each with the versions that it reported. */
export interface NodeRepository {
  report(node: string, versions: NodeVersions): Promise<NodeReport>;
  /** Forgets the node. */
  leave(node: string): Promise<void>;
}

/** An API key as stored: never the key itself, only its SHA-256. */
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
  /** Tokens per minute; null: no limit. */
  tokensPerMinute: number | null;
  /** JSON arrays of strings. */
  surfaces: string;
  models: string;
  tags: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
  revokedAt: number | null;
  /** SHA-256 of the key as it was before it was rotated, and until when it is taken all the same; null: from no time on. */
  oldHash: string | null;
  oldUntil: number | null;
};

/** Members of a key that may change while it stays the same key. */
export type KeyRights = Pick<
  KeyRow,
  "name" | "tier" | "perMinute" | "tokensPerMinute" | "surfaces" | "models" | "tags" | "expiresAt"
>;

/** Of the digest of changes, so that the sum of those of ten million keys is a number of JSON. */
export const changeModulus = 1_000_003;

/** Keys that changed, as they are now. */
export type ChangedKeys = {
  /** `change`: by which version of the keys the row is what it is. */
  readonly rows: readonly (KeyRow & { readonly change: number })[];
  /** How many keys there are, a space, and the sum of all their changes, each modulo `changeModulus`. */
  readonly digest: string;
};

export interface KeyRepository {
  /**
   * Grows with every change of a key or a budget that matters to calls, by any process. Synchronous, as every call asks: it takes
   * microseconds and never waits for a network; a remote database gives what it learned last, at most 1 s ago.
   * @throws StorageError: `outdated` where what is known is too old to let anybody in by it
   */
  version(): number;
  /**
   * Present where `version` may lag behind what others changed: resolves once it counts everything that was changed before this call.
   * However many ask, the database is asked ten times a second at most. @throws StorageError, also at once while it is known to be away
   */
  catchUp?(): Promise<void>;
  /** All keys, revoked ones included, by creation time. Rejects with StorageError also when the rights of one can't be read. */
  list(): Promise<KeyRow[]>;
  /**
   * Those that changed after that one, by creation time; -1: all. Uses are no changes. `digest` may be later than the rows. Rejects as `list`
   * does, of these rows.
   */
  changes(since: number): Promise<ChangedKeys>;
  /** When keys were last used, as far as that is written. @param ids of those that are asked for; absent: of all */
  lastUses(ids?: readonly string[]): Promise<Iterable<readonly [id: string, at: number]>>;
  insert(row: KeyRow): Promise<void>;
  /**
   * Only if there is no key at all, revoked ones included. Of several processes one gets true.
   * @param beforeCommit undoes the insert by throwing
   */
  insertFirst(row: KeyRow, beforeCommit: () => void): Promise<boolean>;
  /** @returns false when there is no such key, or it was revoked before */
  revoke(id: string, at: number): Promise<boolean>;
  /** Changes what is given and leaves the rest. @returns false when there is no such key, or it is revoked */
  update(id: string, changes: Partial<KeyRights>): Promise<boolean>;
  /**
   * Gives the key a new secret; given again, the old one stays what it was.
   * @param from the hash of the secret that is replaced: what is carried out late does not take the next one's place
   * @param oldUntil until when the old one is taken too; null: from no time on
   * @returns false when there is no such key, it is revoked, or its secret is another by now
   */
  replaceSecret(id: string, from: string, prefix: string, hash: string, oldUntil: number | null): Promise<boolean>;
  /** Notes when keys were last used; never moves a time backwards. */
  touch(uses: ReadonlyMap<string, number>): Promise<void>;
}

/** One upstream call. Its number alone is not enough: numbers come again after rows were removed. */
export type CallId = { readonly call: number; readonly run: string };

/**
 * The right to write the record of a call. `run` is its fencing token: new with each claim, so what is written with a lease
 * that was lost meets no record.
 */
export type Lease = CallId & {
  /** Under which name it is held, where the store gives names. */
  readonly owner?: string;
};

export type NewCall = {
  readonly scope: string;
  readonly requestId: string;
  readonly fingerprint: string;
  readonly run: string;
  readonly createdAt: number;
};

/** The stored record of a call. Fields are null until known. */
export type IdempotencyRecord = CallId & {
  fingerprint: string;
  state: "running" | "finished" | "interrupted";
  /** Who owns the lease of a running call; `gone`: a process that ended or whose lease lapsed. */
  heldBy: "self" | "other" | "gone" | null;
  /** Under which name it is held, as `Lease.owner`: of a running call, where the store gives names. */
  owner?: string;
  expiresAt: number | null;
  status: number | null;
  /** JSON object. */
  headers: string | null;
  /** Number of events of a stream; null for a whole answer. */
  events: number | null;
  /** The number of the first event in the body; the ones before are rows of their own. Likewise a whole answer's pieces. */
  bodyFrom: number | null;
};

export type FinishedCall = {
  readonly status: number;
  readonly headers: string;
  readonly events: number | null;
  readonly bodyFrom: number | null;
  readonly body: Uint8Array;
  /** Stored size of the whole answer. */
  readonly bytes: number;
  readonly expiresAt: number;
};

export type StoredEvents = { readonly firstId: number; readonly data: Uint8Array };

type LeaseTerms = {
  /** Interval at which a lease has to be renewed, in milliseconds. */
  readonly renewMs: number;
  /** For how long one holds, in milliseconds, if its process can't renew it; absent: for as long as its process lives. */
  readonly lapseMs?: number;
};

/** Idempotency records: calls that carry a service-request-id, and their answers. */
export interface RunRepository {
  readonly leaseTerms: LeaseTerms;
  /**
   * Claims scope and request id: of concurrent claims in all processes one gets the lease.
   * @param old the record to replace, if it is unchanged since it was read
   * @returns undefined when the id is already claimed
   */
  claim(call: NewCall, old?: CallId & Pick<IdempotencyRecord, "state">): Promise<Lease | undefined>;
  /**
   * True if the lease may still be held, by this process' own clock: false once it was not renewed for too long, as after a pause
   * of the process. Synchronous, as each batch of a stream asks: it takes a microsecond and no network.
   */
  holds(lease: Lease): boolean;
  /** @returns the leases that are lost; their owner must stop at once */
  renew(leases: readonly Lease[]): Promise<Lease[]>;
  /**
   * Marks the running calls of dead lease owners as interrupted, expiring at `at`. Called first at start, as it rejects where leases
   * can't be held.
   * @returns how many
   */
  interruptAbandoned(at: number): Promise<number>;
  find(scope: string, requestId: string): Promise<IdempotencyRecord | undefined>;
  get(id: CallId): Promise<IdempotencyRecord | undefined>;
  body(id: CallId): Promise<Uint8Array | undefined>;
  /** Asks the lease owner to flush events to the store as they arrive. */
  watch(id: CallId): Promise<void>;
  /** This process' calls that other processes watch. */
  watched(): Promise<number[]>;
  /**
   * Appends events of a running call, or a piece of a whole answer.
   * A rejected append may come through later, in place of what was written there since: so it is appended again as it was.
   * @param headers of a stream, which becomes readable for other processes; null for a whole answer, readable once finished
   * @returns false when the lease is lost
   */
  append(lease: Lease, headers: string | null, events: StoredEvents): Promise<boolean>;
  /** The latest stored batch of events that begins at or before that number. */
  eventsAt(id: CallId, number: number): Promise<StoredEvents | undefined>;
  /** @returns false when the lease is lost */
  finish(lease: Lease, finished: FinishedCall): Promise<boolean>;
  /** Removes the record of a running call, which releases its id; does nothing when the lease is lost. */
  release(lease: Lease): Promise<void>;
  /** Removes the record of a finished call. */
  discard(id: CallId): Promise<void>;
}

/** `running`: answered in the background; only a finished turn can be continued. */
export type TurnState = "running" | "finished" | "failed" | "cancelled";

/** A stored answer, as one turn of a conversation. The last four are packed JSON. */
export type Turn = {
  readonly id: string;
  /** The client format that it was asked in: only that format's routes show it. */
  readonly format: string;
  readonly state: TurnState;
  /** The turn that this one continues. */
  readonly parent: string | null;
  /** The key holder who may see it: a key on a surface, in one text. */
  readonly keyHolder: string;
  readonly model: string;
  readonly createdAt: number;
  /** JSON object of strings. */
  readonly metadata: string;
  /** Account and id of the conversation at the upstream, where the upstream holds it too. */
  readonly upstreamAccount: string | null;
  readonly upstreamId: string | null;
  /** The parts of the request that its format's routes return. */
  readonly request: Uint8Array;
  /** The messages that came with this turn. */
  readonly input: Uint8Array;
  /** In the inner form; empty until the turn has finished. */
  readonly completion: Uint8Array;
  /** The answer as its format's routes return it; null where that is the completion. */
  readonly shown: Uint8Array | null;
};

/** Outcome of a running turn. */
export type SettledTurn = Pick<Turn, "model" | "upstreamAccount" | "upstreamId" | "completion"> & {
  readonly state: Exclude<TurnState, "running">;
  readonly shown: Uint8Array;
};

export type TurnText = Pick<Turn, "id" | "input" | "completion">;
/** Parts of a turn that its format's routes show, and what another format may show of it. */
export type TurnShown = TurnText & Pick<Turn, "format" | "request" | "shown">;

export type Page = {
  readonly keyHolder: string;
  readonly format: string;
  readonly now: number;
  readonly model: string | null;
  /** JSON object: only turns whose metadata has all of its pairs. */
  readonly metadata: string;
  /** The turn after which the page begins. */
  readonly after: string | null;
  readonly limit: number;
};

/** A turn is found only by its key holder, neither deleted nor expired. */
export interface ConversationRepository {
  find(keyHolder: string, id: string, now: number): Promise<Turn | undefined>;
  /** The turn and all that it continues, deleted ones included: oldest first. */
  chain(id: string): Promise<TurnText[]>;
  /** The same, with what the routes show of each. */
  shownChain(id: string): Promise<TurnShown[]>;
  /** Extends the expiry of the turn's conversation; never shortens it. */
  touch(id: string, expiresAt: number): Promise<void>;
  /**
   * @param alone the turn's input if its parent no longer exists
   * @param expiresAt of the whole conversation
   */
  insert(turn: Turn, alone: Uint8Array, expiresAt: number): Promise<void>;
  /** Ends a running turn. @returns false when it does not run any more, or was deleted */
  settle(id: string, settled: SettledTurn): Promise<boolean>;
  /** @returns which of those turns failed, or were cancelled or deleted; a finished one may have its last events to store */
  stopped(ids: readonly string[]): Promise<string[]>;
  /** Ordered by creation time. @returns undefined when `after` is no turn of that key holder */
  list(page: Page, order: "asc" | "desc"): Promise<Turn[] | undefined>;
  /** @returns false when there is no such turn */
  setMetadata(keyHolder: string, id: string, metadata: string, now: number): Promise<boolean>;
  /** @returns false when there is no such turn */
  markDeleted(keyHolder: string, id: string, now: number): Promise<boolean>;
}

export type AuditPage = {
  /** The act before which the page begins; null: the newest. */
  readonly before: string | null;
  readonly limit: number;
  readonly actor: string | null;
  readonly act: string | null;
  readonly subject: string | null;
  /** Unix milliseconds; absent: from the first on, to the last. */
  readonly since?: number | null;
  readonly until?: number | null;
};

export interface AuditRepository {
  insert(row: AuditRow): Promise<void>;
  /** Newest first. Ids sort by time. */
  list(page: AuditPage): Promise<AuditRow[]>;
}

/** A cause of which an operator was alerted, and which has not ended. @property since Unix milliseconds */
export type AlertCause = { readonly cause: string; readonly since: number };

/** @property body as it is signed and sent */
export type AlertMessage = { readonly id: string; readonly body: string; readonly at: number };

/** A message for one destination. @property attempts this one included */
export type QueuedAlert = AlertMessage & { readonly destination: string; readonly attempts: number };

/** Messages beyond it are not queued. */
export const maxAlertMessages = 1_000;

export interface AlertRepository {
  causes(): Promise<AlertCause[]>;
  /** Queues the message for each destination, unless the cause was reported already. @returns whether it was queued */
  begin(cause: string, message: AlertMessage, destinations: readonly string[]): Promise<boolean>;
  /** The same for its end, where it began. */
  end(cause: string, message: AlertMessage, destinations: readonly string[]): Promise<boolean>;
  /** Messages that are due, which nobody else is given until that time. */
  claim(now: number, until: number, limit: number): Promise<QueuedAlert[]>;
  postpone(message: Pick<QueuedAlert, "id" | "destination">, due: number): Promise<void>;
  remove(message: Pick<QueuedAlert, "id" | "destination">): Promise<void>;
  /** Messages that are not delivered yet, the newest first. */
  queued(limit: number): Promise<(QueuedAlert & { readonly due: number })[]>;
  /** Number of waiting messages. */
  waiting(): Promise<number>;
}

export type RunTotals = { running: number; finished: number; interrupted: number; bytes: number };
export type ConversationTotals = { conversations: number; turns: number; deleted: number; bytes: number };

/** Operations for operators and the sweeper; calls need only `check`. */
export interface Maintenance {
  /** Size of the database, and how much of it is free for new rows. */
  size(): Promise<{ readonly bytes: number; readonly freeBytes: number }>;
  /** Writes as much as a usual row. Rejects when writes fail at the moment. */
  check(): Promise<void>;
  /** Recent refusal of calls by a database server, though `check` may work: another table may need more of a full disk. */
  readonly refusal?: StorageError | undefined;
  /** Reads everything. @returns the first damage, undefined when there is none */
  damage(): Promise<string | undefined>;
  /** Copies everything, as it is at this moment, into a new file, while others read and write. */
  copyTo(path: string): Promise<void>;
  /** Returns at most `maxPages` free pages to the file system. @returns how many */
  shrink(maxPages: number): Promise<number>;
  /** Removes finished and interrupted calls that expire by then, the earliest first. @returns how many */
  removeExpiredRuns(now: number, max: number): Promise<number>;
  /** Removes turns of expired conversations. @returns how many rows */
  removeExpiredTurns(now: number, max: number): Promise<number>;
  /** Removes turns deleted before that time that no other turn continues. @returns how many */
  removeDeletedTurns(before: number, max: number): Promise<number>;
  /** Removes lines of whole UTC days that ended by then, oldest first, and their days' sums. @returns how many rows */
  removeLedgerDays(before: number, max: number): Promise<number>;
  /** Packs some sums of a day that is over, where that makes reports faster. @returns false where there is nothing left to do */
  packLedgerDays?(): Promise<boolean>;
  /** Removes versions of personas that were last used before then and that no label names. @returns how many */
  removeUnusedVersions(before: number, max: number): Promise<number>;
  /** Removes previews of personas, and reports, that ended by then. @returns how many */
  removeEndedPreviews(now: number, max: number): Promise<number>;
  runTotals(): Promise<RunTotals>;
  conversationTotals(): Promise<ConversationTotals>;
  /** Counts the other processes that serve from this store, and removes the lock files of dead ones. */
  otherServers(): Promise<number>;
}
