-- Functions that read records. This text precedes every script of this library.
--
-- A lock is the JSON text {"key","lockId","fence","acquiredAtMs","expiresAtMs"}, in any order. This library
-- adds fields for people, which are texts: "holder", and "note" if there is one. A record that is no lock is never treated as a free
-- lock and never deleted: the script answers { problem, name of the record }, and the client puts the
-- problem into words (reply.rs).

-- The codes of the answers. reply.rs reads them here.
local NOT_FOUND = 0
local RELEASED = 1
local REPEATED = 1
local EXPIRED = 2
local MISMATCH = 3
local POLLED = 4
local TAKEN = 5
local EARLY = 6
local WRONG_TYPE = -1
local NOT_JSON = -2
local BAD_FIELD = -3
local ABSURD_NUMBER = -4
local FENCE_CORRUPT = -5
local FENCE_EXHAUSTED = -6
local LOCK_ID_IN_USE = -7
-- A script that writes has a deadline in the server's time. After the deadline its sender has given up, and the
-- script writes nothing and answers { LATE, time }.
local LATE = -8

local MAX_MILLIS = 9007199254740991 -- 2^53 - 1, up to which Lua and JavaScript are exact
local TOLERANCE = 1000

-- The text under a name, or false if there is none; or nil and the answer that refuses.
local function get(name)
  local value = redis.pcall('GET', name)
  if type(value) ~= 'table' then
    return value
  end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil, { WRONG_TYPE, name }
  end
  return nil, value
end

-- The lock id in the head of a record, which is all before the digits of the fence.
local function id_in(head)
  return string.sub(head, -33, -12)
end

-- The lock in a text: id, expiry, fence, acquisition, key, and a table of the fields for people; or nil and
-- the answer that refuses.
local function read(text, name)
  -- The order and spelling that both libraries write, for keys without escapes.
  local key, id, fence, acquired, expires, rest = string.match(text,
    '^{"key":"([^"\\%c]+)","lockId":"([%w_-]+)","fence":"(%d+)","acquiredAtMs":(%d+),"expiresAtMs":(%d+)()')
  local people, not_for_people = {}, { key = true, lockId = true, fence = true }
  while rest do
    -- A field for people, which this library writes after them.
    local field, value, after = string.match(text, '^,"(%l+)":"([^"\\%c]*)"()', rest)
    if not field or not_for_people[field] then
      break
    end
    people[field], rest = value, after
  end
  if rest and string.sub(text, rest) == '}' then
    acquired, expires = tonumber(acquired), tonumber(expires)
  else
    local ok, record = pcall(cjson.decode, text)
    if not ok or type(record) ~= 'table' then
      return nil, { NOT_JSON, name }
    end
    key, id, fence = record.key, record.lockId, record.fence
    acquired, expires = record.acquiredAtMs, record.expiresAtMs
    people = {}
    for field, value in pairs(record) do
      if type(field) == 'string' and type(value) == 'string' and not not_for_people[field] then
        people[field] = value
      end
    end
    if type(key) ~= 'string' or key == '' or type(id) ~= 'string' or type(fence) ~= 'string'
      or type(acquired) ~= 'number' or type(expires) ~= 'number'
      or string.find(id, '[^%w_-]') or string.find(fence, '%D') then
      return nil, { BAD_FIELD, name }
    end
    if acquired ~= math.floor(acquired) or expires ~= math.floor(expires)
      or acquired < 0 or expires < 0 then
      return nil, { ABSURD_NUMBER, name }
    end
  end
  if #id ~= 22 or #fence ~= 15 then
    return nil, { BAD_FIELD, name }
  end
  if acquired > MAX_MILLIS or expires > MAX_MILLIS then
    return nil, { ABSURD_NUMBER, name }
  end
  return id, expires, fence, acquired, key, people
end

