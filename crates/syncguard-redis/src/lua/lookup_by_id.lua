-- Reads the live lock with an id.
--
-- KEYS  index entry of the lock id; it names the lock; if the caller knows the key, the lock (Dragonfly wants it)
-- ARGV  lock id
--
-- Answers { name of the lock, the answer of lookup_by_key.lua }; NOT_FOUND if there is no live lock; or { problem, name }.
local name, refusal = get(KEYS[1])
if not name then
  return refusal or NOT_FOUND
end
local text, refusal = get(name)
if not text then
  return refusal or NOT_FOUND
end
local id, expires, fence, acquired, key, people = read(text, name)
if not id then
  return expires
end
if id ~= ARGV[1] or expires + TOLERANCE <= time then
  return NOT_FOUND
end
return { name, lock(id, expires, fence, acquired, key, people) }
