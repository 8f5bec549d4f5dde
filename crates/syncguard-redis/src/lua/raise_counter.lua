-- Raises a fence counter to at least a value. The script needs no deadline: late or repeated, it has the same
-- effect.
--
-- KEYS  fence counter
-- ARGV  the value
--
-- Answers the digits of the counter afterwards, or { problem, name }.
local text, refusal = get(KEYS[1])
if refusal and refusal.err then
  return refusal
end
if refusal or text and not string.find(text, '^%d+$') then
  return { FENCE_CORRUPT, KEYS[1] }
end
-- Lua numbers are exact up to 15 digits.
if text and #text > 15 then
  return { FENCE_EXHAUSTED, KEYS[1] }
end
local raised = ARGV[1]
if text and tonumber(text) >= tonumber(raised) then
  raised = text
end
-- A counter never expires, so PERSIST changes nothing. But after it, a server whose memory is full lets the script go
-- on to SET. Without the right to PERSIST, only such a server refuses.
redis.pcall('PERSIST', KEYS[1])
-- Also if it is high enough: replicas confirm the writes of this connection alone.
redis.call('SET', KEYS[1], raised)
return raised
