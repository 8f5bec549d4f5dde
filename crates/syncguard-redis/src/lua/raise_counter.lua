-- Raises a fence counter to at least a value. It needs no deadline: carried out late, or twice, it does
-- nothing but what was asked for.
--
-- KEYS  fence counter
-- ARGV  the value
--
-- Answers the digits of the counter as it is then, or { problem, name }.
local FENCE_CORRUPT, FENCE_EXHAUSTED = -5, -6

local text, refusal = get(KEYS[1])
if refusal and refusal.err then
  return refusal
end
if refusal or text and not string.find(text, '^%d+$') then
  return { FENCE_CORRUPT, KEYS[1] }
end
-- Lua counts 15 digits exactly.
if text and #text > 15 then
  return { FENCE_EXHAUSTED, KEYS[1] }
end
if text and tonumber(text) >= tonumber(ARGV[1]) then
  return text
end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
