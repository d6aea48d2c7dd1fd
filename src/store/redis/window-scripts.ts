/** Shared windows as Lua scripts, each decided at once on the server's clock. What they do is told in `src/store/shared-windows.ts`. */
import { maxWanted, windowParts } from "../shared-windows.ts";

/** All keys are of one slot. */
export const prefix = "troupe:{limits}:";

const now = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** Keys: nodes, epoch, what others want of this node. Arguments: node, lease, whether it is new, an epoch if there is none, window, forget, whether to count. */
export const beatScript = `${now}
local node, lease = ARGV[1], tonumber(ARGV[2])
if ARGV[3] == '1' then redis.call('ZADD', KEYS[1], 'GT', now + lease, node) end
local lapses = tonumber(redis.call('ZSCORE', KEYS[1], node) or '0')
if lapses <= now then return false end
if lapses - now < lease * 3 / 4 then
  lapses = now + lease
  redis.call('ZADD', KEYS[1], lapses, node)
end
redis.call('SET', KEYS[2], ARGV[4], 'NX')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[5] - ARGV[6])
local reply = {lapses - now, redis.call('GET', KEYS[2]), redis.call('SPOP', KEYS[3], ${maxWanted})}
if ARGV[7] == '0' then return reply end
local live = redis.call('ZRANGE', KEYS[1], '(' .. string.format('%.0f', now), '+inf', 'BYSCORE')
local rank = 0
for _, one in ipairs(live) do if one < node then rank = rank + 1 end end
reply[4], reply[5] = #live, rank
return reply
`;

/**
 * Keys: nodes, then a hash for each caller, whose fields are times with their hits, and nodes with what they hold, the number of
 * their exchange and of their report. Arguments: node, window, the asks as JSON, how long a caller is kept.
 */
export const exchangeScript = `${now}
local node, window, asks = ARGV[1], tonumber(ARGV[2]), cjson.decode(ARGV[3])
if tonumber(redis.call('ZSCORE', KEYS[1], node) or '0') <= now then return false end
local live = redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf')
local part = math.max(1, math.floor(window / ${windowParts}))
local answers = {}
for i, ask in ipairs(asks) do
  local key = KEYS[i + 1]
  local used, others, oldest, own, number, report = 0, 0, nil, 0, -1, -1
  local holders = {}
  local all = redis.call('HGETALL', key)
  for at = 1, #all, 2 do
    local field, value = all[at], all[at + 1]
    if string.sub(field, 1, 1) == 'n' then
      local name = string.sub(field, 2)
      local held, numbered, reported = string.match(value, '^(%d+):(%d+):(%d+)$')
      held = tonumber(held)
      if name == node then
        own, number, report = held, tonumber(numbered), tonumber(reported)
      else
        local lapses = tonumber(redis.call('ZSCORE', KEYS[1], name) or '0')
        if lapses > now then
          if held > 0 then others = others + held; holders[#holders + 1] = name end
        elseif lapses > now - window then
          if held > 0 then used = used + held; oldest = math.min(oldest or lapses, lapses) end
        else
          redis.call('HDEL', key, field)
        end
      end
    else
      local time = tonumber(field)
      if time <= now - window or time > now + window then redis.call('HDEL', key, field)
      else used = used + tonumber(value); oldest = math.min(oldest or time, time) end
    end
  end
  if number < ask.number and report < ask.report then
    for _, use in ipairs(ask.uses) do
      if use[1] < window then
        -- At the end of their part of the window, so that none is forgotten too early.
        local time = math.ceil((now - use[1]) / part) * part
        redis.call('HINCRBY', key, string.format('%.0f', time), use[2])
        used = used + use[2]
        oldest = math.min(oldest or time, time)
      end
      own = math.max(0, own - use[2])
    end
  end
  if number <= ask.number then
    if ask.want < own then own = ask.want
    else
      local free = math.max(0, ask.limit - used - others - own)
      local due = math.min(free, math.max(0, ask.waiting - own))
      own = own + math.min(ask.want - own, due + math.floor((free - due) / (2 * live)))
    end
    if own < ask.waiting then
      for _, name in ipairs(holders) do
        redis.call('SADD', '${prefix}wanted:' .. name, ask.caller)
        redis.call('PEXPIRE', '${prefix}wanted:' .. name, window)
      end
    end
    redis.call('HSET', key, 'n' .. node, string.format('%.0f:%.0f:%.0f', own, ask.number, ask.report))
    redis.call('PEXPIRE', key, ARGV[4])
  end
  local grows = -1
  if oldest then grows = math.max(1, oldest + window - now) end
  answers[i] = {own, used, others, grows}
end
return answers
`;
