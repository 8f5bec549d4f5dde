-- The answer of a look-up for a lock that `read` has read.
local function lock(id, expires, fence, acquired, key, people)
  local answer = { key, id, fence, string.format('%.0f', acquired), string.format('%.0f', expires) }
  for field, value in pairs(people) do
    answer[#answer + 1] = field
    answer[#answer + 1] = value
  end
  return answer
end

