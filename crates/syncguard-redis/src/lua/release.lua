-- Frees the lock with an id, if it is live. Its counter stays.
--
-- KEYS  index entry of the lock id; it names the lock
-- ARGV  lock id
--
-- Answers 1 if released, 2 if expired, 0 if there is no such lock; or { problem, name }.
local name, refusal = get(KEYS[1])
if not name then
  return refusal or 0
end
local text, refusal = get(name)
if not text then
  return refusal or 0
end
local id, expires = read(text, name)
if not id then
  return expires
end
if id ~= ARGV[1] then
  return 0
end
if expires + TOLERANCE <= now() then
  return 2
end
redis.call('DEL', name, KEYS[1])
return 1
