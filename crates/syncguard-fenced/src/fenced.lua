-- KEYS[1]: the highest fence. ARGV[1]: the fence of this writer; then for each command the number of its words, and the words.
if #ARGV[1] > 15 or not string.find(ARGV[1], '^%d+$') then
  return redis.error_reply('ERR the fence of the writer is no number of up to 15 digits')
end
-- An error after the first write would not take it back, so the numbers of words are looked at first.
local at = 2
while at <= #ARGV do
  local words = string.find(ARGV[at], '^%d+$') and tonumber(ARGV[at]) or 0
  -- `unpack` has room for 8000 values, and needs three itself.
  if words < 1 or words > 7997 or at + words > #ARGV then
    return redis.error_reply('ERR a command of a fenced write has 1 to 7997 words; nothing was written')
  end
  at = at + 1 + words
end
local highest = redis.call('GET', KEYS[1])
if highest and (#highest > 15 or not string.find(highest, '^%d+$')) then
  return redis.error_reply('ERR the key of the fence holds something else')
end
-- 15 digits are exact in a number.
if highest and tonumber(highest) > tonumber(ARGV[1]) then
  return tonumber(highest)
end
redis.call('SET', KEYS[1], ARGV[1])
at = 2
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, last))
  at = last + 1
end
return tonumber(ARGV[1])
