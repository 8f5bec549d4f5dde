-- Compares the usual part of each script with the long way alone, on all combinations of these states.
--
-- KEYS  lock, counter, index entry, another index entry, another lock
-- ARGV  head of the record, records of the lock
local names, records = KEYS, ARGV
local clock, time = { '1700000000', '7123' }, 1700000000007
local scripts = {
--SCRIPTS
}

local function put(...)
  redis.call('DEL', unpack(names))
  for number, text in ipairs({ ... }) do
    if text == 'a list' then
      redis.call('RPUSH', names[number], 'x')
    elseif text ~= 'nothing' then
      redis.call('SET', names[number], text, 'PX', 50000)
    end
  end
end

local function stored()
  local all = {}
  for number, name in ipairs(names) do
    -- In seconds: a moment passes between the two ways.
    all[number] = { redis.pcall('GET', name), math.floor(redis.call('PTTL', name) / 1000 + 0.5) }
  end
  return all
end

local states, differ, seen = 0, {}, {}
local function compare(operation, state, keys, arguments)
  local results, answers = {}, {}
  for way = 1, 2 do
    put(unpack(state))
    answers[way] = scripts[operation][way](keys, arguments)
    results[way] = cjson.encode({ answers[way], stored() })
  end
  states = states + 1
  if results[1] ~= results[2] then
    differ[#differ + 1] = cjson.encode({ operation, state, arguments, results })
  end
  local answer = answers[1]
  seen[operation .. ' ' .. (type(answer) == 'table' and tostring(answer.err or answer[1]) or type(answer))] = true
  return answers[1], results[1]
end

local HEAD, LIFE, LABEL = records[1], '31000', '"holder":"h/1"'
for number = 2, #records do
  local record = records[number]
  for _, index in ipairs({ names[1], 'nothing', names[5], 'a list' }) do
    for _, deadline in ipairs({ '1700000000007', '1700000000006' }) do
      local state, own = { record, '5', index }, { names[3], names[1] }
      for _, counter in ipairs({ '5', 'nothing', 'x', '-1', '899999999999999', '900000000000000', 'a list' }) do
        local keys = { names[1], names[2], names[3] }
        compare('acquire', { record, counter, index }, keys, { HEAD, LIFE, deadline, LABEL })
        compare('acquire', { record, counter, index }, keys, { HEAD, LIFE, deadline, LABEL, '7', '9', '0' })
      end
      compare('release', state, own, { HEAD, deadline })
      compare('release', state, { names[3] }, { HEAD, deadline })
      compare('release', state, { names[3], names[1], names[2] }, { HEAD, deadline, '9' })
      for _, expected in ipairs({ '', '1700000030007', '1700000029000' }) do
        local alone, result = compare('extend', state, own, { deadline, HEAD, LIFE, expected })
        compare('extend', state, { names[3] }, { deadline, HEAD, LIFE, expected })
        -- The same lock in a batch: extended in the same way, or left as it is.
        put(unpack(state))
        local before = cjson.encode(stored())
        local both = { names[3], names[1], names[4], names[5] }
        local answer = scripts.extend[1](both, { deadline, HEAD, LIFE, expected, HEAD, LIFE, '' })
        local is_same = cjson.encode({ answer[1], stored() }) == result
        if not is_same and (answer[1] ~= false or cjson.encode(stored()) ~= before) and answer[1] ~= -8 then
          differ[#differ + 1] = cjson.encode({ 'batch', state, alone, answer })
        end
        seen['batch ' .. type(answer[1])] = true
      end
    end
  end
end
local kinds = {}
for kind in pairs(seen) do
  kinds[#kinds + 1] = kind
end
return { states, differ, kinds }
