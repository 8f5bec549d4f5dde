-- Asks whether the lock of a key is live.
--
-- KEYS  lock
-- ARGV  to delete an old record: the part before a lock id in the name of its index entry, and the ms that
--       the lock must have been over beyond the tolerance; without ARGV the script only reads
--
-- Answers 1 or 0, also if the deletion fails; or { problem, name }.
local text, refusal = get(KEYS[1])
if not text then
  return refusal or 0
end
local id, expires = read(text, KEYS[1])
if not id then
  return expires
end
if expires + TOLERANCE > time then
  return 1
end
if ARGV[1] and time - expires >= TOLERANCE + ARGV[2] then
  local index = ARGV[1] .. id
  redis.pcall('DEL', KEYS[1])
  if redis.pcall('GET', index) == KEYS[1] then
    redis.pcall('DEL', index)
  end
end
return 0
