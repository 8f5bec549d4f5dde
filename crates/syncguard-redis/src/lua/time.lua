-- The server's time in whole milliseconds. Up to the year 5138, Lua prints such a number with all its digits,
-- without string.format.
local clock = redis.call('TIME')
local millis = clock[2] / 1000
local time = clock[1] * 1000 + (millis - millis % 1)

