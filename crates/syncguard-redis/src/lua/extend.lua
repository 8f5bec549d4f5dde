-- Lets the lock with an id live for a TTL from now, if it is live.
--
-- KEYS  index entry of the lock id; it names the lock
-- ARGV  lock id, TTL in ms, TTL + tolerance in ms
--
-- Answers the new expiry in ms as a text; 2 if expired, 0 if there is no such lock; or
-- { problem, name }. Nothing in the record changes but the expiry.
local name, refusal = get(KEYS[1])
if not name then
  return refusal or 0
end
local text, refusal = get(name)
if not text then
  return refusal or 0
end
local id, expires = read(text, name)
if not id then
  return expires
end
if id ~= ARGV[1] then
  return 0
end
local time = now()
if expires + TOLERANCE <= time then
  return 2
end
expires = string.format('%.0f', time + ARGV[2])
-- In JSON a quote inside a text has a backslash before it, so this finds the field and nothing else.
local record, count = string.gsub(text, '("expiresAtMs"%s*:%s*)[^,}%s]+', '%1' .. expires)
if count ~= 1 then
  return { BAD_FIELD, name }
end
redis.call('SET', name, record, 'PX', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return expires
