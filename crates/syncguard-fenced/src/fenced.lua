-- KEYS[1]: the highest fence. ARGV[1]: the fence of this writer; then for each command the number of its words, and the words.
local highest = redis.call('GET', KEYS[1])
if highest and not string.find(highest, '^%d+$') then
  return redis.error_reply('ERR the key of the fence holds something else')
end
-- 15 digits are exact in a number.
if highest and tonumber(highest) > tonumber(ARGV[1]) then
  return tonumber(highest)
end
redis.call('SET', KEYS[1], ARGV[1])
local at = 2
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, last))
  at = last + 1
end
return tonumber(ARGV[1])
