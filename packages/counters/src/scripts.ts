/**
 * What Redis does in one step. Each script takes the time as its first argument: empty means Redis' own clock, which is how the hub runs; tests
 * give one. Scripts replicate by their effects, so that reading the clock is allowed (Redis 5 and newer).
 */
import { DAY_MS, FULL_BUCKET_US, GATE_REMEMBERS, GATE_WINDOW_MS, HOUR_MS } from './rules.ts'

const CLOCK = `
local function micros()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) * 1000 end
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local function millis() return math.floor(micros() / 1000) end
`

/**
 * KEYS: bucket. ARGV: now, rate, ttl, number of requests. Answers how many of them pass, and the debt before (µs, as text).
 * A bucket is its debt: every request that passes adds the time that one token takes to grow, and time pays it off.
 */
const takeToken = `${CLOCK}
local now = micros()
local each = ${FULL_BUCKET_US} / tonumber(ARGV[2])
local debt = 0
local kept = redis.call('GET', KEYS[1])
if kept then
  local at, owed = string.match(kept, '^(%S+) (%S+)$')
  -- A clock that steps back pays nothing off, and a rate that was lowered leaves no more debt than a full bucket.
  debt = math.min(${FULL_BUCKET_US}, math.max(0, tonumber(owed) - math.max(0, now - tonumber(at))))
end
-- A thousandth of a microsecond forgives the rounding of sums such as three thirds.
local granted = math.max(0, math.min(tonumber(ARGV[4]), math.floor((${FULL_BUCKET_US} + 0.001 - debt) / each)))
if granted > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f %.6f', now, debt + granted * each), 'PX', ARGV[3])
end
return {granted, string.format('%.6f', debt)}
`

/** KEYS: failures. ARGV: now. Answers how long the gate stays shut, ms; 0 is open. */
const checkGate = `${CLOCK}
local oldest = redis.call('LINDEX', KEYS[1], ${GATE_REMEMBERS - 1})
if not oldest then return 0 end
return math.min(${GATE_WINDOW_MS}, math.max(0, tonumber(oldest) + ${GATE_WINDOW_MS} - millis()))
`

/** KEYS: failures. ARGV: now, ttl. */
const recordFailure = `${CLOCK}
redis.call('LPUSH', KEYS[1], string.format('%.0f', millis()))
redis.call('LTRIM', KEYS[1], 0, ${GATE_REMEMBERS - 1})
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
`

/** So many newest messages are read at once. Default windows never hold more, so one read tells all; larger ones are asked by rank. */
const READ_NEWEST = 24

/** Lapsed reservations that one call clears; what is left waits for the next. */
const CLEAR_AT_ONCE = 500

/**
 * KEYS: generation, reserved, then the flood key of each item. ARGV: now, lease, ttl, number of window sets, three numbers for each (pause ms, per
 * hour, per day; -1 is no limit), then id and window set of each item.
 * Answers nil where the generation is not ready, else a number for each item: 0 taken, otherwise wait (ms) × 4 + window (1 to 3).
 *
 * A lapsed reservation names its flood key, which has the tag of KEYS: still one slot, though not listed there.
 */
const reserveFlood = `${CLOCK}
local generation = redis.call('GET', KEYS[1])
if not generation or string.sub(generation, 1, 6) ~= 'ready:' then return nil end
local now = millis()
local lease, ttl, sets = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local lapsed = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ${CLEAR_AT_ONCE})
for _, member in ipairs(lapsed) do
  local id, key = string.match(member, '^(%S+) (.+)$')
  redis.call('ZREM', key, id)
end
if #lapsed > 0 then redis.call('ZREM', KEYS[2], unpack(lapsed)) end

local verdicts = {}
local leases = {}
for i = 3, #KEYS do
  local key = KEYS[i]
  local place = 5 + sets * 3 + (i - 3) * 2
  local id = ARGV[place]
  local set = 5 + tonumber(ARGV[place + 1]) * 3
  local newest = redis.call('ZRANGE', key, -${READ_NEWEST}, -1, 'WITHSCORES')
  local count = #newest / 2

  local held = false
  for j = 1, #newest, 2 do
    if newest[j] == id then held = true end
  end
  if not held and count == ${READ_NEWEST} then held = redis.call('ZSCORE', key, id) ~= false end

  if held then
    -- Whoever asks again goes on with it: a lease that still runs begins anew.
    redis.call('ZADD', KEYS[2], 'XX', now + lease, id .. ' ' .. key)
    verdicts[i - 2] = 0
  else
    local wait, window = 0, 0
    -- The time of the nth newest, nil where there are fewer.
    local function nth(n)
      if n <= count then return tonumber(newest[#newest - n * 2 + 2]) end
      if count < ${READ_NEWEST} then return nil end
      local found = redis.call('ZREVRANGE', key, n - 1, n - 1, 'WITHSCORES')
      return found[2] and tonumber(found[2])
    end
    local function trips(n, length, which)
      if n < 0 or length <= 0 then return end
      local at = now
      if n > 0 then at = nth(n) end
      if at and at + length > now then
        if window == 0 then window = which end
        wait = math.max(wait, at + length - now)
      end
    end
    trips(1, tonumber(ARGV[set]), 1)
    trips(tonumber(ARGV[set + 1]), ${HOUR_MS}, 2)
    trips(tonumber(ARGV[set + 2]), ${DAY_MS}, 3)
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

/** KEYS: reserved, then the flood key of each item. ARGV: now, then the id of each. */
const releaseFlood = `
for i = 2, #KEYS do
  redis.call('ZREM', KEYS[i], ARGV[i])
  redis.call('ZREM', KEYS[1], ARGV[i] .. ' ' .. KEYS[i])
end
return 0
`

/**
 * KEYS: reserved, then the flood key of each item. ARGV: now, ttl, then id and time of each. A reservation that still runs is in the window
 * already, so ending its lease makes it final.
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

/** KEYS: generation. ARGV: now, token. Begins a rebuild where one is needed. */
const beginBuilding = `
local generation = redis.call('GET', KEYS[1])
if generation and string.sub(generation, 1, 6) == 'ready:' then return 1 end
redis.call('SET', KEYS[1], 'building:' .. ARGV[2])
return 0
`

/** KEYS: generation. ARGV: now, token. Answers 1 when ready. The mark of another rebuild, or none, means that this one was overtaken or emptied. */
const finishBuilding = `
local generation = redis.call('GET', KEYS[1])
if generation == 'building:' .. ARGV[2] then
  redis.call('SET', KEYS[1], 'ready:' .. ARGV[2])
  return 1
end
if generation and string.sub(generation, 1, 6) == 'ready:' then return 1 end
return 0
`

/** KEYS: lock. ARGV: now, token, ttl. Takes or renews. */
const holdLock = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`

/** KEYS: lock. ARGV: now, token. */
const dropLock = `
if redis.call('GET', KEYS[1]) == ARGV[2] then redis.call('DEL', KEYS[1]) end
return 0
`

/** Loaded when a connection opens, so that a call never finds its script missing. */
export const SCRIPTS = {
  takeToken,
  checkGate,
  recordFailure,
  reserveFlood,
  releaseFlood,
  confirmFlood,
  countDaily,
  raiseDaily,
  beginBuilding,
  finishBuilding,
  holdLock,
  dropLock,
} as const

export type ScriptName = keyof typeof SCRIPTS
