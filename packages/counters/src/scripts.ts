/**
 * The Lua scripts: what Redis does atomically. The first argument of each script is the time. Empty
 * means the clock of Redis, as in production; tests set it. Scripts replicate their effects, so
 * they may read the clock (Redis 5 and newer).
 */
import { DAY_MS, FULL_BUCKET_US, GATE_REMEMBERS, GATE_WINDOW_MS, HOUR_MS, ROUNDING_US } from './rules.ts'

const CLOCK = `
local function micros()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) * 1000 end
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local function millis() return math.floor(micros() / 1000) end
`

/**
 * KEYS: bucket. ARGV: now, rate, ttl, number of requests. Returns how many of them pass, and the
 * debt before (µs, as text). A bucket is stored as its debt: each request that passes adds the time
 * of one token, and the debt falls with time.
 */
const takeToken = `${CLOCK}
local now = micros()
local each = ${FULL_BUCKET_US} / tonumber(ARGV[2])
local debt = 0
local stored = redis.call('GET', KEYS[1])
if stored then
  local at, owed = string.match(stored, '^(%S+) (%S+)$')
  -- If the clock steps back, the debt stays. If the rate was lowered, the debt is at most a full bucket.
  debt = math.min(${FULL_BUCKET_US}, math.max(0, tonumber(owed) - math.max(0, now - tonumber(at))))
end
local granted = math.max(0, math.min(tonumber(ARGV[4]), math.floor((${FULL_BUCKET_US} + ${ROUNDING_US} - debt) / each)))
if granted > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f %.6f', now, debt + granted * each), 'PX', ARGV[3])
end
return {granted, string.format('%.6f', debt)}
`

/** KEYS: failures. ARGV: now. Returns how long the gate stays closed, ms; 0: it is open. */
const checkGate = `${CLOCK}
local oldest = redis.call('LINDEX', KEYS[1], ${GATE_REMEMBERS - 1})
if not oldest then return 0 end
return math.min(${GATE_WINDOW_MS}, math.max(0, tonumber(oldest) + ${GATE_WINDOW_MS} - millis()))
`

/**
 * KEYS: failures, attempts. ARGV: now, attempt, lease. Returns how long the gate stays closed, ms;
 * 0 if the attempt has begun; -1 if the attempts in progress could close the gate.
 */
const beginLogin = `${CLOCK}
local now = millis()
local since = now - ${GATE_WINDOW_MS}
local failures = 0
for _, at in ipairs(redis.call('LRANGE', KEYS[1], 0, ${GATE_REMEMBERS - 1})) do
  if tonumber(at) <= since then break end
  failures = failures + 1
  if failures == ${GATE_REMEMBERS} then return math.min(${GATE_WINDOW_MS}, tonumber(at) - since) end
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if failures + redis.call('ZCARD', KEYS[2]) >= ${GATE_REMEMBERS} then return -1 end
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[3]), ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 0
`

/** KEYS: failures, attempts. ARGV: now, attempt, `failed` or `undone`, ttl of the failures. */
const endLogin = `${CLOCK}
redis.call('ZREM', KEYS[2], ARGV[2])
if ARGV[3] ~= 'failed' then return 0 end
redis.call('LPUSH', KEYS[1], string.format('%.0f', millis()))
redis.call('LTRIM', KEYS[1], 0, ${GATE_REMEMBERS - 1})
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 0
`

/** Newest entries of one read. Only windows larger than the defaults need more. */
const READ_NEWEST = 24

/** Expired reservations that one call removes. The next call removes more. */
const CLEAR_AT_ONCE = 500

/**
 * KEYS: generation, reserved, then the flood key of each item. ARGV: now, lease, ttl, number of
 * window sets, three numbers for each set (pause ms, per hour, per day; -1: no limit), then id and
 * window set of each item. Returns nil if the generation is not ready, else a number for each item:
 * 0 if reserved, else the first exceeded window (1 to 3) + its wait (ms) × 4.
 *
 * An expired reservation contains its flood key. It has the hash tag of KEYS, so it is on the same
 * node, although not in KEYS.
 */
const reserveFlood = `${CLOCK}
local generation = redis.call('GET', KEYS[1])
if not generation or string.sub(generation, 1, 6) ~= 'ready:' then return nil end
local now = millis()
local lease, ttl, sets = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ${CLEAR_AT_ONCE})
for _, member in ipairs(expired) do
  local id, key = string.match(member, '^(%S+) (.+)$')
  redis.call('ZREM', key, id)
end
if #expired > 0 then redis.call('ZREM', KEYS[2], unpack(expired)) end

local verdicts = {}
local leases = {}
for i = 3, #KEYS do
  local key = KEYS[i]
  local arg = 5 + sets * 3 + (i - 3) * 2
  local id = ARGV[arg]
  local set = 5 + tonumber(ARGV[arg + 1]) * 3
  local newest = redis.call('ZRANGE', key, -${READ_NEWEST}, -1, 'WITHSCORES')
  local held = false
  for j = 1, #newest, 2 do
    if newest[j] == id then held = true end
  end
  if not held and #newest / 2 == ${READ_NEWEST} then held = redis.call('ZSCORE', key, id) ~= false end
  -- A message of an attempt that has failed, or is in progress: it counts from now on.
  if held and redis.call('ZREM', KEYS[2], id .. ' ' .. key) == 1 then
    redis.call('ZREM', key, id)
    newest = redis.call('ZRANGE', key, -${READ_NEWEST}, -1, 'WITHSCORES')
    held = false
  end
  local count = #newest / 2

  if held then
    verdicts[i - 2] = 0
  else
    local wait, window = 0, 0
    -- The time of the nth newest entry; nil if there are fewer.
    local function nth(n)
      if n <= count then return tonumber(newest[#newest - n * 2 + 2]) end
      if count < ${READ_NEWEST} then return nil end
      local found = redis.call('ZREVRANGE', key, n - 1, n - 1, 'WITHSCORES')
      return found[2] and tonumber(found[2])
    end
    local function check(n, length, which)
      if n < 0 or length <= 0 then return end
      local at = now
      if n > 0 then at = nth(n) end
      if at and at + length > now then
        if window == 0 then window, wait = which, at + length - now end
      end
    end
    check(1, tonumber(ARGV[set]), 1)
    check(tonumber(ARGV[set + 1]), ${HOUR_MS}, 2)
    check(tonumber(ARGV[set + 2]), ${DAY_MS}, 3)
    if window == 0 then
      if count > 0 and (count == ${READ_NEWEST} or tonumber(newest[2]) <= now - ${DAY_MS}) then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now - ${DAY_MS})
      end
      redis.call('ZADD', key, now, id)
      redis.call('PEXPIRE', key, ttl)
      leases[#leases + 1] = now + lease
      leases[#leases + 1] = id .. ' ' .. key
    end
    verdicts[i - 2] = wait * 4 + window
  end
end
if #leases > 0 then
  redis.call('ZADD', KEYS[2], unpack(leases))
  redis.call('PEXPIRE', KEYS[2], ttl)
end
return verdicts
`

/** KEYS: reserved, then the flood key of each item. ARGV: now, then the id of each item. */
const releaseFlood = `
for i = 2, #KEYS do
  redis.call('ZREM', KEYS[i], ARGV[i])
  redis.call('ZREM', KEYS[1], ARGV[i] .. ' ' .. KEYS[i])
end
return 0
`

/**
 * KEYS: reserved, then the flood key of each item. ARGV: now, ttl, then id and time of each item. A
 * reservation that has not expired is in the window already, so removing its lease confirms it.
 */
const confirmFlood = `
for i = 2, #KEYS do
  local id = ARGV[i * 2 - 1]
  if redis.call('ZREM', KEYS[1], id .. ' ' .. KEYS[i]) == 0 then
    redis.call('ZADD', KEYS[i], 'NX', ARGV[i * 2], id)
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return 0
`

/** KEYS: count. ARGV: now, messages, ttl. */
const countDaily = `
local total = redis.call('INCRBY', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return total
`

/** KEYS: count. ARGV: now, total, ttl. */
const raiseDaily = `
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 0
`

/** KEYS: generation. ARGV: now, token. Returns 1 if it is ready, else starts a rebuild. */
const beginBuilding = `
local generation = redis.call('GET', KEYS[1])
if generation and string.sub(generation, 1, 6) == 'ready:' then return 1 end
redis.call('SET', KEYS[1], 'building:' .. ARGV[2])
return 0
`

/**
 * KEYS: generation. ARGV: now, token. Returns 1 if the generation is ready. Another token, or none,
 * means that another rebuild has started or that the store was emptied.
 */
const finishBuilding = `
local generation = redis.call('GET', KEYS[1])
if generation == 'building:' .. ARGV[2] then
  redis.call('SET', KEYS[1], 'ready:' .. ARGV[2])
  return 1
end
if generation and string.sub(generation, 1, 6) == 'ready:' then return 1 end
return 0
`

/** KEYS: lock. ARGV: now, token, ttl. Acquires or renews the lock. */
const holdLock = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`

/** KEYS: lock. ARGV: now, token. Releases the lock. */
const dropLock = `
if redis.call('GET', KEYS[1]) == ARGV[2] then redis.call('DEL', KEYS[1]) end
return 0
`

/** KEYS: text. ARGV: now. Returns the time (ms, as text), and the text if there is one. */
const readText = `${CLOCK}
local text = redis.call('GET', KEYS[1])
local now = string.format('%.0f', millis())
if text then return {now, text} end
return {now}
`

/**
 * KEYS: text. ARGV: now, 1 if a text is expected (else 0), the expected text, the new text, ttl.
 * Returns nil after the change. Otherwise the text is another one: returns what `readText` returns.
 */
const writeText = `${CLOCK}
local text = redis.call('GET', KEYS[1])
local isExpected = ARGV[2] == '0' and not text
if ARGV[2] == '1' and text then isExpected = text == ARGV[3] end
if isExpected then
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
  return nil
end
local now = string.format('%.0f', millis())
if text then return {now, text} end
return {now}
`

/** All scripts. A new connection loads them, so that no call misses its script. */
export const SCRIPTS = {
  takeToken,
  checkGate,
  beginLogin,
  endLogin,
  reserveFlood,
  releaseFlood,
  confirmFlood,
  countDaily,
  raiseDaily,
  beginBuilding,
  finishBuilding,
  holdLock,
  dropLock,
  readText,
  writeText,
} as const

export type ScriptName = keyof typeof SCRIPTS
