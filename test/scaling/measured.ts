/** What one call costs, as `bun test/scaling/measure.ts` found it: the numbers that `plan.ts` reckons with. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const measuredPath = join(import.meta.dir, "measured.json");

/** What one kind of call costs where the store is PostgreSQL, the ledger's line of every call left out but for `plain`. */
export type PostgresCost = {
  /** Statements until the upstream was called, and all that belong to the call. */
  readonly before: number;
  readonly statements: number;
  /** Of them those that write, each a transaction. */
  readonly writes: number;
  readonly walBytes: number;
  /** What stays: tables, indexes and what is kept outside of rows. */
  readonly keptBytes: number;
  /** Processor of the node and of the server, all its processes. */
  readonly nodeMicros: number;
  readonly serverMicros: number;
};

export type SqliteCost = {
  readonly keptBytes: number;
  /** Given to the disk, the log included. */
  readonly writtenBytes: number;
  /** How often the disk is written through. */
  readonly syncs: number;
  readonly nodeMicros: number;
};

/** Kinds of calls. The sizes are of the answer's text. */
export const kinds = [
  "plain",
  "id1Kb",
  "id10Kb",
  "idStream1Kb",
  "idStream10Kb",
  "budget",
  "store1Kb",
  "store10Kb",
] as const;
export type Kind = (typeof kinds)[number];

export type Measured = {
  readonly at: string;
  readonly machine: { readonly processor: string; readonly load: string };
  readonly versions: {
    readonly bun: string;
    readonly postgres: string;
    readonly redis: string;
    readonly sqlite: string;
  };
  readonly postgres: { readonly [K in Kind]: PostgresCost };
  readonly sqlite: { readonly [K in Kind]: SqliteCost };
  /**
   * A line of the ledger, in full batches of one key's; and what it costs more where it is the only one of its
   * key in its batch; `keptBytes` there once an hour. */
  readonly ledgerLine: { readonly walBytes: number; readonly keptBytes: number; readonly serverMicros: number };
  readonly ledgerHour: { readonly walBytes: number; readonly serverMicros: number; readonly keptBytes: number };
  /** A stream that is read on another node, for each second: through the database, and through Valkey or Redis. */
  readonly joined: { readonly statements: number; readonly writes: number; readonly walBytes: number };
  /** One node without any call. */
  readonly idle: {
    readonly statements: number;
    readonly connections: number;
    readonly serverMicros: number;
    readonly memoryBytes: number;
  };
  readonly stream: { readonly memoryBytes: number; readonly fragmentMicros: number };
  /** One hit on the window of a caller. */
  readonly windows: {
    readonly postgresMicros: number;
    readonly redisMicros: number;
    /** Of a window of some hundred hits. */
    readonly redisBytesPerHit: number;
  };
  /** What a process does for a hit on a window: in files of the machine; and in a store, but for the way there. */
  readonly limiters: { readonly filesMicros: number; readonly storedMicros: number };
  /** How much later a fragment comes to a reader of another process. */
  readonly joins: { readonly postgresMs: number; readonly sqliteMs: number };
  readonly server: {
    /** A commit that nobody shares, with `fsync`. */
    readonly commitMs: number;
    /** One-row transactions of 32 connections, each second. */
    readonly commits: number;
    /** Reservations of calls that count in one and the same budget, each second. */
    readonly reservationsOfOneBudget: number;
  };
};

export const readMeasured = (): Measured => JSON.parse(readFileSync(measuredPath, "utf8"));
