/**
 * Windows of requests in Valkey or Redis: one script for each hit. A window is a list of its parts, each with the requests that came in it, and
 * one of the latest ids: some 20 bytes for each part with requests, 12 KB at most.
 */
import type { Clock } from "../../lib/time/clock.ts";
import {
  goodForMs,
  recentIds,
  type StoredWindows,
  type WindowHit,
  type WindowState,
  windowParts,
} from "../contract/windows.ts";
import type { CoordinationState } from "../metrics.ts";
import { RedisConnection } from "./connection.ts";
import { scriptsOn } from "./scripts.ts";

/** A request waits no longer for it; then the node admits its share. */
const deadlineMs = 200;
/** All keys are of one slot. */
const prefix = "troupe:{limits}:";

/**
 * Keys: the window's parts, its latest ids, the life. Arguments: a life if there is none, the window's length, the length of a part, the
 * limit or -1 to count whatever there is, then requests: id, age, how many.
 *
 * A part is "<number> <requests before it> <requests>", by its end in parts since 1970: so what is used is known by the first and the last one.
 *
 * It says by its first line that it writes: a replica, and a server without memory, refuse it whole, also where it happens to read alone.
 */
const hitScript = `#!lua
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local parts, recent = KEYS[1], KEYS[2]
local window, length, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local life = redis.call('GET', KEYS[3])
if not life then
  life = ARGV[1]
  redis.call('SET', KEYS[3], life)
end

local function read(entry)
  local number, before, hits = string.match(entry or '', '(%d+) (%d+) (%d+)')
  return tonumber(number), tonumber(before), tonumber(hits)
end
local function at(index) return read(redis.call('LINDEX', parts, index)) end
local function write(number, before, hits) return string.format('%.0f %.0f %.0f', number, before, hits) end

local first, start, own = at(0)
-- What is ahead is of before the server's clock was set back.
while first and (first * length <= now - window or (first - 1) * length > now + window) do
  redis.call('LPOP', parts)
  first, start, own = at(0)
end
local last, before, hits = at(-1)
local used = first and before + hits - start or 0

-- Puts requests into parts that came before the last one.
local function merge(fresh)
  for _, entry in ipairs(redis.call('LRANGE', parts, 0, -1)) do
    local number, _, hits = read(entry)
    fresh[number] = (fresh[number] or 0) + hits
  end
  local numbers, count = {}, 0
  for number in pairs(fresh) do table.insert(numbers, number) end
  table.sort(numbers)
  redis.call('DEL', parts)
  for _, number in ipairs(numbers) do
    redis.call('RPUSH', parts, write(number, count, fresh[number]))
    count = count + fresh[number]
  end
  first, start, own = at(0)
end

local allowed = limit < 0 or used < limit or (redis.call('LPOS', recent, ARGV[5]) and true)
local fresh, isOld, counted = {}, false, 0
for place = 5, allowed and #ARGV or 0, 3 do
  local id, age, hits = ARGV[place], tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
  if age < window and not redis.call('LPOS', recent, id) then
    -- Until the end of its part, so that none is forgotten too early.
    local number = math.floor((now - age) / length) + 1
    fresh[number] = (fresh[number] or 0) + hits
    isOld = isOld or number ~= math.floor(now / length) + 1 or (last and last > number)
    counted = counted + hits
    redis.call('LPUSH', recent, id)
  end
end
if counted > 0 then
  used = used + counted
  if isOld then
    merge(fresh)
  else
    local number = math.floor(now / length) + 1
    if last == number then
      redis.call('LSET', parts, -1, write(number, before, hits + counted))
    else
      redis.call('RPUSH', parts, write(number, last and before + hits or 0, counted))
    end
    if not first or first == number then first, start, own = at(0) end
  end
  redis.call('LTRIM', recent, 0, ${recentIds - 1})
  redis.call('PEXPIRE', parts, window + length + 1000)
  redis.call('PEXPIRE', recent, window + length + 1000)
end
local grows = 0
if first then
  -- After a limit was lowered there may be more requests than it allows: those must go first.
  local leaving, number, index = allowed and 1 or used - limit + 1, first, 0
  local ahead, count = start, own
  while ahead + count - start < leaving do
    index = index + 1
    number, ahead, count = at(index)
  end
  grows = math.max(1, number * length + window - now)
end
return {allowed and 1 or 0, used, grows, life}
`;

type Reply = [allowed: 0 | 1, used: number, growsMs: number, life: string];

type RedisWindows = StoredWindows & {
  /** The server's address without user and password. */
  readonly place: string;
  readonly connection: () => CoordinationState;
};

/** Connects when it is first used. */
export function openRedisWindows(url: string, clock: Clock, windowMs = 60_000): RedisWindows {
  const connection = new RedisConnection(url, deadlineMs, clock, { identifies: true });
  const run = scriptsOn(connection, [hitScript]);
  const partMs = Math.max(1, Math.floor(windowMs / windowParts));
  const ask = async (caller: string, limit: number, hits: readonly WindowHit[]): Promise<WindowState> => {
    // A server that was restarted with an old copy of its data has lost what was counted since, like one that kept nothing.
    let server = "";
    const keys = (identity: string) => {
      server = identity;
      return [`${prefix}parts:${caller}`, `${prefix}ids:${caller}`, `${prefix}life`];
    };
    const requests = hits.flatMap(([id, ageMs, count = 1]) => [shortened(id), ageMs, count]);
    const args = [clock.newId(), windowMs + goodForMs, partMs, limit, ...requests];
    const reply = (await run(hitScript, keys, args)) as Reply;
    const [allowed, used, growsMs, life] = reply;
    return { allowed: allowed === 1, used, growsMs, life: `${life}@${server}` };
  };
  return {
    place: connection.place,
    connection: () => connection.state("windows"),
    hit: (caller, limit, id) => ask(caller, limit, [[id, 0]]),
    add: (caller, hits) => ask(caller, -1, hits),
    // A request that counts no more goes with its key.
    tidy: async () => {},
    close: () => connection.close(),
  };
}

/** Shortens an id of 32 hexadecimal characters to the random ones, in few bytes: unique among a caller's latest requests. */
const shortened = (id: string) => Buffer.from(id.slice(-18), "hex").toString("base64url");
