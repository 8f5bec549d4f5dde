-- Frees the lock with an id, if it is live. Its counter stays.
--
-- KEYS  index entry of the lock id; it names the lock; if the caller knows the key, the lock (Dragonfly wants it)
-- ARGV  lock id, deadline in ms
--
-- Answers 1 if released, { 2, time } if expired, { 0, time } if there is no such lock; { LATE, time } or
-- { problem, name }.
local time = now()
if time - ARGV[2] > 0 then
  return { LATE, time }
end
local name, refusal = get(KEYS[1])
if not name then
  return refusal or { 0, time }
end
local text, refusal = get(name)
if not text then
  return refusal or { 0, time }
end
local id, expires = read(text, name)
if not id then
  return expires
end
if id ~= ARGV[1] then
  return { 0, time }
end
if expires + TOLERANCE <= time then
  return { 2, time }
end
redis.call('DEL', name, KEYS[1])
return 1
