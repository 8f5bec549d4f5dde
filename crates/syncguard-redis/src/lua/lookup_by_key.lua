-- Reads the live lock of a key.
--
-- KEYS  lock
--
-- Answers { key, lock id, fence, acquisition, expiry, 1 if the record has a holder, otherwise 0 }, all but the
-- last as texts, the times in ms; 0 if there is no live lock; or { problem, name }.
local text, refusal = get(KEYS[1])
if not text then
  return refusal or 0
end
local id, expires, fence, acquired, key, has_holder = read(text, KEYS[1])
if not id then
  return expires
end
if expires + TOLERANCE <= now() then
  return 0
end
return { key, id, fence, string.format('%.0f', acquired), string.format('%.0f', expires),
  has_holder and 1 or 0 }
