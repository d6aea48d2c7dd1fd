/**
 * Store in a PostgreSQL database that several nodes share. Every method is one statement, so that it is atomic, can be
 * sent twice, and needs no connection of its own: a pooler in transaction mode may stand in between.
 *
 * Changes by other processes are learned by asking twice a second, which works through every pooler.
 */
import { SQL } from "bun";
import type { StoreConfig } from "../../config/config.ts";
import type { Logger } from "../../lib/process/log.ts";
import { type Clock, systemClock } from "../../lib/time/clock.ts";
import { hourMs } from "../../lib/time/duration.ts";
import { StorageError, underWay } from "../contract/storage-error.ts";
import type { Maintenance, Store } from "../contract/store.ts";
import { goodForMs, type StoredWindows } from "../contract/windows.ts";
import { alertRepository } from "../sql/alert-repository.ts";
import { auditRepository } from "../sql/audit-repository.ts";
import { factsRepository } from "../sql/facts-repository.ts";
import { personaVersionRepository } from "../sql/persona-version-repository.ts";
import { previewRepository, removeEndedPreviews } from "../sql/preview-repository.ts";
import type { RunRecords } from "../sql/run-records.ts";
import { sessionRepository } from "../sql/session-repository.ts";
import { testRunRepository } from "../sql/test-run-repository.ts";
import { variantRepository } from "../sql/variant-repository.ts";
import { budgetRepository } from "./budget-repository.ts";
import { postgresConversations } from "./conversation-repository.ts";
import { refusesParameters } from "./errors.ts";
import { HeldCalls } from "./held-calls.ts";
import { type KeyVersion, postgresKeys } from "./key-repository.ts";
import { LeaseOwner } from "./lease-owner.ts";
import { ledgerRepository, removeLedgerDays } from "./ledger-repository.ts";
import { hasSchema, isCurrent, migrate, ownVersion, staging } from "./migrations.ts";
import { nodeRepository } from "./node-repository.ts";
import { placeOf } from "./place.ts";
import { QueryPool, type QueryPools } from "./query-pool.ts";
import { runRepository } from "./run-repository.ts";
import { postgresWindows } from "./windows.ts";

export type PostgresStore = Store & {
  /** The server's address without user and password. */
  readonly path: string;
  readonly schemaVersion: number;
  /** The name under which it holds its calls; "" before the first. */
  readonly leaseOwner: string;
  readonly windows: StoredWindows;
  /** Asks now what other processes changed, as it does twice a second. @throws StorageError */
  refresh(): Promise<void>;
};

const pollMs = 500;
/** Between two askings for requests whose keys nobody knows. */
const betweenCatchUpsMs = 100;
/** Deadline of maintenance, and of whatever no call waits for. */
const backgroundMs = 10_000;
const backgroundConnections = 2;
/** Deadline of a page of the ledger. */
const reportMs = 30_000;
/** Deadline of each statement that changes the schema: an index of a large table takes its time. */
const migrationMs = hourMs;
const windowConnections = 2;

/**
 * Connects, and brings the schema forward. Programs of the version before may serve on.
 * @param hasOneClock whether token windows go by the callers' clock, as in a test; else by the server's
 * @param log is given how far a new schema is
 * @throws StorageError
 */
export async function openPostgresStore(
  settings: StoreConfig,
  clock = systemClock,
  hasOneClock = false,
  log?: Logger,
): Promise<PostgresStore> {
  const place = placeOf(settings.url);
  const statementMs = settings.statementSeconds * 1000;
  const takesLimits = await takesParameters(settings);
  let isServerAway = () => false;
  const poolOf = (name: string, connections: number, deadlineMs: number, isAway?: () => boolean) =>
    new QueryPool({
      name,
      connect: () => connect(settings.url, connections, takesLimits ? deadlineMs : undefined),
      connections,
      deadlineMs,
      place,
      clock,
      ...(isAway && { isAway }),
    });
  await using opened = new AsyncDisposableStack();
  const path = opened.adopt(
    poolOf("calls", settings.pool, statementMs, () => isServerAway()),
    (pool) => pool.close(),
  );
  const background = opened.adopt(poolOf("background", backgroundConnections, backgroundMs), (pool) => pool.close());
  const reports = opened.adopt(poolOf("reports", backgroundConnections, reportMs), (pool) => pool.close());
  // Beside long work of the background a poll would come late.
  const watch = opened.adopt(poolOf("watch", 1, statementMs), (pool) => pool.close());
  const windowPool = opened.adopt(poolOf("windows", windowConnections, Math.min(statementMs, goodForMs)), (pool) =>
    pool.close(),
  );
  await bringForward(background, settings, clock, (words) =>
    log?.info("schema of the database", { place, state: words }),
  );
  const poll = opened.adopt(new KeyPoll(watch, place, clock, settings.keysWithoutDatabaseSeconds * 1000), (one) =>
    one.close(),
  );
  isServerAway = () => poll.isFailing;
  await poll.ask();
  const leaseOwner = new LeaseOwner(watch, place, clock, settings.leaseSeconds * 1000);
  const calls = new HeldCalls(background, leaseOwner);
  const pools = opened.move();
  const { removeExpired, totals, ...runs } = runRepository({ path, background }, leaseOwner);
  let closing: Promise<void> | undefined;
  return {
    path: place,
    schemaVersion: ownVersion(),
    get leaseOwner() {
      return leaseOwner.id;
    },
    refresh: () => poll.ask(),
    keys: postgresKeys({ path, background }, place, poll),
    runs,
    conversations: postgresConversations(path),
    budgets: budgetRepository({ path, background }, { calls, hasOneClock }),
    variants: variantRepository(background),
    audit: auditRepository(background),
    sessions: sessionRepository(background),
    personaVersions: personaVersionRepository(background),
    previews: previewRepository(background, "preview"),
    reports: previewRepository(background, "report"),
    testRuns: testRunRepository(background),
    alerts: alertRepository(background),
    facts: factsRepository(background),
    ledger: ledgerRepository({ background, reports }, calls),
    nodes: nodeRepository(background),
    windows: postgresWindows(windowPool, () => clock.newId()),
    maintenance: maintenanceOf({ path, background }, { removeExpired, totals }, place, leaseOwner),
    database: () => {
      const all = [path, background, reports, watch, windowPool];
      const sum = (count: keyof QueryPool["counts"]) => all.reduce((total, { counts }) => total + counts[count], 0);
      return {
        pools: all.map(({ use }) => use),
        statements: sum("statements"),
        failed: sum("failed"),
        late: sum("late"),
        replaced: sum("replaced"),
        isReachable: !isServerAway(),
        lease: leaseOwner.state,
      };
    },
    close: () => {
      closing ??= leaseOwner
        .close()
        .catch(() => {})
        .then(() => pools.disposeAsync());
      return closing;
    },
  };
}

/**
 * Brings the schema forward where it is an older one, on a connection of its own that may take long for it.
 * @param pool finds out, within its deadline
 * @param report is given how far it is, in words
 * @throws StorageError, `moving` where a move fills it
 */
export async function bringForward(
  pool: QueryPool,
  settings: StoreConfig,
  clock: Clock,
  report?: (words: string) => void,
): Promise<void> {
  const place = placeOf(settings.url);
  if (await isCurrent(pool, place)) return;
  if (await hasSchema(pool, staging)) throw underWay(place);
  const patient = await openPool(settings, clock, { deadlineMs: migrationMs, use: "long" });
  try {
    await migrate(patient, place, {
      clock,
      lockMs: Math.min(1_000, settings.statementSeconds * 500),
      ...(report && { report }),
    });
  } finally {
    await patient.close();
  }
}

type PoolOptions = { readonly deadlineMs?: number; readonly connections?: number; readonly use?: "long" };

/** A pool of its own, for work of the background where nothing else is said. @throws StorageError */
export async function openPool(
  settings: StoreConfig,
  clock: Clock,
  { deadlineMs = backgroundMs, connections = 1, use }: PoolOptions = {},
): Promise<QueryPool> {
  const takesLimits = await takesParameters(settings);
  return new QueryPool({
    connect: () => connect(settings.url, connections, takesLimits ? deadlineMs : undefined, use),
    connections,
    deadlineMs,
    place: placeOf(settings.url),
    clock,
  });
}

/** Source: https://www.postgresql.org/docs/current/runtime-config-client.html */
const limitsOf = (deadlineMs: number) => ({
  // Before our own deadline, which costs a connection.
  statement_timeout: Math.ceil(deadlineMs * 0.9),
  idle_in_transaction_session_timeout: 2 * deadlineMs,
});

/** True if the server's certificate is to be verified. Source: https://www.postgresql.org/docs/current/libpq-ssl.html */
const verifies = (url: string): boolean => {
  const { searchParams } = new URL(url);
  return (
    (searchParams.get("sslmode") ?? "").startsWith("verify-") ||
    (searchParams.has("sslrootcert") && searchParams.get("sslmode") !== "disable")
  );
};

/** @param deadlineMs absent: the server is given no limits. @param use `long`: never closed for its age */
function connect(url: string, max: number, deadlineMs: number | undefined, use?: "long"): SQL {
  return new SQL(url, {
    max,
    // Prepared statements stay with a connection, which a pooler gives to others.
    prepare: false,
    connectionTimeout: 3,
    // So that connections go that died without a word.
    idleTimeout: use === "long" ? 0 : 30,
    maxLifetime: use === "long" ? 0 : 600,
    // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
    ...(verifies(url) && { tls: { rejectUnauthorized: true } }),
    connection: { application_name: "troupe", ...(deadlineMs !== undefined && limitsOf(deadlineMs)) },
  });
}

/** Resolves to true if limits may be named at the start of a connection; a pooler may refuse them, and then the server's own apply. */
async function takesParameters({ url, statementSeconds }: StoreConfig): Promise<boolean> {
  const place = placeOf(url);
  let isRefused = false;
  const probe = new QueryPool({
    connect: () => connect(url, 1, statementSeconds * 1000),
    connections: 1,
    deadlineMs: 5_000,
    place,
    clock: systemClock,
    onError: (error) => {
      isRefused ||= refusesParameters(error);
    },
  });
  try {
    await probe.run("select 1");
    return true;
  } catch (error) {
    if (isRefused) return false;
    throw error;
  } finally {
    await probe.close();
  }
}

/** Learns of changes of keys, and by it whether the server is there. */
class KeyPoll implements KeyVersion {
  readonly #pool: QueryPool;
  readonly #place: string;
  readonly #clock: Clock;
  readonly #goOnMs: number;
  #value = 0;
  /** A monotonic reading. */
  #knownAt = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #catchingUp: Promise<void> | undefined;
  /** When it was asked for those last, a monotonic reading. */
  #caughtUpAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #cancelTimer = () => {};

  constructor(pool: QueryPool, place: string, clock: Clock, goOnMs: number) {
    this.#pool = pool;
    this.#place = place;
    this.#clock = clock;
    this.#goOnMs = goOnMs;
    this.#later();
  }

  get isFailing(): boolean {
    return this.#isFailing;
  }

  known(): number {
    const sinceMs = this.#clock.monotonic() - this.#knownAt;
    if (sinceMs <= this.#goOnMs) return this.#value;
    const message = `Keys were last read ${Math.round(sinceMs / 1000)} s ago, as the database ${this.#place} can't be reached.`;
    throw new StorageError("outdated", this.#place, message);
  }

  async ask(): Promise<void> {
    const askedAt = this.#clock.monotonic();
    const [row] = await this.#pool.run<{ value: number }>(
      "select value::float8 as value from troupe.generations where name = 'keys'",
    );
    this.#isFailing = false;
    if (askedAt < this.#knownAt) return;
    this.#knownAt = askedAt;
    this.#value = row!.value;
  }

  /** One asking serves all who came before it, so that requests with keys that nobody knows can't make the database work. */
  catchUp(): Promise<void> {
    if (this.#isFailing)
      return Promise.reject(new StorageError("away", this.#place, `The database ${this.#place} can't be reached.`));
    this.#catchingUp ??= this.#nextCatchUp().then(() => {
      // Who comes from here on may ask about a change that this asking no longer sees.
      this.#catchingUp = undefined;
      this.#caughtUpAt = this.#clock.monotonic();
      return this.ask();
    });
    return this.#catchingUp;
  }

  #nextCatchUp(): Promise<void> {
    const ms = this.#caughtUpAt + betweenCatchUpsMs - this.#clock.monotonic();
    return ms > 0 ? new Promise((resolve) => this.#clock.setTimer(ms, resolve)) : Promise.resolve();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
  }

  #later(): void {
    if (!this.#isClosed) this.#cancelTimer = this.#clock.setTimer(pollMs, () => void this.#askAgain());
  }

  /** One that is late is asked again before the server is taken to be away, as calls are then refused unasked. */
  async #askAgain(): Promise<void> {
    const asking = this.ask().catch(() => this.ask());
    await asking.catch(() => {
      this.#isFailing = true;
    });
    this.#later();
  }
}

function maintenanceOf(
  { path, background: pool }: QueryPools,
  runs: Pick<RunRecords, "removeExpired" | "totals">,
  place: string,
  leaseOwner: LeaseOwner,
): Maintenance {
  const conversations = postgresConversations(pool);
  return {
    async size() {
      const [row] = await pool.run<{ bytes: number }>(
        `select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 as bytes from pg_class
         where relnamespace = 'troupe'::regnamespace and relkind = 'r'`,
      );
      return { bytes: row!.bytes, freeBytes: 0 };
    },
    check: () => leaseOwner.prove(),
    get refusal() {
      return path.refusal;
    },
    async damage() {
      try {
        await runs.totals();
        await conversations.totals();
        await pool.run("select sum(octet_length(data)) from troupe.kept_events");
        return undefined;
      } catch (error) {
        if (error instanceof StorageError && error.kind === "corrupt") return error.message;
        throw error;
      }
    },
    copyTo: () => {
      const message = `The database ${place} is copied by PostgreSQL's own tools: pg_dump --schema=troupe.`;
      return Promise.reject(new StorageError("unusable", place, message));
    },
    // The server's own vacuum does it.
    shrink: async () => (await pool.run("select 1")).length - 1,
    removeExpiredRuns: runs.removeExpired,
    removeExpiredTurns: conversations.removeExpired,
    removeDeletedTurns: conversations.removeDeleted,
    removeUnusedVersions: personaVersionRepository(pool).removeUnused,
    removeEndedPreviews: (now, max) => removeEndedPreviews(pool, now, max),
    removeLedgerDays: (before) => removeLedgerDays(pool, before),
    runTotals: runs.totals,
    conversationTotals: conversations.totals,
    async otherServers() {
      await pool.run("delete from troupe.lease_owners where lapses_at < clock_timestamp() - interval '1 hour'");
      const [row] = await pool.run<{ servers: number }>(
        `select count(*)::float8 as servers from troupe.lease_owners
         where owner <> $1::text and lapses_at > clock_timestamp()`,
        [leaseOwner.id],
      );
      return row!.servers;
    },
  };
}
