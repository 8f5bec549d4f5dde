-- Reads fence counters.
--
-- KEYS  counters
--
-- Answers a list with the digits of each counter; NOT_FOUND for a missing counter; { problem, name } for a corrupt one.
local answer = {}
for number, name in ipairs(KEYS) do
  local text, refusal = get(name)
  if refusal and refusal.err then
    return refusal
  end
  if refusal or text and not string.find(text, '^%d+$') then
    answer[number] = { FENCE_CORRUPT, name }
  else
    answer[number] = text or NOT_FOUND
  end
end
return answer
