-- Reads the live lock with an id.
--
-- KEYS  index entry of the lock id; it names the lock; if the caller knows the key, the lock (Dragonfly wants it)
-- ARGV  lock id
--
-- Answers like lookup_by_key.lua, with the name of the lock as one more field.
local name, refusal = get(KEYS[1])
if not name then
  return refusal or 0
end
local text, refusal = get(name)
if not text then
  return refusal or 0
end
local id, expires, fence, acquired, key, holder, note = read(text, name)
if not id then
  return expires
end
if id ~= ARGV[1] or expires + TOLERANCE <= now() then
  return 0
end
return { key, id, fence, string.format('%.0f', acquired), string.format('%.0f', expires),
  holder or false, note or false, name }
