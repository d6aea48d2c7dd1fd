/** The metrics of what is remembered: the store, and the servers that it lies on. */
import { Buckets, type SampledTable, type Series } from "../lib/process/metrics.ts";

/** Use of a server by one pool of connections, or by one connection that takes many commands. */
export type ServerUse = {
  /** Purpose of the connections. */
  readonly name: string;
  /** Open connections at most, and how many of them are in use. */
  readonly connections: number;
  readonly busy: number;
  /** Questions that wait: for a connection of a pool, or for the answer of a connection. */
  readonly waiting: number;
  /** Time that questions took to their end, in seconds, the wait included. */
  readonly seconds: Buckets;
};

/** The lease of a process. */
export type LeaseState = {
  /** Since the start. */
  readonly lost: number;
  readonly failed: number;
  /** Since it was last renewed; 0 where none is held. */
  readonly ageSeconds: number;
};

/** State of a database server, as last seen. Totals are since the start. */
export type DatabaseState = {
  readonly pools: readonly ServerUse[];
  /** Statements and transactions; those of them that failed, and those that were waited for no longer. */
  readonly statements: number;
  readonly failed: number;
  readonly late: number;
  /** Pools of connections that were thrown away, as one of them had gone silent. */
  readonly replaced: number;
  /** True if it answered when it was last asked. */
  readonly isReachable: boolean;
  readonly lease: LeaseState;
};

/** State of a Valkey or Redis server, as last seen by one connection. */
export type CoordinationState = ServerUse & { readonly isConnected: boolean; readonly failed: number };

const bounds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counts how long questions to a server take, in seconds. */
export const serverSeconds = () => new Buckets(bounds);

const each = <State extends ServerUse>(states: readonly State[], value: (state: State) => number): Series[] =>
  states.map((state) => ({ labels: [state.name], value: value(state) }));

const secondsOf = (states: readonly ServerUse[]): Series[] =>
  states.map(({ name, seconds }) => ({ labels: [name], value: seconds.value, counts: [...seconds.counts] }));

const ofPools = (value: (pool: ServerUse) => number) =>
  ({ labels: ["pool"], series: (of: () => DatabaseState) => each(of().pools, value) }) as const;

export const databaseMetrics: SampledTable<() => DatabaseState> = {
  troupe_database_statements_total: {
    help: "Statements and transactions sent to PostgreSQL.",
    read: (of) => of().statements,
  },
  troupe_database_failures_total: { help: "Those that failed.", read: (of) => of().failed },
  troupe_database_late_total: { help: "Those that did not end in time.", read: (of) => of().late },
  troupe_database_statement_seconds: {
    help: "How long they took, the wait for a connection included.",
    labels: ["pool"],
    bounds,
    series: (of) => secondsOf(of().pools),
  },
  troupe_database_connections: {
    help: "Connections that a pool has at most.",
    ...ofPools(({ connections }) => connections),
  },
  troupe_database_connections_busy: { help: "Those of them that are in use.", ...ofPools(({ busy }) => busy) },
  troupe_database_waiting: { help: "Statements that wait for a connection.", ...ofPools(({ waiting }) => waiting) },
  troupe_database_pools_replaced_total: {
    help: "Pools of connections thrown away, as one of them had gone silent.",
    read: (of) => of().replaced,
  },
  troupe_database_reachable: {
    help: "Whether PostgreSQL answered when it was last asked: 1, or 0.",
    aggregate: "min",
    read: (of) => Number(of().isReachable),
  },
  troupe_lease_losses_total: {
    help: "Leases that lapsed or were taken, with the calls that were held by them.",
    read: (of) => of().lease.lost,
  },
  troupe_lease_renewal_failures_total: {
    help: "Renewals of the lease that failed.",
    read: (of) => of().lease.failed,
  },
  troupe_lease_age_seconds: {
    help: "Since the lease was last renewed; 0 where none is held.",
    aggregate: "max",
    read: (of) => of().lease.ageSeconds,
  },
};

const ofConnections = (value: (connection: CoordinationState) => number) =>
  ({ labels: ["use"], series: (of: () => readonly CoordinationState[]) => each(of(), value) }) as const;

export const coordinationMetrics: SampledTable<() => readonly CoordinationState[]> = {
  troupe_coordination_connected: {
    help: "Whether the connection to Valkey or Redis is open: 1, or 0.",
    aggregate: "min",
    ...ofConnections(({ isConnected }) => Number(isConnected)),
  },
  troupe_coordination_waiting: {
    help: "Commands that wait for an answer of Valkey or Redis.",
    ...ofConnections(({ waiting }) => waiting),
  },
  troupe_coordination_failures_total: {
    help: "Commands that failed.",
    ...ofConnections(({ failed }) => failed),
  },
  troupe_coordination_command_seconds: {
    help: "How long commands took.",
    labels: ["use"],
    bounds,
    series: (of) => secondsOf(of()),
  },
};

export const storeMetrics: SampledTable<() => number> = {
  troupe_store_bytes: { help: "Size of the database.", aggregate: "max", read: (size) => size() },
};
