-- Sets the expiry of a live lock to now plus the TTL, or that of several locks.
--
-- KEYS  index entry of the lock id; it names the lock; if the caller knows the key, the lock (Dragonfly wants it); both for
--       each further lock
-- ARGV  deadline in ms; for each lock the head of its record, TTL + tolerance in ms, the expiry that the lock must have in ms,
--       or an empty text for any expiry
--
-- Answers the new expiry in ms; { MISMATCH, expiry } if the lock has another expiry than expected, { EXPIRED, time } if
-- the lock has expired, { NOT_FOUND, time } if there is no such lock; { LATE, time } or { problem, name }. Only the
-- expiry in the record changes. For several locks, a list of the new expiries, with false for each lock that stays as it is,
-- for whatever reason.
if time - ARGV[1] > 0 then
  return { LATE, time }
end
local name, refusal = get(KEYS[1])
if not name then
  return refusal or { NOT_FOUND, time }
end
local text, refusal = get(name)
if not text then
  return refusal or { NOT_FOUND, time }
end
local id, expires = read(text, name)
if not id then
  return expires
end
if id ~= id_in(ARGV[2]) then
  return { NOT_FOUND, time }
end
if expires + TOLERANCE <= time then
  return { EXPIRED, time }
end
if ARGV[4] ~= '' and expires - ARGV[4] ~= 0 then
  return { MISMATCH, expires }
end
local before, life = expires, ARGV[3]
expires = time + life - TOLERANCE
if expires == before then
  -- Each extend changes the expiry, so that an older extend that expects the old expiry is refused.
  expires = expires + 1
  life = life + 1
end
-- In JSON, a quote inside a text has a backslash before it, so this matches the field alone.
local record, count = string.gsub(text, '("expiresAtMs"%s*:%s*)[^,}%s]+', '%1' .. expires)
if count ~= 1 then
  return { BAD_FIELD, name }
end
-- PEXPIRE comes first: a server whose memory is full refuses SET as the first write of a script, but not after
-- PEXPIRE.
redis.call('PEXPIRE', KEYS[1], life)
redis.call('SET', name, record, 'PX', life)
return expires
