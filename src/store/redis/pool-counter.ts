/** The counter of pools of money, and windows of tokens, in Valkey or Redis. */
import type { Clock } from "../../lib/clock.ts";
import {
  type CallReply,
  type DueAccount,
  type PoolCounter,
  type PoolReply,
  type PoolTimes,
  poolTimes,
} from "../budget-pools.ts";
import { RedisConnection } from "./connection.ts";
import { counterScript, prefix } from "./pool-scripts.ts";
import { scriptsOn } from "./scripts.ts";

/** A call waits no longer for it; then it goes by the database. */
const deadlineMs = 200;

type Due = [returned: string, held: string, isEnded: number, sums: string[]];
type Pool = [
  isOpen: number,
  granted: string,
  step: string,
  filledMs: number,
  fill: number,
  isRecorded: number,
  due: Due | [],
];
type Call = [kind: number, pool: number, used: number, emptyMs: number, waitMs: number, at: number];
type Answer = [now: number, epoch: string, epochMs: number, pools: (Pool | [])[], calls: Call[]];

/**
 * Connects when it is first used. All it keeps is named by the server's identity: after a restart or a fail-over nothing is found of what an
 * old copy of its data may hold, as money that was spent since would be there once more.
 */
export function openRedisCounter(url: string, clock: Clock, times: PoolTimes = poolTimes): PoolCounter {
  const { lapseMs, goodMs, idleMs } = times;
  const connection = new RedisConnection(url, deadlineMs, clock, { identifies: true });
  const run = scriptsOn(connection, [counterScript]);
  return {
    place: connection.place,
    async exchange(exchange) {
      const { node, pools, windows } = exchange;
      const keys = (server: string) => {
        const own = `${prefix}${server}:`;
        return [
          `${own}node:${node}`,
          `${own}epoch`,
          ...pools.map(({ pool }) => `${own}pool:${pool}`),
          ...windows.map(({ key }) => `${own}tokens:${key}`),
        ];
      };
      const args = [JSON.stringify(exchange), clock.newId(), lapseMs, goodMs, idleMs];
      const answer = (await run(counterScript, keys, args)) as Answer | string;
      if (typeof answer === "string") return "lapsed";
      const [now, epoch, epochMs, found, calls] = answer;
      return { now, epoch, epochMs, pools: found.map(poolOf), calls: calls.map(callOf) };
    },
    close: () => connection.close(),
  };
}

function poolOf(pool: Pool | []): PoolReply | undefined {
  if (pool.length === 0) return undefined;
  const [isOpen, granted, step, filledMs, fill, isRecorded, due] = pool;
  return {
    isOpen: isOpen === 1,
    granted: Number(granted),
    step: Number(step),
    filledMs,
    fill: fill === 1,
    isRecorded: isRecorded === 1,
    ...(due.length > 0 && { due: dueOf(due as Due) }),
  };
}

function dueOf([returned, held, isEnded, list]: Due): DueAccount {
  const sums: Record<string, number> = {};
  for (let at = 0; at < list.length; at += 2) sums[list[at]!] = Number(list[at + 1]);
  return { sums, returned: Number(returned), held: Number(held), isEnded: isEnded === 1 };
}

function callOf([kind, pool, used, emptyMs, waitMs, at]: Call): CallReply {
  if (kind === 1) return { kind: "short", pool };
  if (kind === 2) return { kind: "gone", pool };
  const window = { used, emptyMs, waitMs: waitMs < 0 ? Number.POSITIVE_INFINITY : waitMs };
  if (kind === 3) return { kind: "tokens", window };
  return at === undefined ? { kind: "reserved" } : { kind: "reserved", window: { ...window, at } };
}
