/** Shared windows in Valkey or Redis. */
import type { Clock } from "../../lib/clock.ts";
import { type Beat, type SharedWindows, type WindowTimes, windowTimes } from "../shared-windows.ts";
import { RedisConnection } from "./connection.ts";
import { scriptsOn } from "./scripts.ts";
import { beatScript, exchangeScript, prefix } from "./window-scripts.ts";

/** A request waits no longer for it; then the node admits its share. */
const deadlineMs = 200;
/** How long a lapsed node is remembered. */
const forgetMs = 600_000;
/** A caller's window is kept for longer than a node keeps slots of one that is idle. */
const keptMs = 1_800_000;

type BeatReply = [leaseMs: number, epoch: string, wanted: string[], ...group: [] | [nodes: number, rank: number]];
type StateReply = [held: number, used: number, others: number, growsMs: number];

export type RedisWindows = SharedWindows & {
  /** The server's address without user and password. */
  readonly place: string;
};

/** Connects when it is first used. */
export function openRedisWindows(url: string, clock: Clock, times: WindowTimes = windowTimes): RedisWindows {
  const connection = new RedisConnection(url, deadlineMs, clock, { identifies: "where it may" });
  const run = scriptsOn(connection, [beatScript, exchangeScript]);
  const { windowMs, leaseMs } = times;
  const nodes = `${prefix}nodes`;
  return {
    place: connection.place,
    async beat(node, isNew, counts): Promise<Beat | undefined> {
      // One that was restarted with an old copy of its data is told anew what was admitted, like one that kept nothing.
      let server = "";
      const keys = (identity: string) => {
        server = identity;
        return [nodes, `${prefix}epoch`, `${prefix}wanted:${node}`];
      };
      const args = [node, leaseMs, isNew ? 1 : 0, clock.newId(), windowMs, forgetMs, counts ? 1 : 0];
      const reply = (await run(beatScript, keys, args)) as BeatReply | null;
      if (reply === null) return undefined;
      const [left, kept, wanted, ...[count, rank]] = reply;
      const epoch = server === "" ? kept : `${kept}@${server}`;
      return { leaseMs: left, epoch, wanted, ...(count !== undefined && { group: { nodes: count, rank: rank! } }) };
    },
    async exchange(node, asks) {
      const keys = [nodes, ...asks.map(({ caller }) => `${prefix}window:${caller}`)];
      const reply = (await run(exchangeScript, keys, [node, windowMs, JSON.stringify(asks), keptMs])) as
        | StateReply[]
        | null;
      return reply?.map(([held, used, others, growsMs], at) => ({
        caller: asks[at]!.caller,
        held,
        used,
        others,
        growsMs: growsMs < 0 ? null : growsMs,
      }));
    },
    async leave(node) {
      await connection.run("ZREM", [nodes, node]);
      await connection.run("DEL", [`${prefix}wanted:${node}`]);
    },
    // What counts no more goes with its key.
    tidy: async () => {},
    close: () => connection.close(),
  };
}
