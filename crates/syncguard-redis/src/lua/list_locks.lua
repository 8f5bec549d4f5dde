-- Reads the live locks among these records.
--
-- KEYS  locks
--
-- Answers a list with the answer of lookup_by_key.lua for each record.
local answer = {}
for number, name in ipairs(KEYS) do
  local text, refusal = get(name)
  if refusal and refusal.err then
    return refusal
  end
  if not text then
    answer[number] = refusal or NOT_FOUND
  else
    local id, expires, fence, acquired, key, people = read(text, name)
    if not id then
      answer[number] = expires
    elseif expires + TOLERANCE <= time then
      answer[number] = NOT_FOUND
    else
      answer[number] = lock(id, expires, fence, acquired, key, people)
    end
  end
end
return answer
