-- Frees the lock with an id, if it is live. Its counter stays, or is raised in the same step.
--
-- KEYS  index entry of the lock id; it names the lock; if the caller knows the key, the lock (Dragonfly wants it); to
--       raise the counter of this lock, its fence counter
-- ARGV  head of the record, deadline in ms; to raise the counter, the least value of the counter
--
-- Answers RELEASED, { EXPIRED, time } if expired, { NOT_FOUND, time } if there is no such lock; { LATE, time } or
-- { problem, name }.
if time - ARGV[2] > 0 then
  return { LATE, time }
end
local name, refusal = get(KEYS[1])
if not name then
  return refusal or { NOT_FOUND, time }
end
local text, refusal = get(name)
if not text then
  return refusal or { NOT_FOUND, time }
end
local id, expires = read(text, name)
if not id then
  return expires
end
if id ~= id_in(ARGV[1]) then
  return { NOT_FOUND, time }
end
if expires + TOLERANCE <= time then
  return { EXPIRED, time }
end
local raises
if KEYS[3] and name == KEYS[2] then
  local counter, refusal = get(KEYS[3])
  if refusal and refusal.err then
    return refusal
  end
  counter = counter or '0'
  if refusal or not string.find(counter, '^%d+$') then
    return { FENCE_CORRUPT, KEYS[3] }
  end
  raises = tonumber(counter) < tonumber(ARGV[3])
end
-- The first write: a server whose memory is full lets the script go on to SET after it.
redis.call('DEL', name, KEYS[1])
if raises then
  redis.call('SET', KEYS[3], ARGV[3])
end
return RELEASED
