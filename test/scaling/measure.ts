/**
 * Measures on this machine what calls cost, with real servers, and writes it to `measured.json`; then `page.ts` makes the tables of
 * docs/scaling.md from it. It takes some five minutes, and wants PostgreSQL, Valkey or
 * Redis, and strace. One part of it alone:
 *
 *     bun test/scaling/measure.ts stream && bun test/scaling/page.ts
 */
import { Database } from "bun:sqlite";
import { writeFileSync } from "node:fs";
import { type Socket, SQL } from "bun";
import { systemClock } from "../../src/lib/time/clock.ts";
import type { Limiter } from "../../src/limits/limiter.ts";
import { openMachineLimits } from "../../src/limits/machine/limiter.ts";
import { StoredLimiter } from "../../src/limits/stored.ts";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import type { StoredWindows } from "../../src/store/contract/windows.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { finest } from "../../src/store/sql/ledger-rollups.ts";
import { describeMachine } from "../bench/machine.ts";
import { cpuSeconds, processTree, residentBytes } from "../bench/process-stats.ts";
import { reservationOf } from "../helpers/budgeted-call.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { ModelWindows } from "../helpers/model-windows.ts";
import { PostgresServer } from "../helpers/postgres.ts";
import { Random } from "../helpers/random.ts";
import { RedisServer } from "../helpers/redis.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { openTestWindows } from "../helpers/stored-windows.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import {
  type Kind,
  kinds,
  type Measured,
  measuredPath,
  type PostgresCost,
  readMeasured,
  type SqliteCost,
} from "./measured.ts";
import { type Asked, atOnce, median, Node, Upstream } from "./scene.ts";

const calls = 1_000;
const width = 16;
let ids = 0;

const calling: { readonly [K in Kind]: () => Asked } = {
  plain: () => ({}),
  id1Kb: () => ({ id: `id-${ids++}` }),
  id10Kb: () => ({ kb: 10, id: `id-${ids++}` }),
  idStream1Kb: () => ({ stream: true, id: `id-${ids++}` }),
  idStream10Kb: () => ({ kb: 10, stream: true, id: `id-${ids++}` }),
  budget: () => ({}),
  store1Kb: () => ({ store: true }),
  store10Kb: () => ({ kb: 10, store: true }),
};

/** The ledger's tables with their partitions: `ledger_20416`, `ledger_hours_20416`, `ledger_dimensions`. */
const ledgerTables = "^ledger(_|$)";
/** Statements that belong to a call; the others are a node's own: leases, keys, windows, the ledger. */
const ofCalls =
  /kept_calls|kept_events|troupe\.reserve|troupe\.settle|troupe\.turns|troupe\.conversations|update troupe\.lease_owners/;
const ofNodes = /owner = \$\d and watched|owner = \$\d and lapses_at|where owner = \$\d::text and state/;

const writes = /\b(insert|update|delete)\b|troupe\.(reserve|settle)/;

type Statement = { query: string; calls: number };

class Measuring {
  readonly server: PostgresServer;
  readonly upstream: Upstream;
  readonly database: string;

  constructor(server: PostgresServer, upstream: Upstream, database: string) {
    this.server = server;
    this.upstream = upstream;
    this.database = database;
  }

  ask<R>(text: string): Promise<R[]> {
    return this.server.ask<R>(this.database, text);
  }

  /** Of all its processes that are there now. */
  processes(): Map<number, number> {
    for (;;) {
      try {
        return new Map(processTree(this.server.pid).map((pid) => [pid, cpuSeconds([pid]) * 1e6]));
      } catch {
        // One ended in this very moment, as workers of the server do.
      }
    }
  }

  /** What they used since then; those that ended meanwhile are not known any more. */
  microsSince(then: ReadonlyMap<number, number>): number {
    return [...this.processes()].reduce((sum, [pid, micros]) => sum + micros - (then.get(pid) ?? 0), 0);
  }

  /** Bytes that its log has had so far. */
  async log(): Promise<number> {
    return (await this.ask<{ bytes: number }>("select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes"))[0]!
      .bytes;
  }

  async statements(): Promise<Statement[]> {
    return this.ask<Statement>(
      "select query, sum(calls)::float8 as calls from pg_stat_statements where query ilike '%troupe.%' group by 1",
    );
  }

  /** Of tables with their indexes, as they are without the room that updates leave. */
  async keptBytes(isLedger: boolean): Promise<number> {
    await this.ask("vacuum full");
    const [row] = await this.ask<{ bytes: number }>(
      `select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 as bytes from pg_class where relnamespace = 'troupe'::regnamespace
       and relkind = 'r' and relname ${isLedger ? "~" : "!~"} '${ledgerTables}'`,
    );
    return row!.bytes;
  }

  /** Resolves once the ledger has as many lines. */
  async ledgerHas(lines: number): Promise<void> {
    for (;;) {
      const [row] = await this.ask<{ lines: number }>("select count(*)::float8 as lines from troupe.ledger");
      if (row!.lines >= lines) return;
      await Bun.sleep(100);
    }
  }

  async connections(): Promise<number> {
    const text = `select count(*)::float8 as connections from pg_stat_activity
      where application_name = 'troupe' and datname = current_database()`;
    return (await this.ask<{ connections: number }>(text))[0]!.connections;
  }

  async ledgerLines(): Promise<number> {
    return (await this.ask<{ lines: number }>("select count(*)::float8 as lines from troupe.ledger"))[0]!.lines;
  }
}

async function postgresCost(m: Measuring, node: Node, kind: Kind, key: string | undefined): Promise<PostgresCost> {
  const call = async () => (await node.call(calling[kind](), key)).text();
  let lines = await m.ledgerLines();
  const make = async (count: number, wide: number, each: () => Promise<unknown> = call) => {
    await atOnce(count, wide, each);
    lines += count;
    await m.ledgerHas(lines);
  };
  // Until the code of this kind of call is compiled.
  await make(kind === "plain" ? 10_000 : 2_000, width);
  const before = await statementsBefore(m, node, (each) => make(30, 1, each), call);
  const kept = await m.keptBytes(false);
  await m.ask("checkpoint");
  // The first writes to each page after it, which are whole pages.
  await make(100, width);
  const idle = await idleMicros(m, node);
  await m.ask("select pg_stat_statements_reset()");
  const startedAt = performance.now();
  const [nodeAt, serverAt, logAt] = [node.cpuMicros(), m.processes(), await m.log()];
  await make(calls, width);
  const seconds = (performance.now() - startedAt) / 1000;
  const nodeMicros = (node.cpuMicros() - nodeAt - idle.node * seconds) / calls;
  const serverMicros = (m.microsSince(serverAt) - idle.server * seconds) / calls;
  const walBytes = ((await m.log()) - logAt) / calls;
  const own = (await m.statements()).filter(({ query }) => ofCalls.test(query) && !ofNodes.test(query));
  const count = (rows: readonly Statement[]) => rows.reduce((all, { calls }) => all + calls, 0) / calls;
  return {
    before,
    statements: count(own),
    writes: count(own.filter(({ query }) => writes.test(query))),
    walBytes,
    keptBytes: ((await m.keptBytes(false)) - kept) / (calls + 100),
    nodeMicros,
    serverMicros,
  };
}

/** What was asked by the time the upstream was called; of calls one after the other, each once the one before has left nothing to do. */
async function statementsBefore(
  m: Measuring,
  node: Node,
  make: (each: () => Promise<unknown>) => Promise<void>,
  call: () => Promise<unknown>,
): Promise<number> {
  const before: number[] = [];
  let askedAt = 0;
  m.upstream.onCall = () => before.push(node.proxy!.exchanges - askedAt);
  await make(async () => {
    await Bun.sleep(50);
    askedAt = node.proxy!.exchanges;
    await call();
  });
  m.upstream.onCall = () => {};
  return median(before);
}

/** Per second. */
async function idleMicros(m: Measuring, node: Node, ms = 2_000) {
  const [nodeAt, serverAt] = [node.cpuMicros(), m.processes()];
  await Bun.sleep(ms);
  return { node: ((node.cpuMicros() - nodeAt) * 1000) / ms, server: (m.microsSince(serverAt) * 1000) / ms };
}

/** A key of its own, which a budget holds that is never spent. */
async function budgetedKey(node: Node): Promise<string> {
  const { id, key } = await node.admin<{ id: string; key: string }>("POST", "/keys", { name: "held to a budget" });
  await node.admin("PUT", `/budgets/key:${id}/day`, { dollars: 1_000_000 });
  return key;
}

async function sqliteCosts(upstream: Upstream): Promise<{ [K in Kind]: SqliteCost }> {
  await using node = await Node.start(upstream);
  const key = await budgetedKey(node);
  const file = `${node.folder.path}/troupe.db`;
  const settled = async () => {
    await Bun.sleep(700);
    using database = new Database(file);
    database.run("pragma wal_checkpoint(truncate)");
    const { pages } = database
      .query("select page_count - f.freelist_count as pages from pragma_page_count, pragma_freelist_count f")
      .get() as { pages: number };
    const { size } = database.query("select page_size as size from pragma_page_size").get() as { size: number };
    return pages * size;
  };
  const found = {} as { [K in Kind]: SqliteCost };
  for (const kind of kinds) {
    const call = async () => (await node.call(calling[kind](), kind === "budget" ? key : undefined)).text();
    await atOnce(kind === "plain" ? 10_000 : 2_000, width, call);
    const kept = await settled();
    const [written, nodeAt] = [node.writtenBytes(), node.cpuMicros()];
    await atOnce(calls, width, call);
    await Bun.sleep(700);
    const nodeMicros = (node.cpuMicros() - nodeAt) / calls;
    const writtenBytes = (node.writtenBytes() - written) / calls;
    const keptBytes = ((await settled()) - kept) / calls;
    const syncs = await syncsOf(node.process.pid, call);
    found[kind] = { keptBytes, writtenBytes, nodeMicros, syncs };
  }
  return found;
}

/** How often each call has the disk written through; by strace, which Debian has as a package. */
async function syncsOf(pid: number, call: () => Promise<unknown>): Promise<number> {
  const count = 300;
  const tracer = Bun.spawn(
    ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-p", String(pid)],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const text = new Response(tracer.stderr).text();
  await Bun.sleep(500);
  await atOnce(count, width, call);
  await Bun.sleep(500);
  tracer.kill("SIGINT");
  await tracer.exited;
  const calls = (await text).split("\n").filter((line) => /f(data)?sync\(/.test(line)).length;
  return calls / count;
}

/** Streams of 20 fragments a second, made on one node and read on another. */
async function joinedCost(m: Measuring, maker: Node, reader: Node): Promise<Measured["joined"]> {
  const streams = 10;
  const open = Array.from({ length: streams }, () => ({ kb: 1, stream: true, pauseMs: 50, id: `joined-${ids++}` }));
  const made = open.map(async (one) => (await maker.call(one)).text());
  await Bun.sleep(500);
  const read = open.map(async (one) => (await reader.call(one)).text());
  await Bun.sleep(1_000);
  await m.ask("select pg_stat_statements_reset()");
  const seconds = 5;
  const logAt = await m.log();
  await Bun.sleep(seconds * 1000);
  const walBytes = ((await m.log()) - logAt) / streams / seconds;
  const own = (await m.statements()).filter(({ query }) => ofCalls.test(query) && !ofNodes.test(query));
  const count = (rows: readonly Statement[]) => rows.reduce((all, { calls }) => all + calls, 0) / streams / seconds;
  await Promise.all([...made, ...read]);
  return { statements: count(own), writes: count(own.filter(({ query }) => writes.test(query))), walBytes };
}

/** A hit on a window, in the files of one machine and, but for the way to the store and its own work, at a node of several. */
async function limiterCost(): Promise<Measured["limiters"]> {
  using folder = new TempFolder();
  const tools = { clock: systemClock, log: silentLogger };
  const files = openMachineLimits(folder.path, { ...tools, processes: 1, isSweeper: false }).callers;
  const windows = new ModelWindows(() => performance.now(), 60_000);
  const stored = new StoredLimiter({ ...tools, windows, place: "model", group: () => ({ nodes: 1, rank: 0 }) });
  const timed = async (limiter: Limiter | StoredLimiter) => {
    let [hits, micros] = [0, 0];
    for (let round = 0; round < 4_000; round += 1) {
      const caller = `caller ${round % 50}`;
      const { user, system } = process.cpuUsage();
      for (let at = 0; at < 100; at += 1) {
        const decision = limiter.hit(caller, 1_000_000);
        if (decision instanceof Promise) await decision;
        hits += 1;
      }
      const used = process.cpuUsage({ user, system });
      if (round >= 1_000) micros += used.user + used.system;
      else hits = 0;
    }
    return micros / hits;
  };
  const found = { filesMicros: await timed(files), storedMicros: await timed(stored) };
  await stored.close();
  return found;
}

/** How long after its maker's reader a fragment comes to one that another process serves; the median. */
async function joinDelay(maker: Node, reader: Node): Promise<number> {
  const one = { kb: 1, stream: true, pauseMs: 20, id: `join-${ids++}` };
  const [made, read] = [new Map<string, number>(), new Map<string, number>()];
  const making = timesOf(await maker.call(one), made);
  await timesOf(await reader.call(one, maker.process.key), read);
  await making;
  const delays = [...read].map(([id, at]) => at - made.get(id)!);
  // What was there already when it joined came late without its fault.
  return median(delays.slice(50));
}

/** Notes when each event came, by its id. */
async function timesOf(response: Response, times: Map<string, number>): Promise<void> {
  for await (const part of response.body!) {
    const now = performance.now();
    for (const [, id] of new TextDecoder().decode(part).matchAll(/^id: (\S+)$/gm))
      if (!times.has(id!)) times.set(id!, now);
  }
}

async function idleCost(m: Measuring, node: Node): Promise<Omit<Measured["idle"], "connections">> {
  await m.ask("select pg_stat_statements_reset()");
  const { server } = await idleMicros(m, node, 10_000);
  const statements = (await m.statements()).reduce((sum, { calls }) => sum + calls, 0) / 10;
  return { statements, serverMicros: server, memoryBytes: residentBytes([node.process.pid]) };
}

async function streamCost(upstream: Upstream): Promise<Measured["stream"]> {
  await using node = await Node.start(upstream);
  await atOnce(200, width, async () => (await node.call({ stream: true })).text());
  const paced = 100;
  const cpuAt = node.cpuMicros();
  // 205 fragments in 10 s.
  await Promise.all(Array.from({ length: paced }, async () => (await node.call({ stream: true, pauseMs: 50 })).text()));
  const fragmentMicros = (node.cpuMicros() - cpuAt) / paced / 205;
  const open = 1_000;
  Bun.gc(true);
  const memoryAt = residentBytes([node.process.pid]);
  const held: Socket[] = [];
  await atOnce(open, 50, async () => held.push(await node.openStream()));
  await Bun.sleep(1_000);
  const memoryBytes = (residentBytes([node.process.pid]) - memoryAt) / open;
  for (const socket of held) socket.terminate();
  return { memoryBytes, fragmentMicros };
}

const ledgerBatch = 200;

/** Lines of so many keys, in full batches, as busy nodes write them. */
async function ledgerCost(m: Measuring, keys: number): Promise<Measured["ledgerLine"]> {
  const settings = { url: m.database, pool: 2, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
  const store = await openPostgresStore(settings);
  const random = new Random(1);
  const [batches, at] = [50, Date.now()];
  const write = async () => {
    for (let batch = 0; batch < batches; batch += 1) {
      const line = () =>
        ledgerLine(systemClock.newId(), { at, keyId: `key_${String(random.below(keys)).padStart(32, "0")}` });
      await store.ledger.append(Array.from({ length: ledgerBatch }, line));
    }
  };
  try {
    await write();
    // Whole pages come with the first writes after a checkpoint, which the vacuum leaves none for.
    await m.keptBytes(true);
    await write();
    const kept = await m.keptBytes(true);
    await write();
    const [logAt, serverAt] = [await m.log(), m.processes()];
    await write();
    const lines = batches * ledgerBatch;
    const walBytes = ((await m.log()) - logAt) / lines;
    const serverMicros = m.microsSince(serverAt) / lines;
    return { walBytes, serverMicros, keptBytes: ((await m.keptBytes(true)) - kept) / lines / 2 };
  } finally {
    await store.close();
  }
}

/** Hits on the windows of 50 callers, one after the other: what one costs the server that counts. @param pid of that server */
async function windowCost(windows: StoredWindows, pid: number): Promise<number> {
  const hits = async (count: number) => {
    for (let at = 0; at < count; at += 1) await windows.hit(`caller ${at % 50}`, 1_000, systemClock.newId());
  };
  await hits(1_000);
  const before = cpuSeconds(processTree(pid));
  await hits(10_000);
  const spent = cpuSeconds(processTree(pid)) - before;
  await windows.close();
  return (spent * 1e6) / 10_000;
}

function disposableRedis(redis: RedisServer) {
  const client = new Bun.RedisClient(redis.url());
  return {
    send: (command: string, args: string[]) => client.send(command, args),
    [Symbol.dispose]: () => client.close(),
  };
}

/** How fast the server is with single writes, its log written through to the disk. */
async function serverSpeed(m: Measuring): Promise<Measured["server"]> {
  await m.ask("create table commits (id bigint generated always as identity primary key, text text)");
  const insert = "insert into commits (text) values ('x')";
  const one = await rate(m.database, 1, async (sql) => sql.unsafe(insert));
  const commits = await rate(m.database, 32, async (sql) => sql.unsafe(insert));
  return { commitMs: 1000 / one, commits, reservationsOfOneBudget: await callsOfOneBudget(m.database) };
}

/** Each second, by three nodes with 96 callers. */
async function callsOfOneBudget(url: string): Promise<number> {
  await using opened = new AsyncDisposableStack();
  const limits = { pool: 8, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
  const stores = await Promise.all([1, 2, 3].map(() => openPostgresStore({ url, ...limits })));
  for (const store of stores) opened.defer(() => store.close());
  const budgets = [{ scope: "all", span: "2026-11", limit: 1e15 }];
  const over: LedgerLine[] = [];
  return await perSecond(96, async (caller) => {
    const store = stores[caller % 3]!;
    const made = reservationOf(`speed-${ids++}`, { at: Date.parse("2026-11-22"), amount: 10, budgets });
    await store.budgets.reserve(made);
    over.push({ ...made.line, cost: 5 });
    // As the ledger's writer does it.
    if (over.length >= 200) await store.ledger.append(over.splice(0));
  });
}

/** @returns how often a second */
async function rate(database: string, connections: number, work: (sql: SQL) => Promise<unknown>): Promise<number> {
  await using sql = new SQL(database, { max: connections, prepare: false });
  return await perSecond(connections, () => work(sql));
}

/** @returns how often a second so many do it together */
async function perSecond(workers: number, work: (worker: number) => Promise<unknown>): Promise<number> {
  const seconds = 3;
  const until = performance.now() + seconds * 1000;
  let done = 0;
  const worker = async (_: unknown, at: number) => {
    while (performance.now() < until) {
      await work(at);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return done / seconds;
}

/** A page that is written for the first time after a checkpoint is logged whole; the plan reckons that apart. */
const durable = { fsync: "on", checkpoint_timeout: "1d", max_wal_size: "8GB", autovacuum: "off" };

/** To three digits, as more of them say nothing. */
const rounded = (value: unknown): unknown =>
  typeof value === "number"
    ? Number(value.toPrecision(3))
    : typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, rounded(inner)]))
      : value;

/** The parts of it, each with servers of its own. */
const parts: Record<string, (upstream: Upstream) => Promise<Partial<Measured>>> = {
  async postgres(upstream) {
    await using server = await PostgresServer.start({ ...durable, shared_preload_libraries: "pg_stat_statements" });
    const database = await server.createDatabase();
    await server.ask(database, "create extension pg_stat_statements");
    const m = new Measuring(server, upstream, database);
    const postgres = {} as { [K in Kind]: PostgresCost };
    let lineWal = 0;
    let connections = 0;
    await using node = await Node.start(upstream, server, database);
    const key = await budgetedKey(node);
    for (const kind of kinds) {
      console.error(`  ${kind}`);
      const cost = await postgresCost(m, node, kind, kind === "budget" ? key : undefined);
      // The first kind is plain: all that it writes is its line.
      if (kind === "plain") lineWal = cost.walBytes;
      const walBytes = Math.max(0, cost.walBytes - lineWal);
      postgres[kind] = { ...cost, walBytes, keptBytes: Math.max(0, cost.keptBytes) };
      connections = Math.max(connections, await m.connections());
    }
    const idle = { ...(await idleCost(m, node)), connections };
    return { postgres, idle };
  },
  async server(upstream) {
    await using server = await PostgresServer.start(durable);
    const database = await server.createDatabase();
    await using _ = await Node.start(upstream, server, database);
    return { server: await serverSpeed(new Measuring(server, upstream, database)) };
  },
  async windows() {
    await using server = await PostgresServer.start(durable);
    await using redis = await RedisServer.start();
    const postgresMicros = await windowCost(await openTestWindows(await server.createDatabase()), server.pid);
    const redisMicros = await windowCost(await openTestWindows(redis.url()), redis.pid);
    using client = disposableRedis(redis);
    // A part with one request each, as of a caller with few; those of one with many have many.
    const key = "troupe:{limits}:parts:caller 0";
    const bytes = Number(await client.send("MEMORY", ["USAGE", key, "SAMPLES", "0"]));
    const redisBytesPerHit = bytes / Number(await client.send("LLEN", [key]));
    return { windows: { postgresMicros, redisMicros, redisBytesPerHit } };
  },
  async ledger(upstream) {
    await using server = await PostgresServer.start(durable);
    const houses = await Promise.all(
      [0, 1].map(async () => new Measuring(server, upstream, await server.createDatabase())),
    );
    const [one, many] = [await ledgerCost(houses[0]!, 1), await ledgerCost(houses[1]!, 5_000)];
    const [sums] = await houses[1]!.ask<{ bytes: number }>(
      `select (select sum(pg_total_relation_size(relid))::float8 from unnest(array['troupe.ledger_hours', 'troupe.ledger_days']) name,
         pg_partition_tree(name::regclass) where isleaf)
       / (select count(*) from troupe.ledger_hours where rollup = ${finest.id}) as bytes`,
    );
    // 200 lines of one key share the sums of its hour; here nearly each line has others.
    const shared = 1 - 1 / ledgerBatch;
    return {
      ledgerLine: one,
      ledgerHour: {
        walBytes: (many.walBytes - one.walBytes) / shared,
        serverMicros: (many.serverMicros - one.serverMicros) / shared,
        keptBytes: sums!.bytes,
      },
    };
  },
  sqlite: async (upstream) => ({ sqlite: await sqliteCosts(upstream) }),
  limiters: async () => ({ limiters: await limiterCost() }),
  async joins(upstream) {
    await using server = await PostgresServer.start({ ...durable, shared_preload_libraries: "pg_stat_statements" });
    const database = await server.createDatabase();
    await server.ask(database, "create extension pg_stat_statements");
    await using maker = await Node.start(upstream, server, database);
    await using reader = await Node.start(upstream, server, database, maker.process.key);
    const postgresMs = await joinDelay(maker, reader);
    const joined = await joinedCost(new Measuring(server, upstream, database), maker, reader);
    await using own = await Node.start(upstream);
    await using beside = await Node.start(upstream, undefined, undefined, own.process.key, {}, own.folder);
    return { joined, joins: { postgresMs, sqliteMs: await joinDelay(own, beside) } };
  },
  stream: async (upstream) => ({ stream: await streamCost(upstream) }),
  async machine() {
    await using server = await PostgresServer.start();
    await using redis = await RedisServer.start();
    using client = disposableRedis(redis);
    const [version] = await server.ask<{ v: string }>("postgres", "select current_setting('server_version') as v");
    const { cpu, load } = describeMachine();
    return {
      at: new Date().toISOString().slice(0, 10),
      machine: { processor: cpu, load },
      versions: {
        bun: Bun.version,
        postgres: version!.v.split(" ")[0]!,
        redis: /(?:valkey|redis)_version:(\S+)/.exec(String(await client.send("INFO", ["server"])))![1]!,
        sqlite: (new Database(":memory:").query("select sqlite_version() as v").get() as { v: string }).v,
      },
    };
  },
};

const asked = process.argv.slice(2);
for (const name of asked.length > 0 ? asked : Object.keys(parts)) {
  if (parts[name] === undefined) throw new Error(`there is no part ${name}: ${Object.keys(parts).join(", ")}`);
  console.error(name);
  using upstream = new Upstream();
  const found = rounded(await parts[name](upstream)) as Partial<Measured>;
  console.log(JSON.stringify(found, null, 2));
  writeFileSync(measuredPath, `${JSON.stringify({ ...readMeasured(), ...found }, null, 2)}\n`);
}
process.exit(0);
