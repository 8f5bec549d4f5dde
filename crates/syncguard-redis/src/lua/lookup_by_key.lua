-- Reads the live lock of a key.
--
-- KEYS  lock
--
-- Answers { key, lock id, fence, acquisition, expiry, holder, note }, all as texts, the times in ms, and false
-- for a holder or a note that is not stored; 0 if there is no live lock; or { problem, name }.
local text, refusal = get(KEYS[1])
if not text then
  return refusal or 0
end
local id, expires, fence, acquired, key, holder, note = read(text, KEYS[1])
if not id then
  return expires
end
if expires + TOLERANCE <= now() then
  return 0
end
return { key, id, fence, string.format('%.0f', acquired), string.format('%.0f', expires),
  holder or false, note or false }
