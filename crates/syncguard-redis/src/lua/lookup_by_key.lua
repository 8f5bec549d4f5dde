-- Reads the live lock of a key.
--
-- KEYS  lock
--
-- Answers { key, lock id, fence, acquisition, expiry }, all as texts, the times in ms, and after them the name and the
-- text of each field for people; NOT_FOUND if there is no live lock; or { problem, name }.
local text, refusal = get(KEYS[1])
if not text then
  return refusal or NOT_FOUND
end
local id, expires, fence, acquired, key, people = read(text, KEYS[1])
if not id then
  return expires
end
if expires + TOLERANCE <= time then
  return NOT_FOUND
end
return lock(id, expires, fence, acquired, key, people)
