/** Streams of calls under way as Lua scripts. What they do is described in `src/store/live-streams.ts`. */
import { endPart, liveTimes } from "../live-streams.ts";

/** All keys are of one slot. Names hold nothing that a caller sends. */
const prefix = "troupe:{live}:";
export const runKey = (stream: string) => `${prefix}run:${stream}`;
export const inboxKey = (node: string) => `${prefix}inbox:${node}`;
export const ownerKey = (owner: string) => `${prefix}at:${owner}`;

/** Messages of an inbox: far more than a node leaves unread while it is well. */
const maxInbox = 10_000;

/** A server without memory refuses the whole script, and not only what is asked of it first. */
const shebang = "#!lua\n";

const notify = (inbox: string, ...message: string[]) => `
redis.call('XADD', ${inbox}, 'MAXLEN', '~', ${maxInbox}, '*', ${message.join(", ")})
redis.call('PEXPIRE', ${inbox}, ${liveTimes.listensMs})
`;

/** Keys: the inbox, the owner's name if there is one. Arguments: the node. */
export const listenScript = `${shebang}${notify("KEYS[1]", "'heartbeat'", "'1'")}
if KEYS[2] then redis.call('SET', KEYS[2], ARGV[1], 'PX', ${liveTimes.listensMs}) end
return 1
`;

/** Keys: the stream, the owner's name, the inbox of who asks. Arguments: the stream's name, whether to wake who asks. */
export const askScript = `${shebang}
if ARGV[2] == '1' then ${notify("KEYS[3]", "'wake'", "'1'")} end
local node = redis.call('GET', KEYS[2])
if not node then return false end
local inbox = '${prefix}inbox:' .. node
${notify("inbox", "'ask'", "ARGV[1]")}
redis.call('PEXPIRE', KEYS[1], ${liveTimes.keptMs})
return redis.call('XRANGE', KEYS[1], '0-1', '0-${endPart - 1}', 'COUNT', 1)
`;

/** Half of the server's memory is left to what else is kept there. A user who may not ask how much there is has all of it. */
const hasRoom = `
local info = redis.pcall('INFO', 'memory')
if type(info) == 'string' then
  local max = tonumber(string.match(info, 'maxmemory:(%d+)') or '0')
  if max > 0 and tonumber(string.match(info, 'used_memory:(%d+)')) > max / 2 then
    return redis.error_reply('FULL half of the memory is used')
  end
end
`;

/** Keys: the stream. Arguments: generation, whether there are headers, headers. */
export const beginScript = `${shebang}
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
if first and tonumber(string.match(first[1], '^0%-(%d+)$') or '0') >= tonumber(ARGV[1]) then return 0 end
${hasRoom}
redis.call('DEL', KEYS[1])
if ARGV[2] == '1' then redis.call('XADD', KEYS[1], '0-' .. ARGV[1], 'head', ARGV[3])
else redis.call('XADD', KEYS[1], '0-' .. ARGV[1], 'unopened', '') end
redis.call('PEXPIRE', KEYS[1], ${liveTimes.keptMs})
return 1
`;

const last = `
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not last then return false end
local events, part = string.match(last[1], '^(%d+)%-(%d+)$')
events, part = tonumber(events), tonumber(part)
`;

/** Keys: the stream. Arguments: the first event's number, how many, text, floor. */
export const appendScript = `${shebang}${last}
local first, count, floor = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
if part >= ${endPart} then return first + count end
redis.call('PEXPIRE', KEYS[1], ${liveTimes.keptMs})
local expected = math.max(events, floor)
-- Readers wait for what comes after the last entry: what only the store has is reported by a place alone.
if count == 0 and floor > events then redis.call('XADD', KEYS[1], string.format('%.0f-0', floor), 'unopened', '') end
if count == 0 or first ~= expected then return expected end
redis.call('XADD', KEYS[1], string.format('%.0f-0', first + count), 'first', ARGV[1], 'text', ARGV[3])
return first + count
`;

/** Keys: the stream. Arguments: how many events the stored answer has; -1: the store has how it ended. */
export const endScript = `${shebang}${last}
if part >= ${endPart} then return 0 end
local total = tonumber(ARGV[1])
local kind = 'finished'
if total < events then
  kind = 'look'
  total = events
end
redis.call('XADD', KEYS[1], string.format('%.0f-${endPart}', total), kind, '')
redis.call('PEXPIRE', KEYS[1], ${liveTimes.endedMs})
return 1
`;
