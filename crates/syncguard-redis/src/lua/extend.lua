-- Lets the lock with an id live for a TTL from now, if it is live.
--
-- KEYS  index entry of the lock id; it names the lock
-- ARGV  lock id, TTL in ms, TTL + tolerance in ms, deadline in ms, the expiry that the lock must have
--       in ms, or nothing if any will do
--
-- Answers the new expiry in ms; { 3, expiry } if it is not the expected one, { 2, time } if expired,
-- { 0, time } if there is no such lock; { LATE, time } or { problem, name }. Nothing in the record
-- changes but the expiry.
local time = now()
if time - ARGV[4] > 0 then
  return { LATE, time }
end
local name, refusal = get(KEYS[1])
if not name then
  return refusal or { 0, time }
end
local text, refusal = get(name)
if not text then
  return refusal or { 0, time }
end
local id, expires = read(text, name)
if not id then
  return expires
end
if id ~= ARGV[1] then
  return { 0, time }
end
if expires + TOLERANCE <= time then
  return { 2, time }
end
if ARGV[5] ~= '' and expires - ARGV[5] ~= 0 then
  return { 3, expires }
end
local before, life = expires, ARGV[3]
expires = time + ARGV[2]
if expires == before then
  -- Each extend changes the expiry, so that an older one that knows the old expiry comes too late.
  expires = expires + 1
  life = life + 1
end
-- In JSON a quote inside a text has a backslash before it, so this finds the field and nothing else.
local record, count = string.gsub(text, '("expiresAtMs"%s*:%s*)[^,}%s]+', '%1' .. expires)
if count ~= 1 then
  return { BAD_FIELD, name }
end
redis.call('SET', name, record, 'PX', life)
redis.call('PEXPIRE', KEYS[1], life)
return expires
