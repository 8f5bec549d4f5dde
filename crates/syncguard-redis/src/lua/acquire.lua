-- Takes a lock if it is free.
--
-- KEYS  lock, fence counter, index entry of the lock id
-- ARGV  head of the record, TTL + tolerance in ms, deadline in ms, the fields for people as the inside of a JSON object; and
--       with a fence window: the least fence, the limit of the counter, the time in ms from which on the lock may be
--       granted, or 0
--
-- Answers one text of the lock id, the fence (15 digits) and the expiry in ms; { REPEATED, that text } if
-- the live lock already has this id; if another lock id holds the key, the ms after which the lock is free
-- at the latest, or { POLLED, those ms } if the record has no holder; { TAKEN, digits of the
-- counter } or { EARLY, ms to wait } outside the window; { LATE, time } or { problem, name }. Nothing is
-- written in these cases.
local MAX_FENCE = 900000000000000
local AT_LEAST, BELOW, NOT_BEFORE = ARGV[5], ARGV[6], ARGV[7]
local ID = id_in(ARGV[1])

local refusal
if type(text) == 'table' then
  text, refusal = get(KEYS[1])
  return refusal
end
if time - ARGV[3] > 0 then
  return { LATE, time }
end
local held
if text then
  local id, expires, fence, _, _, people = read(text, KEYS[1])
  if not id then
    return expires
  end
  if expires + TOLERANCE > time then
    if id == ID then
      return { REPEATED, id .. fence .. string.format('%.0f', expires) }
    end
    local left = expires + TOLERANCE - time
    held = people.holder and left or { POLLED, left }
  end
end

local counter
if AT_LEAST then
  counter, refusal = get(KEYS[2])
  if refusal and refusal.err then
    return refusal
  end
  -- A corrupt counter stays as it is, and INCR below finds the fault.
  local number = counter and tonumber(counter)
  if number and number >= tonumber(BELOW) then
    return { TAKEN, counter }
  end
  if time < tonumber(NOT_BEFORE) then
    return { EARLY, NOT_BEFORE - time }
  end
end
if held then
  return held
end

-- The counter comes first, so that a fault of the counter leaves no lock behind.
local fence = redis.pcall('INCR', KEYS[2])
if type(fence) == 'table' then
  if string.find(fence.err, 'WRONGTYPE', 1, true) or string.find(fence.err, 'integer', 1, true)
    or string.find(fence.err, 'overflow', 1, true) then
    return { FENCE_CORRUPT, KEYS[2] }
  end
  return fence
end
if fence > MAX_FENCE or fence < 1 then
  redis.call('DECR', KEYS[2])
  return { fence < 1 and FENCE_CORRUPT or FENCE_EXHAUSTED, KEYS[2] }
end

if not redis.call('SET', KEYS[3], KEYS[1], 'PX', ARGV[2], 'NX') then
  -- The index entry is left over from an earlier hold of this lock, or belongs to another lock.
  if redis.pcall('GET', KEYS[3]) ~= KEYS[1] then
    redis.call('DECR', KEYS[2])
    return { LOCK_ID_IN_USE, KEYS[3] }
  end
  redis.call('SET', KEYS[3], KEYS[1], 'PX', ARGV[2])
end
if AT_LEAST and fence < tonumber(AT_LEAST) then
  redis.call('SET', KEYS[2], AT_LEAST)
  fence = tonumber(AT_LEAST)
end
-- Not %d, which has 32 bits on a 32-bit server.
local digits = string.format('%015.0f', fence)
local expires = time + ARGV[2] - TOLERANCE .. '' -- a text, made once for both uses
redis.call('SET', KEYS[1],
  ARGV[1] .. digits .. '","acquiredAtMs":' .. time .. ',"expiresAtMs":' .. expires .. ',' .. ARGV[4] .. '}', 'PX', ARGV[2])
return ID .. digits .. expires
