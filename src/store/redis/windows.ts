/**
 * Windows of requests in Valkey or Redis: one script for each hit. A window is a sorted set of the ids of its requests by their time, of
 * some 25 bytes each, and 90 where it holds more than 128 (`zset-max-listpack-entries`).
 */
import type { Clock } from "../../lib/time/clock.ts";
import type { CoordinationState } from "../metrics.ts";
import { goodForMs, type StoredWindows, type WindowHit, type WindowState } from "../windows.ts";
import { RedisConnection } from "./connection.ts";
import { scriptsOn } from "./scripts.ts";

/** A request waits no longer for it; then the node admits its share. */
const deadlineMs = 200;
/** All keys are of one slot. */
const prefix = "troupe:{limits}:";

/**
 * Keys: the window, the life. Arguments: a life if there is none, the window's length, the limit or -1 to count whatever there is, then
 * requests with their ages.
 */
const hitScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, window, limit = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local life = redis.call('GET', KEYS[2])
if not life then
  life = ARGV[1]
  redis.call('SET', KEYS[2], life)
end
redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
-- Of before the server's clock was set back.
redis.call('ZREMRANGEBYSCORE', key, '(' .. (now + window), '+inf')
local used = redis.call('ZCARD', key)
local allowed = limit < 0 or used < limit or (redis.call('ZSCORE', key, ARGV[4]) and true)
if allowed and #ARGV > 3 then
  for at = 4, #ARGV, 2 do
    local age = tonumber(ARGV[at + 1])
    -- At the end of its millisecond, so that none is forgotten too early.
    if age < window then used = used + redis.call('ZADD', key, 'NX', now + 1 - age, ARGV[at]) end
  end
  redis.call('PEXPIRE', key, window + 1000)
end
local grows = 0
if used > 0 then
  -- After a limit was lowered there may be more requests than it allows: those must go first.
  local oldest = allowed and 0 or used - limit
  grows = math.max(1, redis.call('ZRANGE', key, oldest, oldest, 'WITHSCORES')[2] + window - now)
end
return {allowed and 1 or 0, used, grows, life}
`;

type Reply = [allowed: 0 | 1, used: number, growsMs: number, life: string];

export type RedisWindows = StoredWindows & {
  /** The server's address without user and password. */
  readonly place: string;
  readonly connection: () => CoordinationState;
};

/** Connects when it is first used. */
export function openRedisWindows(url: string, clock: Clock, windowMs = 60_000): RedisWindows {
  const connection = new RedisConnection(url, deadlineMs, clock, { identifies: true });
  const run = scriptsOn(connection, [hitScript]);
  const ask = async (caller: string, limit: number, hits: readonly WindowHit[]): Promise<WindowState> => {
    // A server that was restarted with an old copy of its data has lost what was counted since, like one that kept nothing.
    let server = "";
    const keys = (identity: string) => {
      server = identity;
      return [`${prefix}window:${caller}`, `${prefix}life`];
    };
    const reply = (await run(hitScript, keys, [clock.newId(), windowMs + goodForMs, limit, ...hits.flat()])) as Reply;
    const [allowed, used, growsMs, life] = reply;
    return { allowed: allowed === 1, used, growsMs, life: `${life}@${server}` };
  };
  return {
    place: connection.place,
    connection: () => connection.state("windows"),
    hit: (caller, limit, id) => ask(caller, limit, [[shortened(id), 0]]),
    add: (caller, hits) =>
      ask(
        caller,
        -1,
        hits.map(([id, ageMs]) => [shortened(id), ageMs]),
      ),
    // A request that counts no more goes with its key.
    tidy: async () => {},
    close: () => connection.close(),
  };
}

/** Shortens an id of 32 hexadecimal characters to the random ones, in few bytes: unique among the requests of a minute. */
const shortened = (id: string) => Buffer.from(id.slice(-18), "hex").toString("base64url");
