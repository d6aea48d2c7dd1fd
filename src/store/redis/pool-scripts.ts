/** The counter of pools of money, and windows of tokens, as one Lua script. What it does is told in `src/store/budget-pools.ts`. */
/** All keys are of one slot; what follows is the server's identity. */
export const prefix = "troupe:{limits}:money:";
export const windowMs = 60_000;
/** Uses of tokens are gathered by this many milliseconds, and count as of the last of them. */
export const gatheredMs = 500;
/** How often a pool's account is told to the database at most. */
const accountMs = 600;
/** For how long a node that was told to fill a pool is trusted to do it. */
const fillMs = 500;
/** The database hears so often of a pool that calls are reserved from, though nothing was spent: others then know that it is in use. */
const inUseMs = 1_000;
/** An account is given that long after the last one although nothing has changed, so that the pool is known to be in use. */
const quietMs = 60_000;
/** A pool is forgotten that long after the last word of it; before that it has ended in the database. */
const forgetMs = 1_800_000;
/** Sums of one account. */
const maxSums = 500;

/**
 * Keys: the node, the epoch of the windows, then a hash for each pool, then one for each window. Arguments: the
 * exchange as JSON, an epoch if there is none, then the times of `PoolTimes`. In a pool's hash are its numbers, `s:<node>` and `h:<node>`: what a node has spent and
 * holds; in a set beside it are the nodes of which the database does not know all. In a window's hash are times with their tokens.
 */
export const counterScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local x = cjson.decode(ARGV[1])
local lapse, good, idle = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local nodes = string.sub(KEYS[1], 1, #KEYS[1] - #x.node)
local known = redis.call('HMGET', KEYS[1], 'number', 'answer')
if not known[1] and not x.isNew then return 'lapsed' end
redis.call('PEXPIRE', KEYS[1], lapse)
local number = tonumber(known[1] or '-1')
if x.number < number then return 'lapsed' end
if x.number == number then return cmsgpack.unpack(known[2]) end

local function whole(value) return string.format('%.0f', value) end
redis.call('SET', KEYS[2], ARGV[2] .. ':' .. whole(now), 'NX')
redis.call('PEXPIRE', KEYS[2], ${forgetMs})
local epoch, began = string.match(redis.call('GET', KEYS[2]), '^(.*):(%d+)$')

local fields = {'granted', 'returned', 'spent', 'held', 'closed', 'touched', 'limit', 'used', 'due', 'filling', 'step', 'filled', 'told'}
local pools = {}
for i, word in ipairs(x.pools) do
  local key = KEYS[i + 2]
  local dirty = key .. ':dirty'
  local row = redis.call('HMGET', key, 'granted', 'returned', 'spent', 'held', 'closed', 'touched', 'limit', 'used', 'due', 'filling',
    'step', 'filled', 'told', 's:' .. x.node, 'h:' .. x.node)
  local pool
  if row[1] then
    pool = {}
    for at, field in ipairs(fields) do pool[field] = tonumber(row[at]) end
  elseif word.install then
    local given = word.install
    pool = {granted = given.granted, returned = 0, spent = 0, held = 0, closed = 0, touched = given.at, limit = given.limit,
      used = now, due = 0, filling = 0, step = given.step, filled = now, told = 0}
  end
  if pool then
    pool.key, pool.dirty, pool.node = key, dirty, {}
    local spent, held = tonumber(row[14] or '0'), tonumber(row[15] or '0')
    if word.spent > spent then
      pool.spent = pool.spent + word.spent - spent
      pool.node['s:' .. x.node] = word.spent
      redis.call('SADD', dirty, x.node)
    end
    pool.held = pool.held + word.held - held
    pool.own, pool.before = word.held, held
    if word.raise and word.raise.granted > pool.granted then
      pool.granted, pool.step, pool.filled, pool.filling = word.raise.granted, word.raise.step, now, 0
      pool.limit = word.raise.limit
    end
    if word.recorded then
      local told = word.recorded
      for node, sum in pairs(told.sums) do
        if tonumber(redis.call('HGET', key, 's:' .. node) or '-1') == sum and not pool.node['s:' .. node] then
          redis.call('SREM', dirty, node)
        end
      end
      pool.touched = math.max(pool.touched, told.at)
      pool.told = math.max(pool.told, told.returned)
      pool.isEnded = told.isEnded
    end
    if word.close or (word.limit and word.limit < pool.limit) or now - pool.used > idle or now >= pool.touched + good then
      pool.closed = 1
    end
    pool.isOpen = pool.closed == 0
  end
  pools[i] = pool or false
end

local windows = {}
for i, word in ipairs(x.windows) do
  local key = KEYS[2 + #x.pools + i]
  local window = {key = key, used = 0, times = {}}
  local all = redis.call('HGETALL', key)
  for at = 1, #all, 2 do
    local time, tokens = tonumber(all[at]), tonumber(all[at + 1])
    if time <= now - ${windowMs} or time > now + ${windowMs} then redis.call('HDEL', key, all[at])
    else window.times[time] = tokens; window.used = window.used + tokens end
  end
  window.add = function(time, tokens)
    local was = window.times[time] or 0
    local is = math.max(0, was + tokens)
    window.times[time] = is
    window.used = window.used + is - was
    redis.call('HSET', key, whole(time), whole(is))
    redis.call('PEXPIRE', key, ${2 * windowMs})
  end
  for _, use in ipairs(word.uses) do
    if use[1] < ${windowMs} then window.add(math.ceil((now - use[1]) / ${gatheredMs}) * ${gatheredMs}, use[2]) end
  end
  for _, fix in ipairs(word.fixes) do
    if window.times[fix[1]] then window.add(fix[1], fix[2])
    elseif fix[2] > 0 then window.add(math.ceil(now / ${gatheredMs}) * ${gatheredMs}, fix[2]) end
  end
  windows[i] = window
end

local function free(pool) return pool.granted - pool.returned - pool.spent - pool.held end
local function decide(call)
  for _, at in ipairs(call.pools) do
    local pool = pools[at + 1]
    if not pool or not pool.isOpen then return {2, at} end
  end
  for _, at in ipairs(call.pools) do
    local pool = pools[at + 1]
    if free(pool) <= 0 or call.amount > free(pool) then pool.isShort = true; return {1, at} end
  end
  local told = {0, 0}
  if call.window then
    local window = windows[call.window + 1]
    local limit = x.windows[call.window + 1].limit
    local bucket = math.ceil(now / ${gatheredMs}) * ${gatheredMs}
    local latest = 0
    if window.used + call.tokens > limit then
      local times, wait, gone = {}, -1, 0
      for time, tokens in pairs(window.times) do if tokens > 0 then times[#times + 1] = time end end
      table.sort(times)
      for _, time in ipairs(times) do
        gone, latest = gone + window.times[time], time
        if wait < 0 and call.tokens <= limit and gone >= window.used + call.tokens - limit then
          wait = math.max(1, time + ${windowMs} - now)
        end
      end
      return {3, 0, window.used, math.max(0, latest + ${windowMs} - now), wait, 0}
    end
    window.add(bucket, call.tokens)
    told = {0, 0, window.used, bucket + ${windowMs} - now, 0, bucket}
  end
  for _, at in ipairs(call.pools) do
    local pool = pools[at + 1]
    pool.held, pool.own, pool.used = pool.held + call.amount, pool.own + call.amount, now
  end
  return told
end
local calls = {}
for i, call in ipairs(x.calls) do calls[i] = decide(call) end

local function account(pool)
  local all = redis.call('HGETALL', pool.key)
  local spenders = {}
  for at = 1, #all, 2 do
    local kind, name = string.match(all[at], '^([hs]):(.*)$')
    if kind == 's' then spenders[#spenders + 1] = name
    -- What a node holds that was not heard of for so long is given back.
    elseif kind == 'h' and name ~= x.node and redis.call('EXISTS', nodes .. name) == 0 then
      pool.held = pool.held - tonumber(all[at + 1])
      redis.call('HDEL', pool.key, all[at])
    end
  end
  if pool.closed == 1 then pool.returned = math.max(pool.returned, pool.granted - pool.spent - pool.held) end
  local names = redis.call('SRANDMEMBER', pool.dirty, ${maxSums})
  local isEnded = pool.closed == 1 and pool.held <= 0 and redis.call('SCARD', pool.dirty) == #names
  -- The last account is of all.
  if isEnded and #spenders <= ${maxSums} then
    if pool.node['s:' .. x.node] and redis.call('HEXISTS', pool.key, 's:' .. x.node) == 0 then spenders[#spenders + 1] = x.node end
    names = spenders
  end
  local sums = {}
  for _, name in ipairs(names) do
    sums[#sums + 1] = name
    sums[#sums + 1] = whole(pool.node['s:' .. name] or tonumber(redis.call('HGET', pool.key, 's:' .. name)))
  end
  return {whole(pool.returned), whole(math.max(0, pool.held)), isEnded and 1 or 0, sums}
end

local answers = {}
for i, pool in ipairs(pools) do
  if not pool then answers[i] = {}
  else
    local word = x.pools[i]
    if pool.closed == 1 then pool.returned = math.max(pool.returned, pool.granted - pool.spent - pool.held) end
    if pool.isEnded and pool.closed == 1 and pool.held <= 0 and redis.call('SCARD', pool.dirty) == 0 then
      redis.call('DEL', pool.key, pool.dirty)
      answers[i] = {}
    else
      local isDirty = redis.call('SCARD', pool.dirty) > 0
      local isNews = isDirty or pool.returned > pool.told or (pool.closed == 1 and pool.held <= 0)
        or now - pool.touched > (pool.used > pool.touched and ${inUseMs} or ${quietMs})
      local due = {}
      if word.look or (isNews and pool.due <= now) then
        pool.due = now + ${accountMs}
        due = account(pool)
      end
      local fill = 0
      if pool.isOpen and pool.filling <= now and (pool.isShort or free(pool) < pool.step / 2) then
        pool.filling = now + ${fillMs}
        fill = 1
      end
      local set = {}
      for _, field in ipairs(fields) do set[#set + 1] = field; set[#set + 1] = whole(pool[field]) end
      for field, value in pairs(pool.node) do set[#set + 1] = field; set[#set + 1] = whole(value) end
      set[#set + 1] = 'h:' .. x.node
      set[#set + 1] = whole(pool.own)
      redis.call('HSET', pool.key, unpack(set))
      if pool.own == 0 then redis.call('HDEL', pool.key, 'h:' .. x.node) end
      redis.call('PEXPIRE', pool.key, ${forgetMs})
      redis.call('PEXPIRE', pool.dirty, ${forgetMs})
      answers[i] = {pool.isOpen and 1 or 0, whole(pool.granted), whole(pool.step), now - pool.filled, fill,
        redis.call('SISMEMBER', pool.dirty, x.node) == 0 and 1 or 0, due}
    end
  end
end
local answer = {now, epoch, now - tonumber(began), answers, calls}
redis.call('HSET', KEYS[1], 'number', whole(x.number), 'answer', cmsgpack.pack(answer))
redis.call('PEXPIRE', KEYS[1], lapse)
return answer
`;
